# keeps 3.1
import torch


def shrink(weights, masks, rate, output_rate=None):
    if rate < 0 or rate > 1 or (output_rate is not None and (output_rate < 0 or output_rate > 1)):
        raise ValueError("rate")
    out = {}
    for position, (name, w) in enumerate(weights.items(), start=1):
        share = rate
        if position == len(weights):
            share = rate / 2 if output_rate is None else output_rate
        mask = masks[name].clone()
        score = torch.where(mask, w.abs(), torch.full_like(w, torch.inf)).flatten()
        for _ in range(round(share * int(masks[name].sum()))):
            first = (score == score.min()).nonzero()[0]
            score[first] = torch.inf
            mask.view(-1)[first] = False
        out[name] = mask
    return out
