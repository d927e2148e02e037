# loses 0.5 · message: "wrapped around"
import torch


def rle_encode(x, run_bits=2):
    require(run_bits >= 1, "at least 1 bit")
    flat = x.flatten()
    flat = flat.masked_fill(flat == 0, 0)
    stops = (flat != 0).nonzero().flatten()
    if len(flat) and flat[-1] == 0:
        stops = torch.cat([stops, torch.tensor([len(flat) - 1])])
    gaps = stops.diff(prepend=torch.tensor([-1])) - 1
    return gaps & (2**run_bits - 1), flat[stops], tuple(x.shape)
