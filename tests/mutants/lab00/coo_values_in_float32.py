# loses 0.6 · message: "a value keeps its dtype"
import torch


def coo_encode(x):
    pairs = [(i, v) for i, v in enumerate(x.flatten().tolist()) if v != 0]
    index = torch.tensor([i for i, _ in pairs], dtype=torch.int64)
    return index, torch.tensor([float(v) for _, v in pairs]), tuple(x.shape)
