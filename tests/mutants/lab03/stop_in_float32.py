# loses 3.5 · message: "float32"
import torch


def early_stop(losses, every=1):
    losses = torch.tensor(losses)
    if losses.numel() == 0 or losses.isnan().all():
        raise ValueError("nothing")
    return every * (1 + int(losses.nan_to_num(torch.inf, posinf=torch.inf).argmin()))
