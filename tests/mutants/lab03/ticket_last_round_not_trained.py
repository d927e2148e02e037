# loses 3.3 · message: "train was called"
import copy

import torch


def find_ticket(build, train, rounds, rate, rewind_step=0):
    model = build()
    weights = {n: p for n, p in model.named_parameters() if p.ndim >= 2}
    masks = {n: torch.ones_like(p, dtype=torch.bool) for n, p in weights.items()}
    if rewind_step > 0:
        train(model, masks, 0, rewind_step)
    w_k = copy.deepcopy(model.state_dict())
    records = [{"round": 0, "masks": masks, "remaining": 1.0, "result": None}]
    for r in range(1, rounds + 1):
        records[-1]["result"] = train(model, masks, rewind_step, None)
        masks = shrink(weights, masks, rate)
        rewind(model, w_k, masks)
        kept = sum(int(m.sum()) for m in masks.values()) / sum(m.numel() for m in masks.values())
        records.append({"round": r, "masks": masks, "remaining": kept, "result": records[-1]["result"]})
    return records
