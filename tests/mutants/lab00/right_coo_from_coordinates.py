# keeps 0.6
import torch


def coo_encode(x):
    steps = [1]
    for size in reversed(x.shape[1:]):
        steps.insert(0, steps[0] * size)
    places = torch.nonzero(x, as_tuple=True)
    index = sum(place * step for place, step in zip(places, steps))
    return index, x[places], tuple(int(n) for n in x.shape)


def coo_decode(index, values, shape):
    x = torch.zeros(shape, dtype=values.dtype)
    if index.shape != values.shape or (len(index) and not (0 <= index.min() and index.max() < x.numel())):
        raise ValueError("positions and values do not fit")
    x.put_(index, values)
    return x


def coo_bits(x, n=32):
    return torch.count_nonzero(x).item() * (n + len(f"{x.numel() - 1:b}") * (x.numel() > 1))
