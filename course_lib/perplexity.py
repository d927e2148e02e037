"""Perplexity of a language model on a text: exp(Σ nll / Σ tokens). The first token of a window has
no prediction; each other token counts once, so a short last window has less weight than the others.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from course_lib.models.decoders import Batches, decoder_inputs
from course_lib.modes import evaluating


def cut_windows(tokens: Tensor, length: int, batch: int = 1) -> list[Tensor]:
    """Token ids (n,) as batches (batch, length) of windows that do not overlap. Two tokens or more
    that are left make a window of their own; a text shorter than a window is refused.
    """
    if tokens.ndim != 1 or len(tokens) < length:
        raise ValueError(f"tokens (n,) must fill a window of {length}, got {tuple(tokens.shape)}")
    full = len(tokens) // length * length
    windows = [*tokens[:full].view(-1, length).split(batch)]
    return windows + ([tokens[None, full:]] if len(tokens) > full + 1 else [])


@torch.no_grad()
def window_losses(model: nn.Module, windows: Batches) -> tuple[Tensor, Tensor]:
    """Of every window Σ −ln p of its tokens, float64, and the number of tokens predicted, int64;
    (windows,) each, on the CPU. Nothing is predicted of or from padding.
    """
    losses, counts = [torch.zeros(0).double()], [torch.zeros(0).long()]
    with evaluating(model):
        for batch in windows:
            inputs = decoder_inputs(model, batch)
            ids = inputs["input_ids"]
            real = inputs.get("attention_mask", torch.ones_like(ids)).bool()
            real = real[:, 1:] & real[:, :-1]  # (B, L − 1)
            for row, y, counted in zip(model(**inputs)[0], ids, real, strict=True):
                x = row[:-1].float()  # (L − 1, vocabulary): one window at a time in float32
                nll = F.cross_entropy(x, y[1:], reduction="none")[counted]
                losses.append(nll.double().sum(0, keepdim=True).cpu())
            counts.append(real.sum(1).cpu())
    return torch.cat(losses), torch.cat(counts)


def perplexity(model: nn.Module, windows: Batches) -> float:
    """exp(Σ nll / Σ tokens) over all windows; ValueError if there is no token to predict."""
    losses, counts = window_losses(model, windows)
    if not int(counts.sum()):
        raise ValueError("windows has no token to predict: is the iterator used up?")
    return math.exp(float(losses.sum()) / int(counts.sum()))
