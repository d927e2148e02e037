"""Batch norm after pruning: its running statistics describe activations that are
gone.
"""

from __future__ import annotations

import copy
import math

import torch
from torch import Tensor, nn

from course_lib.modes import evaluating
from course_lib.pruning.channels.trace import batch_norms


@torch.no_grad()
def recalibrate(model: nn.Module, images: Tensor, batch_size: int = 256) -> None:
    """Re-estimate the running mean and variance of every batch norm in ``model``, from
    scratch, in place.

    A pruned layer's outputs have another mean and variance than the ones batch norm
    remembers, and much of a one-shot collapse is nothing else. No weight is trained
    here: the images run through once, batch norm takes the average over batches, and other
    modules, such as dropout, are in evaluation mode. Modes and momenta come back as they
    were; after an exception the old statistics do too.

    Args:
        images: (N, ...), training images (never test images), moved to the model's
            device batch by batch.
        batch_size: the largest batch. The images are cut into batches of equal size, to
            within one, since a small last batch would weigh as much as the others.

    Source: the pass is ``torch.optim.swa_utils.update_bn`` (Izmailov et al. 2018,
    "Averaging Weights Leads to Wider Optima"), with dropout off.
    """
    if len(images) == 0 or batch_size < 1:
        raise ValueError(
            f"recalibrate needs images and a batch size of at least 1, got {len(images)} and"
            f" {batch_size}"
        )
    norms = [norm for norm in batch_norms(model).values() if norm.track_running_stats]
    before = [(norm.momentum, copy.deepcopy(norm.state_dict())) for norm in norms]
    where = next((p.device for p in model.parameters()), images.device)
    with evaluating(model):
        try:
            for norm in norms:
                norm.reset_running_stats()
                norm.momentum = None  # torch's way to say: average cumulatively
                norm.train()
            for batch in images.tensor_split(math.ceil(len(images) / batch_size)) if norms else ():
                model(batch.to(where))
        except BaseException:
            for norm, (_, state) in zip(norms, before, strict=True):
                norm.load_state_dict(state)
            raise
        finally:
            for norm, (momentum, _) in zip(norms, before, strict=True):
                norm.momentum = momentum
