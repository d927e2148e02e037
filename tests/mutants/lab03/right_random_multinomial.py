# keeps 3.4
import torch


def random_ticket(masks, generator):
    result = {}
    for name, mask in masks.items():
        new, kept = torch.zeros_like(mask), int(mask.count_nonzero())
        if kept:
            new.view(-1)[torch.multinomial(torch.ones(mask.numel()), kept, generator=generator)] = True
        result[name] = new
    return result
