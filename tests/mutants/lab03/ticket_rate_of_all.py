# loses 3.3 · message: "of all weights"
import copy

import torch


def find_ticket(build, train, rounds, rate, rewind_step=0):
    model = build()
    weights = {n: p for n, p in model.named_parameters() if p.ndim >= 2}
    masks = {n: torch.ones_like(p, dtype=torch.bool) for n, p in weights.items()}
    if rewind_step > 0:
        train(model, masks, 0, rewind_step)
    w_k = copy.deepcopy(model.state_dict())
    records = []
    for r in range(rounds + 1):
        if r:
            *hidden, output = weights
            rates = dict.fromkeys(hidden, rate) | {output: rate / 2}
            for n, p in weights.items():
                alive = int(masks[n].sum())
                share = min(round(rates[n] * p.numel()), alive) / max(1, alive)  # as many in every round
                masks = masks | shrink({n: p}, {n: masks[n]}, share, share)
            rewind(model, w_k, masks)
        result = train(model, masks, rewind_step, None)
        kept = sum(int(m.sum()) for m in masks.values()) / sum(m.numel() for m in masks.values())
        records.append({"round": r, "masks": masks, "remaining": kept, "result": result})
    return records
