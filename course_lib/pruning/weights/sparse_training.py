"""Dynamic sparse training: sparse from the first step to the last, while connections move to where
they are useful.

Every so many steps the smallest weights are dropped and as many grown elsewhere: anywhere (SET), or
where the gradient says that a weight would reduce the loss most (RigL). The number of weights never
changes, nor does the cost of a step.

Source: SET: Mocanu et al. 2018, "Scalable training of artificial neural networks with adaptive
sparse connectivity inspired by network science"; RigL: Evci et al. 2020, "Rigging the Lottery:
Making All Tickets Winners".
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from course_lib.checks import check_count, check_fraction, check_mask, check_names
from course_lib.pruning.weights.masks import Masked, Masks, check, holding
from course_lib.pruning.weights.scores import check_generator
from course_lib.ranking import prune_lowest


def drop_and_grow(
    weight: Tensor, dense_grad: Tensor, mask: Tensor, fraction: float
) -> tuple[Tensor, Tensor]:
    """Exchange a share of a layer's connections: drop where |w| is small, grow where |dense_grad|
    is large.

    k = round(fraction * active) of them. One that has just been dropped may grow again, and then
    keeps its value, as in the code of Evci et al. Ties: the lower row-major index is dropped, or
    grown, first.

    Args:
        dense_grad: the gradient at *all* positions (where it has been masked it is zero just where
            it is needed); for SET, random numbers.
        mask: bool, True = active. fraction: the share of the active weights to exchange, in [0, 1].

    Returns:
        A new weight, zero where it has just grown and wherever it is not active, detached; and a
        new mask with as many True as before, both on the device of ``weight``.

    Source: Evci et al. 2020, algorithm 1.
    """
    weight = weight.detach()
    mask = check_mask(mask, "mask", weight.shape).to(weight.device)
    check_fraction(fraction, "fraction", "the share of the active weights to exchange")
    sizes = weight[mask].abs()
    k = round(fraction * len(sizes))
    after = mask.clone()
    after[mask] = prune_lowest(sizes, k, name="an active weight")
    free = ~after
    # from the back, so that among equals the first is left over
    gains = dense_grad.detach().to(mask.device)[free].abs().flip(0)
    after[free] = prune_lowest(gains, len(gains) - k, name="dense_grad").flip(0)
    return weight.masked_fill(~(mask & after), 0), after


def cosine_fraction(step: int, fraction: float, end: int) -> float:
    """The share to exchange at ``step``: fraction/2 * (1 + cos(pi * step/end)), from ``fraction``
    to 0; 0 from ``end`` on. Much is tried at first; later, what was found is trained.

    Source: Evci et al. 2020, section 3, update schedule (f_decay), from Dettmers & Zettlemoyer
    2019.
    """
    check_fraction(fraction, "fraction", "the share of the active weights to exchange")
    check_count(step, "step")
    check_count(end, "end", 1)
    return fraction / 2 * (1 + math.cos(math.pi * step / end)) if step < end else 0.0


class DynamicSparse(Masked):
    """Inside the ``with`` block, connections move while the model trains; their number in every
    layer stays.

    ::

        from course_lib.pruning import weights
        from course_lib.training import fit

        shapes = {name: w.shape for name, w in weights.prunable(model).items()}
        densities = weights.erdos_renyi_densities(shapes, 0.1)
        sparsity = {name: 1 - density for name, density in densities.items()}
        scores = weights.random(weights.prunable(model), generator)
        start = weights.local_masks(scores, sparsity)
        with weights.rigl(model, start, steps=1000) as sparse:
            fit(model, data.train, epochs=2)  # without masks: those would hold the old ones
        sparse.masks

    It works like :class:`course_lib.pruning.weights.masks.Masked`. Every ``every`` steps, before
    ``end``, an exchange takes the place of the optimizer's step, as in algorithm 1: the batch's
    gradients choose what grows (in SET: chance), and are then given up, so ``grad`` is None after
    it. What the optimizer remembers of an exchanged weight (momentum, Adam's moments) is set to
    zero: it belongs to the connection that is gone. An optimizer that is given a closure evaluates
    it after the exchange, and so makes its step.

    Steps are counted for each parameter, so a model may be trained by several optimizers, or in
    several calls of ``fit``. A parameter without a gradient in the batch is left as it is. Two
    blocks with masks for the same weight are refused at the first exchange.

    Attributes:
        masks: the current ones, new tensors after each exchange (those given are never changed).
        exchanges: (step, name, count) of each, in order: steps of this parameter before it, and how
            many connections moved.

    Args:
        masks: to start with, True = active. Parameters without a mask stay dense.
        method: "rigl"; or "set", as Evci et al. run it for comparison: the smallest |w| go, new
            weights start at zero, and the share falls as a cosine. (Mocanu et al. exchange 0.3
            after each epoch, the smallest positive and the largest negative weights apart.)
        steps: the optimizer steps of the whole training.
        every: steps from one exchange to the next, delta T.
        fraction: the share of the active weights exchanged at the start, alpha; then a cosine.
        end: no exchange from this step on, T_end; None: at 3/4 of ``steps``.
        generator: a ``torch.Generator`` for SET.

    Source: Evci et al. 2020, algorithm 1, with their delta T, alpha and T_end; Mocanu et al. 2018,
    algorithm 1.
    """

    def __init__(
        self,
        model: nn.Module,
        masks: Masks,
        method: str,
        *,
        steps: int,
        every: int = 100,
        fraction: float = 0.3,
        end: int | None = None,
        generator: torch.Generator | None = None,
    ) -> None:
        check_names([method], ("rigl", "set"), "method")
        if method == "set":
            check_generator(generator)
        check_count(steps, "steps", 1)
        check_count(every, "every", 1)
        self.end = max(1, round(0.75 * steps)) if end is None else end
        cosine_fraction(0, fraction, self.end)  # raises for bad ones
        check(model, masks)
        super().__init__(model, dict(masks))
        self.method, self.every, self.fraction, self.generator = method, every, fraction, generator
        self.exchanges: list[tuple[int, str, int]] = []
        self._steps = dict.fromkeys(masks, 0)

    def _before_step(self, optimizer: torch.optim.Optimizer) -> None:
        moved = {id(p): p for group in optimizer.param_groups for p in group["params"]}
        exchanged = False
        for name, (parameter, _) in self._held.items():
            if id(parameter) not in moved:
                continue
            step = self._steps[name]
            self._steps[name] += 1
            if step and step % self.every == 0 and step < self.end:
                exchanged = True
                if parameter.grad is not None:
                    self._exchange(optimizer, name, step)
        if exchanged:
            for parameter in moved.values():
                parameter.grad = None  # an optimizer passes over these: this step is the exchange

    @torch.no_grad()
    def _exchange(self, optimizer: torch.optim.Optimizer, name: str, step: int) -> None:
        parameter, pruned = self._held[name]
        if holding(parameter) != [self]:
            raise RuntimeError(
                f"{name!r} is held by another block of masks, which would prune again what grows"
                " here: leave masks= away in fit, and masked(…) around this block"
            )
        gains = parameter.grad
        assert gains is not None
        if self.method == "set" and (chance := self.generator):
            gains = torch.rand(parameter.shape, generator=chance, device=chance.device)
        share = cosine_fraction(step, self.fraction, self.end)
        weight, after = drop_and_grow(parameter, gains, ~pruned.to(parameter.device), share)
        parameter.copy_(weight)
        changed = after == pruned.to(parameter.device)
        for remembered in optimizer.state.get(parameter, {}).values():
            if isinstance(remembered, Tensor) and remembered.shape == parameter.shape:
                remembered.masked_fill_(changed.to(remembered.device), 0)
        self.masks = {**self.masks, name: after}
        self._held[name] = parameter, ~after
        self.exchanges.append((step, name, int(changed.count_nonzero()) // 2))


def rigl(model: nn.Module, masks: Masks, **options: Any) -> DynamicSparse:
    """:class:`DynamicSparse` that grows where the dense gradient is largest."""
    return DynamicSparse(model, masks, "rigl", **options)


def sparse_evolution(model: nn.Module, masks: Masks, **options: Any) -> DynamicSparse:
    """:class:`DynamicSparse` that grows anywhere, with a ``generator``."""
    return DynamicSparse(model, masks, "set", **options)


def erdos_renyi_densities(shapes: Mapping[str, Sequence[int]], density: float) -> dict[str, float]:
    """Layers with many connections per unit are sparser: the density is proportional to
    (sum of dimensions)/(product), those of kernels included. So a layer keeps a number of weights
    proportional to its number of units. One that would need more than all its weights keeps all,
    and the others share the rest.

    Args:
        shapes: shape of each weight by name: (d_out, d_in), (M, C, R, S), …
        density: the fraction of all weights to keep, in [0, 1].

    Returns:
        Densities in [0, 1] that are whole numbers of weights, ``round(density * N)`` together, to
        the weight: the largest remainders are rounded up, first come first.

    Source: Mocanu et al. 2018, equation 1 (epsilon (n_in + n_out)/(n_in n_out)); with kernels, Evci
    et al. 2020, section 3, sparsity distribution.
    """
    check_fraction(density, "density", "the fraction of weights to keep")
    if single := [name for name, shape in shapes.items() if len(shape) < 2]:
        raise ValueError(f"shapes[{single[0]!r}] has no two dimensions, and so connects no units")
    sizes = {name: math.prod(shape) for name, shape in shapes.items()}
    total = round(density * sum(sizes.values()))
    wanted: dict[str, float] = {}
    rest = {name: sum(shape) for name, shape in shapes.items()}  # epsilon times this many stay
    while True:  # each time round at least one more layer is full
        epsilon = (total - sum(wanted.values())) / max(1, sum(rest.values()))
        full = [name for name, units in rest.items() if epsilon * units > sizes[name]]
        if not full:
            break
        wanted |= {name: sizes[name] for name in full}
        rest = {name: units for name, units in rest.items() if name not in full}
    wanted |= {name: epsilon * units for name, units in rest.items()}
    counts = {name: min(n, math.floor(wanted[name] + 1e-9)) for name, n in sizes.items()}
    order = sorted(sizes, key=lambda name: counts[name] - wanted[name])  # stable
    missing = total - sum(counts.values())
    for name in [name for name in order if counts[name] < sizes[name]][:missing]:
        counts[name] += 1
    return {name: counts[name] / max(1, n) for name, n in sizes.items()}
