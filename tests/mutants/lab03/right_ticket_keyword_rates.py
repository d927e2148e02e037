# keeps 3.3
import copy

import torch


def find_ticket(build, train, rounds, rate, rewind_step=0):
    model = build()
    masks = {n: torch.ones(p.shape) > 0 for n, p in model.named_parameters() if len(p.shape) >= 2}
    total = sum(map(torch.Tensor.numel, masks.values()))
    k = rewind_step
    if k > 0:
        train(model, masks, 0, k)
    start = copy.deepcopy(model)
    records = []
    for number in range(1 + rounds):
        if number > 0:
            masks = shrink(weights={n: dict(model.named_parameters())[n].data for n in masks}, masks=masks, rate=rate)
            model = copy.deepcopy(start)
            for n, p in model.named_parameters():
                if n in masks:
                    p.data = torch.where(masks[n], p.data, torch.zeros(()))
        records.append(
            dict(
                result=train(model, masks, k, None),
                remaining=sum(m.count_nonzero() for m in masks.values()).item() / total,
                masks=masks,
                round=number,
            )
        )
    return records
