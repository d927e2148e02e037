# loses 3.4 · message: "whole columns"
import torch


def random_ticket(masks, generator):
    return {n: m[:, torch.randperm(m.shape[1], generator=generator)] for n, m in masks.items()}
