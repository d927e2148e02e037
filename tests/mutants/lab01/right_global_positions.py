# keeps 1.4
import torch


def global_masks(weights, sparsity):
    if not 0 <= sparsity <= 1:
        raise ValueError("sparsity must be between 0 and 1")
    entries = []  # (|w|, position in the order of all layers, name, place)
    for name, w in weights.items():
        if w.dim() > 1:
            for place, value in enumerate(w.flatten().tolist()):
                if value != value:
                    raise ValueError("NaN")
                entries.append((abs(value), len(entries), name, place))
    masks = {name: torch.ones(w.shape, dtype=torch.bool) for name, w in weights.items() if w.dim() > 1}
    for _, _, name, place in sorted(entries)[: round(sparsity * len(entries))]:
        masks[name].view(-1)[place] = False
    return masks
