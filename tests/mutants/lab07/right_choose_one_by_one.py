# keeps 7.5
import torch


def choose_heads(layers, heads, count, rule, generator, min_per_layer=0):
    def draw(n):
        return int(torch.randint(n, (), generator=generator))

    if rule == "middle":
        left, right, order = (layers - 1) // 2, layers // 2, []
        while left >= 0:
            order += [left] if left == right else [left, right]
            left, right = left - 1, right + 1
        groups = [[layer] for layer in order]
    elif rule in ("top", "bottom"):
        groups = [[layer] for layer in range(layers)]
        if rule == "top":
            groups.reverse()
    elif rule == "random":
        groups = [list(range(layers))]
    elif rule == "no_consecutive":
        pairs, layer = [], 0
        slack = layers % 2 == 0
        while layer < layers:
            if slack and draw(2):
                slack, layer = False, layer + 1
            if layer < layers:
                pairs.append(layer)
            layer += 2
        groups = [pairs]
    else:
        raise ValueError(f"what is {rule}?")
    keep = torch.ones(layers, heads, dtype=torch.bool)
    if count < 0:
        raise ValueError("a negative count")
    for _ in range(count):
        groups = [g for g in ([n for n in group if keep[n].sum() > min_per_layer] for group in groups) if g]
        if not groups:
            raise ValueError("no head is left to remove")
        there = [(n, h) for n in groups[0] for h in range(heads) if keep[n, h]]
        keep[there[draw(len(there))]] = False
    return keep
