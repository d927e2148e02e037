# keeps 3.1
import torch


def _one(w, mask, rate):
    score = w.detach().abs().flatten().double()
    score[~mask.flatten()] = float("inf")  # the dead never go again
    gone = torch.sort(score, stable=True).indices[: round(rate * mask.sum().item())]
    return mask.flatten().index_fill(0, gone, False).reshape(mask.shape)


def shrink(weights, masks, rate, output_rate=None):
    output_rate = rate / 2 if output_rate is None else output_rate
    if not 0.0 <= rate <= 1.0:
        raise ValueError(f"rate {rate}")
    if not 0.0 <= output_rate <= 1.0:
        raise ValueError(f"output_rate {output_rate}")
    last = next(reversed(weights))
    return {n: _one(w, masks[n], output_rate if n == last else rate) for n, w in weights.items()}
