"""A small PyTorch training loop. `--history` switches PyTorch's own memory history on."""
import sys

import loop
import torch

if "--history" in sys.argv:
    torch.cuda.memory._record_memory_history(max_entries=100000)

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(512, 2048), torch.nn.ReLU(), torch.nn.Linear(2048, 512)).cuda()
optimizer = torch.optim.Adam(model.parameters())
inputs = torch.randn(256, 512, device="cuda")
targets = torch.randn(256, 512, device="cuda")


def step():
    loss = (model(inputs) - targets).square().mean()
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()


loop.run("torch", step, torch.cuda.synchronize, 100)
