# keeps 0.5
import torch


def rle_encode(x, run_bits=2):
    if run_bits < 1:
        raise ValueError("run_bits")
    flat = x.flatten()
    stops, zeros = [], 0
    runs = []
    for i, is_zero in enumerate((flat == 0).tolist()):
        if is_zero and zeros < 2**run_bits - 1 and i + 1 < len(flat):
            zeros += 1
        else:
            stops.append(i)
            runs.append(zeros)
            zeros = 0
    return torch.tensor(runs, dtype=torch.long), flat[stops] if stops else flat, tuple(x.shape)


def rle_decode(runs, values, shape):
    x = torch.zeros(int((runs + 1).sum()), dtype=values.dtype)
    if x.shape != torch.Size(shape).numel() and x.numel() != torch.Size(shape).numel():
        raise ValueError("the pairs do not fill the shape")
    places = (runs + 1).cumsum(0) - 1
    x[places[values != 0]] = values[values != 0]
    return x.view(torch.Size(shape))
