# loses 3.3 · message: "step 0"
import torch


def find_ticket(build, train, rounds, rate, rewind_step=0):
    model = build()
    masks = {n: torch.ones_like(p, dtype=torch.bool) for n, p in model.named_parameters() if p.ndim >= 2}
    if rewind_step > 0:
        train(model, masks, 0, rewind_step)
    records = []
    for r in range(rounds + 1):
        if r:
            masks = shrink({n: model.get_parameter(n) for n in masks}, masks, rate)
            model = build()
            with torch.no_grad():
                for n, m in masks.items():
                    model.get_parameter(n).mul_(m)
        result = train(model, masks, rewind_step, None)
        kept = sum(int(m.sum()) for m in masks.values()) / sum(m.numel() for m in masks.values())
        records.append({"round": r, "masks": masks, "remaining": kept, "result": result})
    return records
