"""Learned thresholds: each layer finds out by itself how important a token must be to
go on.

Whether a token stays is a step in its score, and a step has no gradient. So while
thresholds are learned, the step is a sigmoid of some temperature: a token is more or
less there. At the end it is a step again, and the model has to be trained on with that
(the *hard phase*): what it learned from tokens that are 20 % there is worth little.

Source: Kim et al. 2022, "Learned Token Pruning for Transformers", section 3.3.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from course_lib.checks import check_count
from course_lib.pruning.tokens.selection import check_cls


class SoftThreshold(nn.Module):
    """σ((n·s − θ)/T) for every token while training; 1 where n·s ≥ θ, else 0, in eval
    mode. [CLS] 1, padding 0.

    ::

        from course_lib.pruning import tokens

        threshold = tokens.SoftThreshold(layers=3, temperature=0.3)
        with tokens.dropping(model, threshold) as drop:  # nothing is dropped yet: soft
            loss = model(**batch).loss + 0.1 * drop.last.soft_share()
            loss.backward()                              # θ has a gradient, too
            threshold.eval()                             # and later, the hard phase:
            loss = model(**batch).loss                   # rows are dropped; train the model on

    Attributes:
        theta: Parameter (layers,), in units of the average token's score; 0 at first,
            so that all tokens stay. What raises it is the sparsity term, which you add
            to the loss.
        temperature: T, may be changed while training: lower is closer to a step.

    Source: Kim et al. 2022, "Learned Token Pruning for Transformers", equations 3 and
    4, with n·s in place of s.
    """

    def __init__(self, layers: int, temperature: float) -> None:
        super().__init__()
        check_count(layers, "layers", 1)
        if not (temperature > 0 and math.isfinite(temperature)):
            raise ValueError(f"temperature is how gradual the step is, above 0, got {temperature}")
        self.theta = nn.Parameter(torch.zeros(layers))
        self.temperature = temperature

    def forward(self, scores: Tensor, layer: int, token_mask: Tensor) -> Tensor:
        """How much of each token goes on.

        Args:
            scores: (B, L), summing to 1 over each text, padding 0.
            layer: whose threshold, from 0.
            token_mask: bool (B, L), True = a real token; or how much of it is left, in
                [0, 1], 0 for padding. n is its sum.

        Returns:
            (B, L) in the dtype of ``scores``. In training mode with a gradient to
            ``theta`` and to the scores.

        Raises:
            ValueError: if the shapes do not fit or column 0 is padding.
        """
        if scores.ndim != 2 or scores.shape != token_mask.shape:
            raise ValueError(
                f"scores and token_mask should both be (B, L), got {tuple(scores.shape)} and"
                f" {tuple(token_mask.shape)}"
            )
        real = token_mask > 0
        check_cls(real)
        n = token_mask.to(scores.dtype).sum(1, keepdim=True)  # (B, 1)
        above = n * scores - self.theta[layer].to(scores.dtype)
        soft = torch.sigmoid(above / self.temperature)
        kept = soft if self.training else (above >= 0).to(scores.dtype)
        cls = torch.arange(scores.shape[1], device=scores.device) == 0  # (L,)
        return kept.masked_fill(cls, 1).masked_fill(~real, 0)
