# loses 3.4 · message: "whole rows"
import torch


def random_ticket(masks, generator):
    return {n: m[torch.randperm(len(m), generator=generator)] for n, m in masks.items()}
