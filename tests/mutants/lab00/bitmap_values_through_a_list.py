# loses 0.4 · message: "a value keeps its dtype"
import torch


def bitmap_encode(x):
    return x != 0, torch.tensor([v for v in x.flatten().tolist() if v != 0], dtype=torch.float32)
