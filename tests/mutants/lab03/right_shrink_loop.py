# keeps 3.1
import torch


def shrink(weights, masks, rate, output_rate=None):
    if output_rate is None:
        output_rate = rate / 2
    for r in (rate, output_rate):
        if r < 0 or r > 1:
            raise ValueError(r)
    names = list(weights)
    result = {}
    for name in names:
        sizes = [abs(v) for v in weights[name].flatten().tolist()]
        alive = masks[name].flatten().tolist()
        places = [i for i in range(len(sizes)) if alive[i]]
        places.sort(key=lambda i: (sizes[i], i))
        r = output_rate if name == names[-1] else rate
        for i in places[: round(r * len(places))]:
            alive[i] = False
        result[name] = torch.tensor(alive, dtype=torch.bool).view(weights[name].shape)
    return result
