# loses 3.3 · message: "no weight was pruned from round 1 to round 2"
import copy

import torch


def find_ticket(build, train, rounds, rate, rewind_step=0):
    model = build()
    weights = {n: p for n, p in model.named_parameters() if p.ndim >= 2}
    dense = {n: torch.ones_like(p, dtype=torch.bool) for n, p in weights.items()}
    if rewind_step > 0:
        train(model, dense, 0, rewind_step)
    w_k = copy.deepcopy(model.state_dict())
    records, masks = [], dense
    for r in range(rounds + 1):
        if r:
            masks = shrink(weights, dense, rate)
            rewind(model, w_k, masks)
        result = train(model, masks, rewind_step, None)
        kept = sum(int(m.sum()) for m in masks.values()) / sum(m.numel() for m in masks.values())
        records.append({"round": r, "masks": masks, "remaining": kept, "result": result})
    return records
