# keeps 3.3
import copy

import torch


def _count(masks):
    return sum(m.sum().item() for m in masks.values()), sum(m.numel() for m in masks.values())


def find_ticket(build, train, rounds, rate, rewind_step=0):
    model = build()
    names = [n for n, p in model.named_parameters() if p.dim() > 1]
    dense = {n: model.get_parameter(n) == model.get_parameter(n) for n in names}
    if rewind_step:
        train(model=model, masks=dense, start=0, stop=rewind_step)
    w_k = copy.deepcopy(model)

    def round_(i, masks):
        fresh = copy.deepcopy(w_k)
        for n, m in masks.items():
            fresh.get_parameter(n).data[~m] = 0
        result = train(fresh, masks, start=rewind_step, stop=None)
        kept, total = _count(masks)
        record = dict(round=i, masks=masks, remaining=kept / total, result=result)
        if i == rounds:
            return [record]
        return [record, *round_(i + 1, shrink({n: fresh.get_parameter(n).detach() for n in names}, masks, rate))]

    return round_(0, dense)
