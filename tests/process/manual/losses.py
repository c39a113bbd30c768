"""A training loop that keeps the loss of each step, and with it the graph of the step. Runs with the tests' stand-in
for PyTorch."""
import torch

net = torch.nn.Linear(8 << 20)


def batches():
    for _ in range(20):
        yield torch.Tensor(13 << 20)


def train():
    losses = []
    for x in batches():
        losses.append(net(x).square().mean())     # keeps the whole graph of each step
    return losses


history = train()
