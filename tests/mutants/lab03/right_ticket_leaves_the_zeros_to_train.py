# keeps 3.3
import copy

import torch


def find_ticket(build, train, rounds, rate, rewind_step=0):
    model = build()
    masks = {n: torch.ones(p.shape, dtype=torch.bool) for n, p in model.named_parameters() if p.ndim >= 2}
    if rewind_step > 0:
        train(model, masks, 0, rewind_step)
    w_k = copy.deepcopy(model.state_dict())
    records = []
    for r in range(rounds + 1):
        if r:
            masks = shrink({n: p.detach() for n, p in model.named_parameters() if n in masks}, masks, rate)
        model = build()
        model.load_state_dict(w_k)  # train keeps pruned weights at zero
        result = train(model, masks, rewind_step, None)
        alive = torch.tensor([float(m.sum()) for m in masks.values()]).sum()
        total = sum(m.numel() for m in masks.values())
        records.append({"round": r, "masks": masks, "remaining": float(alive) / total, "result": result})
    return records
