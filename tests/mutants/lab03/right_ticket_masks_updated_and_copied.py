# keeps 3.3
import copy

import torch


def find_ticket(build, train, rounds, rate, rewind_step=0):
    model = build()
    masks = {n: torch.ones_like(p, dtype=torch.bool) for n, p in model.named_parameters() if p.ndim >= 2}
    if rewind_step > 0:
        train(model, copy.deepcopy(masks), 0, rewind_step)
    w_k = copy.deepcopy(model.state_dict())
    records = [{"round": 0, "masks": copy.deepcopy(masks), "remaining": 1.0}]
    records[0]["result"] = train(model, masks, rewind_step, None)
    for r in range(1, rounds + 1):
        masks.update(shrink({n: p for n, p in model.named_parameters() if n in masks}, masks, rate))
        rewind(model, w_k, masks)
        result = train(model, masks, rewind_step, None)
        gone = sum(int((~m).sum()) for m in masks.values())
        remaining = 1 - gone / sum(m.numel() for m in masks.values())
        records.append({"round": r, "masks": copy.deepcopy(masks), "remaining": remaining, "result": result})
    return records
