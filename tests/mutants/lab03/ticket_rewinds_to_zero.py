# loses 3.3 · message: "step 0"
import copy

import torch


def find_ticket(build, train, rounds, rate, rewind_step=0):
    model = build()
    w_0 = copy.deepcopy(model.state_dict())
    weights = {n: p for n, p in model.named_parameters() if p.ndim >= 2}
    masks = {n: torch.ones_like(p, dtype=torch.bool) for n, p in weights.items()}
    if rewind_step > 0:
        train(model, masks, 0, rewind_step)
    records = []
    for r in range(rounds + 1):
        if r:
            masks = shrink(weights, masks, rate)
            rewind(model, w_0, masks)
        result = train(model, masks, rewind_step, None)
        kept = sum(int(m.sum()) for m in masks.values()) / sum(m.numel() for m in masks.values())
        records.append({"round": r, "masks": masks, "remaining": kept, "result": result})
    return records
