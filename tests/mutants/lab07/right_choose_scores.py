# keeps 7.5
import torch


def choose_heads(layers, heads, count, rule, generator, min_per_layer=0):
    places = torch.arange(layers).float()
    middle = (places - (layers - 1) / 2).abs() + 0.01 * places
    table = {"top": -places, "bottom": places, "middle": middle, "random": 0 * places}
    if rule == "no_consecutive":
        start = int(torch.rand(1, generator=generator) < 0.5) if layers % 2 == 0 else 0
        table[rule] = torch.where(torch.arange(layers) % 2 == start, 0.0, torch.inf)
    if rule not in table:
        raise ValueError(rule)
    score = table[rule][:, None] * 1000 + torch.rand(layers, heads, generator=generator)
    inside = score.argsort(1).argsort(1)
    score[inside >= heads - min_per_layer] = torch.inf
    order = score.flatten().argsort()
    if count < 0 or count > int(score.isfinite().sum()):
        raise ValueError(f"cannot remove {count} heads by {rule}")
    keep = torch.ones(layers * heads, dtype=torch.bool)
    keep[order[:count]] = False
    return keep.view(layers, heads)
