# keeps 1.7
import torch


class _Holder:
    """Holds the zeros of a model."""

    def __init__(self, model):
        self.parameters = {n: p for n, p in model.named_parameters() if p.ndim >= 2}
        self.masks = {n: torch.ones(p.shape, dtype=torch.bool) for n, p in self.parameters.items()}

    def shrink(self, target):
        for n, p in self.parameters.items():
            n_gone = round(target * p.numel())
            score = p.detach().abs().masked_fill(~self.masks[n], -1.0).flatten()
            gone = score.argsort(stable=True)[:n_gone]
            mask = torch.ones(p.numel(), dtype=torch.bool)
            mask[gone] = False
            self.masks[n] = mask.view(p.shape) & self.masks[n]

    @torch.no_grad()
    def __call__(self):
        for n, p in self.parameters.items():
            p.copy_(torch.where(self.masks[n], p, torch.zeros_like(p)))


def iterative_prune(model, targets, finetune):
    last = 0.0
    for t in targets:
        if t < last or t > 1:
            raise ValueError(f"target {t} after {last}")
        last = t
    holder = _Holder(model)
    for t in targets:
        holder.shrink(t)
        holder()
        finetune(model, post_step=holder)
    return holder.masks
