# keeps 3.3
import torch


def find_ticket(build, train, rounds, rate, rewind_step=0):
    model = build()
    masks = {}
    for n, p in model.named_parameters():
        if p.ndim >= 2:
            masks[n] = torch.full(p.shape, True)
    if rewind_step != 0:
        train(model, masks, 0, rewind_step)
    saved = {n: v.clone() for n, v in model.state_dict().items()}
    out = []
    r = 0
    while True:
        record = {"result": train(model, masks, rewind_step, None), "round": r, "masks": masks}
        flat = torch.cat([m.flatten() for m in masks.values()])
        record["remaining"] = flat.double().mean().item()
        out.append(record)
        if r == rounds:
            return out
        masks = shrink({n: model.state_dict()[n] for n in masks}, masks, rate, rate / 2)
        rewind(model, saved, masks)
        r += 1
