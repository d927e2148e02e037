"""Dynamic sparse training: sparse from the first step to the last, while connections
move to where they are useful.

Every so many steps the smallest weights are dropped and as many grown elsewhere:
anywhere (SET), or where the gradient says that a weight would reduce the loss most
(RigL). The number of weights never changes, nor does the cost of a step.

Source: SET: Mocanu et al. 2018, "Scalable training of artificial neural networks with
adaptive sparse connectivity inspired by network science"; RigL: Evci et al. 2020,
"Rigging the Lottery: Making All Tickets Winners".
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from course_lib.checks import check_count, check_fraction, check_mask
from course_lib.pruning.weights.granularity import keep_largest
from course_lib.pruning.weights.masks import Masked, check, holding

METHODS = ("rigl", "set")


# ---- one exchange


def drop_and_grow(
    weight: Tensor, dense_grad: Tensor, mask: Tensor, fraction: float
) -> tuple[Tensor, Tensor]:
    """Exchange a share of a layer's connections: drop where |w| is small, grow where
    |dense_grad| is large.

    k = min(round(fraction * active), inactive) of them. Grown are positions that were
    inactive *before* the drop (the code of Evci et al. lets one that has just been
    dropped come back). Ties: the lower row-major index is dropped, or grown, first.

    Args:
        weight: any shape. Not changed.
        dense_grad: the same shape: the gradient at *all* positions. Where it has been
            masked it is zero just where it is needed. For SET, random numbers.
        mask: bool, the same shape, True = active. Not changed.
        fraction: the share of the active weights to exchange, in [0, 1].

    Returns:
        A new weight, zero where it has just grown and wherever it is not active,
        detached; and a new mask with as many True as before, both on the device of
        ``weight``.

    Raises:
        ValueError: if ``mask`` is not bool of the shape of ``weight``, ``fraction`` is
            outside [0, 1], an active weight or the gradient at an inactive position is NaN.

    Source: Evci et al. 2020, algorithm 1.
    """
    weight = weight.detach()
    mask = check_mask(mask, "mask", weight.shape).to(weight.device)
    check_fraction(fraction, "fraction", "the share of the active weights to exchange")
    sizes = weight[mask].abs()
    # from the back, so that among equals the first is left over
    gains = dense_grad.detach().to(mask.device)[~mask].abs().flip(0)
    k = min(round(fraction * len(sizes)), len(gains))
    after = mask.clone()
    after[mask] = keep_largest(sizes, k, "an active weight")
    after[~mask] = keep_largest(gains, len(gains) - k, "dense_grad").flip(0)
    return weight.masked_fill(~(mask & after), 0), after


def cosine_fraction(step: int, fraction: float, end: int) -> float:
    """The share to exchange at ``step``: fraction/2 * (1 + cos(pi * step/end)), from
    ``fraction`` to 0; 0 from ``end`` on.

    Much is tried at first; later, what was found is trained.

    Raises:
        ValueError: if ``fraction`` is outside [0, 1], ``step`` negative or ``end``
            below 1.

    Source: Evci et al. 2020, section 3, update schedule (f_decay), from Dettmers &
    Zettlemoyer 2019.
    """
    check_fraction(fraction, "fraction", "the share of the active weights to exchange")
    check_count(step, "step")
    check_count(end, "end", 1)
    return fraction / 2 * (1 + math.cos(math.pi * step / end)) if step < end else 0.0


# ---- the training


@dataclass(frozen=True)
class Exchange:
    """One exchange in one layer."""

    step: int  # optimizer steps of this layer before it
    name: str  # of the parameter
    count: int  # dropped, and grown
    fraction: float  # as the cosine says it


class DynamicSparse(Masked):
    """Inside the ``with`` block, connections move while the model trains; their number
    in every layer stays.

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

    It works like :class:`course_lib.pruning.weights.masks.Masked`, with any
    ``torch.optim`` optimizer: inactive weights are zero on entry, after every step, and
    on exit. Every ``every`` steps, before ``end``, an exchange takes the place of the
    optimizer's step, as in algorithm 1: the batch's gradients choose what grows (in
    SET: chance), and are then given up. So ``n`` exchanges cost ``n`` steps, and
    ``grad`` is None after them. What the optimizer remembers of an exchanged weight
    (momentum, Adam's moments) is set to zero: it belongs to the connection that is
    gone.

    - Steps are counted for each parameter, so a model may be trained by several
      optimizers, or in several calls of ``fit``.
    - Two blocks with masks for the same weight are refused at the first exchange.
    - A parameter without a gradient in the batch is left as it is at that exchange.
    - An optimizer that is given a closure evaluates it after the exchange, and so makes
      its step.

    Attributes:
        masks: the current ones, new tensors after each exchange (those given are never
            changed).
        exchanges: what happened, in order.

    Args:
        model: any module.
        masks: to start with, True = active; typically random, see above. Parameters
            without a mask stay dense.
        method: "rigl", or "set".
        steps: the optimizer steps of the whole training.
        every: steps from one exchange to the next, delta T.
        fraction: the share of the active weights exchanged at the start, alpha; it
            falls to zero as a cosine.
        end: no exchange from this step on, T_end; None: at 3/4 of ``steps``.
        generator: for SET, where its randomness comes from.

    Raises:
        ValueError: on a bad argument, before anything is changed.
        TypeError: if SET gets no ``torch.Generator``.
    """

    def __init__(
        self,
        model: nn.Module,
        masks: Mapping[str, Tensor],
        method: str = "rigl",
        *,
        steps: int,
        every: int = 100,
        fraction: float = 0.3,
        end: int | None = None,
        generator: torch.Generator | None = None,
    ) -> None:
        if method not in METHODS:
            raise ValueError(
                f'method is "rigl" (grow by gradient) or "set" (grow by chance), got {method!r}'
            )
        if method == "set" and not isinstance(generator, torch.Generator):
            raise TypeError(
                "set grows by chance and needs a torch.Generator().manual_seed(…), got"
                f" {generator!r}"
            )
        check_count(steps, "steps", 1)
        check_count(every, "every", 1)
        self.end = max(1, round(0.75 * steps)) if end is None else end
        cosine_fraction(0, fraction, self.end)  # raises for bad ones
        check(model, masks)
        super().__init__(model, dict(masks))
        self.method, self.every, self.fraction, self.generator = method, every, fraction, generator
        self.exchanges: list[Exchange] = []
        self._steps = dict.fromkeys(masks, 0)

    def _before_step(self, optimizer: torch.optim.Optimizer) -> None:
        own = {id(p): i for i, (p, _) in enumerate(self._pruned)}
        names = list(self.masks)  # in the order of self._pruned
        members = [p for group in optimizer.param_groups for p in group["params"]]
        exchanged = False
        for parameter in members:
            if (i := own.get(id(parameter))) is None:
                continue
            name = names[i]
            done = self._steps[name]
            self._steps[name] += 1
            if done == 0 or done % self.every or done >= self.end:
                continue
            exchanged = True
            if parameter.grad is not None:
                self._exchange(optimizer, i, name, done)
        if exchanged:
            for parameter in members:
                parameter.grad = None  # an optimizer passes over these: this step is the exchange

    @torch.no_grad()
    def _exchange(self, optimizer: torch.optim.Optimizer, i: int, name: str, step: int) -> None:
        parameter = self._pruned[i][0]
        if holding(parameter) != [self]:
            raise RuntimeError(
                f"{name!r} is held by another block of masks, which would prune again what grows"
                " here: leave masks= away in fit, and do not put masked(…) around dynamic sparse"
                " training"
            )
        before = self.masks[name].to(parameter.device)
        gradient = parameter.grad
        assert gradient is not None
        if self.method == "set":
            assert self.generator is not None
            device = self.generator.device
            gradient = torch.rand(parameter.shape, generator=self.generator, device=device).to(
                parameter.device
            )
        elif gradient.layout != torch.strided:
            gradient = gradient.to_dense()
        share = cosine_fraction(step, self.fraction, self.end)
        weight, after = drop_and_grow(parameter, gradient, before, share)
        parameter.copy_(weight)
        changed = before ^ after
        for remembered in optimizer.state.get(parameter, {}).values():
            if isinstance(remembered, Tensor) and remembered.shape == parameter.shape:
                remembered.masked_fill_(changed.to(remembered.device), 0)
        self.masks = {**self.masks, name: after}
        self._pruned[i] = (parameter, ~after)
        self.exchanges.append(Exchange(step, name, int(changed.count_nonzero()) // 2, share))


def rigl(model: nn.Module, masks: Mapping[str, Tensor], **options: Any) -> DynamicSparse:
    """``with rigl(model, masks, steps=…): train`` grows where the dense gradient is
    largest: see :class:`DynamicSparse` for the options.

    Source: Evci et al. 2020, "Rigging the Lottery", algorithm 1; delta T = 100,
    alpha = 0.3, T_end = 3/4 of the steps.
    """
    return DynamicSparse(model, masks, "rigl", **options)


def sparse_evolution(
    model: nn.Module, masks: Mapping[str, Tensor], **options: Any
) -> DynamicSparse:
    """``with sparse_evolution(model, masks, steps=…, generator=…): train`` grows anywhere
    (SET): see :class:`DynamicSparse` for the options.

    As Evci et al. run it for comparison: the smallest |w| go, new weights start at
    zero, and the share falls as a cosine. (Mocanu et al. exchange a constant 0.3 after
    each epoch, the smallest positive and the largest negative weights apart.)

    Source: Mocanu et al. 2018, algorithm 1.
    """
    return DynamicSparse(model, masks, "set", **options)


# ---- how dense each layer is


def uniform_densities(shapes: Mapping[str, Sequence[int]], density: float) -> dict[str, float]:
    """The same density everywhere.

    Args:
        shapes: shape of each weight by name. (Evci et al. leave out the first layer, which
            stays dense.)
        density: the fraction of weights to keep, in [0, 1].

    Returns:
        Densities in [0, 1] that are whole numbers of weights: ``density * n`` is one
        for every layer, and they add up to ``round(density * N)`` over all layers.

    Raises:
        ValueError: if ``density`` is outside [0, 1].

    Source: Evci et al. 2020, section 3, sparsity distribution ("uniform").
    """
    sizes = {name: math.prod(shape) for name, shape in shapes.items()}
    total = _total(density, sum(sizes.values()))
    counts = _apportioned({name: density * n for name, n in sizes.items()}, sizes, total)
    return {name: counts[name] / max(1, n) for name, n in sizes.items()}


def erdos_renyi_densities(
    shapes: Mapping[str, Sequence[int]], density: float, kernel: bool = True
) -> dict[str, float]:
    """Layers with many connections per unit are sparser: the density is proportional to
    (sum of dimensions)/(product).

    So a layer keeps a number of weights proportional to its number of units rather than
    to their product. A layer that would need more than all its weights keeps all, and
    the others share the rest.

    Args:
        shapes: shape of each weight by name: (d_out, d_in), (M, C, R, S), …
        density: the fraction of all weights to keep, in [0, 1].
        kernel: sum and product over all dimensions (Erdős–Rényi-kernel); False: over
            the first two alone.

    Returns:
        Densities in [0, 1] that are whole numbers of weights, ``round(density * N)``
        together, to the weight.

    Raises:
        ValueError: if ``density`` is outside [0, 1], or a shape has fewer than two
            dimensions.

    Source: Mocanu et al. 2018, equation 1 (epsilon (n_in + n_out)/(n_in n_out)); with
    kernels, Evci et al. 2020, section 3, sparsity distribution.
    """
    sizes, units = {}, {}
    for name, shape in shapes.items():
        sizes[name] = math.prod(shape)
        if len(shape) < 2:
            raise ValueError(
                f"{name!r} has shape {tuple(shape)}, but a layer that connects units has two"
                " dimensions or more"
            )
        # n times the raw density: epsilon times this many weights stay
        units[name] = float(sum(shape) if kernel else sum(shape[:2]) * math.prod(shape[2:]))
    total = _total(density, sum(sizes.values()))
    full: set[str] = set()
    while True:  # each time round at least one more layer is full
        rest = {name: u for name, u in units.items() if name not in full and sizes[name]}
        left = total - sum(sizes[name] for name in full)
        epsilon = left / sum(rest.values()) if rest else 0.0
        over = {name for name, u in rest.items() if epsilon * u > sizes[name]}
        if not over:
            break
        full |= over
    wanted = {
        name: float(sizes[name]) if name in full else epsilon * rest.get(name, 0.0)
        for name in sizes
    }
    counts = _apportioned(wanted, sizes, total)
    return {name: counts[name] / max(1, n) for name, n in sizes.items()}


def _apportioned(
    wanted: Mapping[str, float], sizes: Mapping[str, int], total: int
) -> dict[str, int]:
    """Whole numbers next to those wanted that add up to ``total``: the largest
    remainders are rounded up, first come first.
    """
    counts = {name: min(sizes[name], math.floor(w + 1e-9)) for name, w in wanted.items()}
    order = sorted(wanted, key=lambda name: counts[name] - wanted[name])  # stable
    missing = total - sum(counts.values())
    for name in [name for name in order if counts[name] < sizes[name]][:missing]:
        counts[name] += 1
    return counts


def _total(density: float, n: int) -> int:
    return round(check_fraction(density, "density", "the fraction of weights to keep") * n)
