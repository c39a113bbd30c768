"""A training loop that goes on, and keeps each loss with its graph: what `culprit tensors PID` looks at."""
import time

import torch

net = torch.nn.Linear(8 << 20)
losses = []
for _ in range(600):
    losses.append(net(torch.Tensor(1 << 20)).square().mean())
    open("first_loss", "w").close()
    time.sleep(0.05)
