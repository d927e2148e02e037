# keeps 7.4
import torch


def ablate_each(evaluate, layers, heads):
    full = evaluate(torch.ones(layers, heads).bool())
    off = torch.eye(layers * heads).bool().view(-1, layers, heads)
    return torch.tensor([evaluate(~xi) for xi in off]).view(layers, heads) - full
