"""Zeros by training: the proximal step of an L1 penalty, plain and reweighted.

A subgradient of λ|w| pushes towards zero and over it, so no weight ever *is* zero. The proximal
step asks instead which value minimises ½(v − w)² + t|v|: the answer, :func:`soft_threshold`, is
exactly 0 for every |w| ≤ t.

::

    from course_lib.pruning import weights
    from course_lib.training import fit

    l1 = Proximal(weights.prunable(model).values(), lam=3e-4)

    def sgd(parameters):   # each optimizer.step() is followed by the proximal step
        return l1.attach(torch.optim.SGD(parameters, lr=0.1))

    fit(model, data.train, epochs=1, optimizer=sgd)
    l1.reweight(eps=0.01)  # from now on, large weights are let alone and small ones pushed out

Source: Parikh & Boyd 2014, "Proximal Algorithms", section 6.5.2; Candès, Wakin & Boyd 2008,
"Enhancing Sparsity by Reweighted ℓ1 Minimization", section 2; for networks, Guo et al. 2019,
"Reweighted Proximal Pruning for Large-Scale Language Representation".
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer


def soft_threshold(w: Tensor, t: float | Tensor) -> Tensor:
    """sign(w)·max(|w| − t, 0): the proximal operator of t·|·|, for one threshold ≥ 0 or one for
    each entry. Exact zeros where |w| ≤ t; dtype and shape of ``w``.
    """
    t = torch.as_tensor(t, dtype=w.dtype, device=w.device)
    if not bool((t >= 0).all()):
        raise ValueError("t is a threshold ≥ 0 of the proximal operator; it is negative or NaN")
    return w.sign() * (w.abs() - t).clamp(min=0)


def reweighted(weight: Tensor, lam: float, eps: float) -> Tensor:
    """λ/(|w| + eps), a penalty for each weight: what is large is let alone."""
    if not eps > 0:
        raise ValueError(f"eps keeps the penalty of a weight of 0 finite: positive; got {eps}")
    return lam / (weight.detach().abs() + eps)


class Proximal:
    """An L1 penalty on these parameters, as a proximal step of lr·λ after every step of an
    optimizer; λ ≥ 0 is the same for each weight until :meth:`reweight`.
    """

    def __init__(self, parameters: Iterable[nn.Parameter], lam: float) -> None:
        if not lam >= 0:
            raise ValueError(f"lam is the weight of the penalty and not negative, got {lam}")
        self.lam = lam
        self._lam: dict[nn.Parameter, float | Tensor] = dict.fromkeys(parameters, lam)

    def reweight(self, eps: float, lam: float | None = None) -> None:
        """From now on every weight has the penalty λ/(|w| + eps) of its present value."""
        self._lam = {p: reweighted(p, self.lam if lam is None else lam, eps) for p in self._lam}

    def attach(self, optimizer: Optimizer) -> Optimizer:
        """Follow every step of ``optimizer``, which is returned, at its groups' learning rates."""
        optimizer.register_step_post_hook(self._after)
        return optimizer

    @torch.no_grad()
    def step(self, lr: float, parameters: Iterable[nn.Parameter] | None = None) -> None:
        """The proximal step of lr·λ alone, for training loops that call something after each step
        but do not show their optimizer; ``parameters``: of these, None: of all.
        """
        for p in self._lam if parameters is None else parameters:
            if (lam := self._lam.get(p)) is not None:
                p.copy_(soft_threshold(p, lr * lam))

    def _after(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        for group in optimizer.param_groups:
            self.step(group["lr"], group["params"])
