"""Movement pruning: which weights stay is learned by the gradient, from where fine-tuning moves
them.

Each weight W has a score S, and the model computes with W' = W ∘ M(S), M = 1 for the largest
scores. The step has no gradient, so that of S is taken straight through: ∂L/∂S = ∂L/∂W' ∘ W, also
where M is 0. SGD then raises the scores of weights that the loss wants further from zero, and
lowers those of weights that it wants smaller; a pruned one can come back.

::

    from course_lib.pruning import weights

    names = list(weights.encoder_weights(model))
    with movement_pruning(model, names, keep=1.0) as scores:  # W ∘ M(S)
        optimizer = torch.optim.AdamW(scores.groups(model, lr=5e-5, score_lr=1e-2))
        for sparsity in weights.cubic(0.9, steps=10):
            scores.keep = 1 - sparsity              # as few as wanted, in the end
            losses(model, batch).mean().backward()  # any training loop
            optimizer.step()
            optimizer.zero_grad()
    scores.masks()                                  # what stayed; elsewhere weights are 0

Source: Sanh, Wolf & Rush 2020, "Movement Pruning: Adaptive Sparsity by Fine-Tuning", sections 3 and
4.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize
from torch.optim.optimizer import register_optimizer_step_post_hook

from course_lib.checks import check_fraction, check_names, check_same_names
from course_lib.pruning.weights.masks import Masks, apply
from course_lib.ranking import prune_lowest
from course_lib.wrapped import hold_hooks

Share = float | Mapping[str, float]  # that stays: of all, or of each by name


def top_mask(scores: Tensor, keep: float) -> Tensor:
    """True at the ``round(keep · n)`` largest scores (signed), of equal ones the lower index."""
    check_fraction(keep, "keep", "the share to keep")
    backwards = scores.flatten().flip(0)  # of equal ones the last goes
    kept = prune_lowest(backwards, scores.numel() - round(keep * scores.numel()))
    return kept.flip(0).view(scores.shape)


class _Straight(torch.autograd.Function):
    """A mask forwards, and the gradient of the scores themselves backwards."""

    @staticmethod
    def forward(ctx: Any, scores: Tensor, mask: Tensor) -> Tensor:
        return mask.to(scores.dtype)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return gradient, None


class TopV(_Straight):
    """``TopV.apply(scores, keep)``: :func:`top_mask`; backwards the gradient unchanged."""

    @staticmethod
    def forward(ctx: Any, scores: Tensor, keep: float) -> Tensor:  # type: ignore[override]
        return top_mask(scores, keep).to(scores.dtype)


def soft_mask(scores: Tensor, tau: float) -> Tensor:
    """1 where σ(S) > tau (a penalty sets where), else 0; backwards the gradient unchanged."""
    if not 0 <= tau < 1:
        raise ValueError(f"tau is a threshold of σ(S), from 0 to less than 1; got {tau}")
    return _Straight.apply(scores, scores.sigmoid() > tau)


def soft_penalty(scores: Sequence[Tensor], lam: float) -> Tensor:
    """λ · mean of σ(S) over all entries of all matrices together.

    Of use where the share is said ("all", "each"), too: under Adam, whose steps are as large for
    small gradients as for large ones, it lets movement that matters hold out against movement that
    is merely steady (lab 06 measures it).
    """
    if not scores:
        raise ValueError("scores is empty: there is nothing to penalise")
    total = torch.stack([s.sigmoid().sum() for s in scores]).sum()
    return lam * total / sum(s.numel() for s in scores)


def movement(history: Sequence[tuple[Tensor, Tensor]], lr: float) -> Tensor:
    """What SGD at rate ``lr`` leaves in scores that start at 0: −lr · Σ_t g_t ∘ w_t, float64;
    ``history``: (weight, gradient by W') of each step, of one shape.
    """
    if not history:
        raise ValueError("history holds no step: nothing has moved yet")
    return -lr * torch.stack([g.detach().double() * w.detach().double() for w, g in history]).sum(0)


class MovementPruning:
    """The scores of a model's weights while it trains; made by :func:`movement_pruning`.

    Attributes:
        scores: name of a weight -> its nn.Parameter of scores, of its shape.
        keep: the share that stays, or one for each name; set it as training goes on.
        tau: for "soft": the threshold of σ(S).
    """

    def __init__(self, weights: Mapping[str, Tensor], keep: Share, how: str, tau: float) -> None:
        self.scores = {name: nn.Parameter(torch.zeros_like(w)) for name, w in weights.items()}
        self.keep, self.how, self.tau = keep, how, tau
        self._cached: tuple[Any, Masks] | None = None
        self._steps = 0
        self._weights = {id(w) for w in weights.values()}
        self._scores = {id(s) for s in self.scores.values()}
        self._moved: set[int] = set()  # what optimizers have stepped on

    def after_step(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        """Scores have moved: a fused optimizer changes a tensor without a new version."""
        self._steps += 1
        self._moved |= {id(p) for group in optimizer.param_groups for p in group["params"]}

    def refuse_untrained(self) -> None:
        """Raises ValueError if the weights were trained, and their scores were not."""
        if self._moved & self._weights and not self._moved & self._scores:
            raise ValueError(
                "the optimizer holds the weights and not their scores, so the masks mean nothing:"
                " make it inside the block, from scores.groups(model, lr, score_lr) or all"
                " parameters of the model"
            )

    def masks(self) -> Masks:
        """What stays now, True = kept."""
        keep = dict(self.keep) if isinstance(self.keep, Mapping) else self.keep
        key = (self._steps, keep, self.tau, *(s._version for s in self.scores.values()))
        if self._cached is None or self._cached[0] != key:
            self._cached = key, self._chosen()
        return self._cached[1]

    def _chosen(self) -> Masks:
        if self.how == "soft":
            return {name: s.detach().sigmoid() > self.tau for name, s in self.scores.items()}
        if isinstance(self.keep, Mapping):
            check_same_names(self.keep, self.scores, "keep")
            return {name: top_mask(s, self.keep[name]) for name, s in self.scores.items()}
        if self.how == "each":
            return {name: top_mask(s, self.keep) for name, s in self.scores.items()}
        parts = top_mask(torch.cat([s.detach().flatten() for s in self.scores.values()]), self.keep)
        sizes = [s.numel() for s in self.scores.values()]
        return {
            name: part.view(s.shape)
            for (name, s), part in zip(self.scores.items(), parts.split(sizes), strict=True)
        }

    def groups(self, model: nn.Module, lr: float, score_lr: float) -> list[dict[str, Any]]:
        """Parameter groups for an optimizer: the model's own, and the scores without decay."""
        scores = list(self.scores.values())
        own = [p for p in model.parameters() if p.requires_grad and id(p) not in self._scores]
        return [{"params": own, "lr": lr}, {"params": scores, "lr": score_lr, "weight_decay": 0.0}]


class _Masked(nn.Module):
    """The parametrization: W -> W ∘ M(S)."""

    def __init__(self, pruning: MovementPruning, name: str) -> None:
        super().__init__()
        self.scores = pruning.scores[name]
        # in a list: no submodule, and no copy of it in a state dict
        self._pruning, self._name = [pruning], name

    def forward(self, weight: Tensor) -> Tensor:
        return weight * _Straight.apply(self.scores, self._pruning[0].masks()[self._name])


def _write_plain(module: nn.Module, state: dict[str, Any], prefix: str, _: Any) -> None:
    """Add each masked weight under its plain name, beside the scores and the weight itself."""
    for name in module.parametrizations:  # type: ignore[union-attr]
        state[prefix + name] = getattr(module, name).detach()


def _read_plain(module: nn.Module, state: dict[str, Any], prefix: str, *_: Any) -> None:
    """A weight under its plain name stands for the one without its mask, where that is missing."""
    for name in module.parametrizations:  # type: ignore[union-attr]
        if prefix + name in state:
            weight = state.pop(prefix + name)
            state.setdefault(f"{prefix}parametrizations.{name}.original", weight)


@contextmanager
def movement_pruning(
    model: nn.Module, names: Iterable[str], keep: Share = 1.0, how: str = "all", tau: float = 0.1
) -> Iterator[MovementPruning]:
    """Inside the block every weight named is computed with as W ∘ M(S); the scores are parameters
    of the model, and train with it.

    ``torch.nn.utils.parametrize`` is used, so the model's code and the user's training loop (a
    transformers ``Trainer``, too) stay as they are. Make the optimizer inside the block, of
    ``scores.groups(model, lr, score_lr)``, or all parameters at one rate: one of the weights
    without their scores is refused at the end.

    Args:
        names: of weights ("encoder.layer.0.output.dense.weight"), each of one layer alone.
        keep: the share that stays at first, or one for each name; set ``.keep`` on the way.
        how: "all": one threshold for all weights together; "each": for each matrix its own; "soft":
            σ(S) > ``tau``, with a penalty (:func:`soft_penalty`) that decides how many.
        tau: below ½, where scores begin (σ(0) = ½). Sanh et al. have 0.1.

    After the block the weights are 0 where the masks are False, and plain parameters again; after
    an exception they are as they were trained, without zeros. A state dict (a checkpoint of a
    ``Trainer``) written inside the block has every weight W ∘ M(S) under its plain name, so a plain
    model can load it; the scores and W are in it under names with "parametrizations", so a block
    can go on from it.
    """
    check_names([how], ("all", "each", "soft"), "how")
    names = list(names)
    if not names:
        raise ValueError("names is empty: name the weights that are to move")
    parameters = dict(model.named_parameters(remove_duplicate=False))
    check_names(names, parameters, "names")
    for name in names:
        if sum(p is parameters[name] for p in parameters.values()) > 1:
            raise ValueError(f"{name!r} is tied to another weight: leave it out, or untie it")
    found = MovementPruning({name: parameters[name] for name in names}, keep, how, tau)
    modules = {name: model.get_submodule(name.rpartition(".")[0]) for name in names}
    order = {module: list(module._parameters) for module in modules.values()}

    def put_in_order() -> None:
        for module, keys in order.items():
            module._parameters = {key: module._parameters[key] for key in keys}

    # masks are selected by NumPy, which torch.compile would trace
    with hold_hooks() as hooks:
        hooks.callback(put_in_order)  # after the others
        # of any optimizer: the user's own, or one that a Trainer makes
        hooks.callback(register_optimizer_step_post_hook(found.after_step).remove)
        for name, module in modules.items():
            at = module, name.rpartition(".")[2]
            parametrize.register_parametrization(*at, _Masked(found, name), unsafe=True)
            hooks.callback(parametrize.remove_parametrizations, *at, leave_parametrized=False)
        for module in order:
            hooks.callback(module.register_state_dict_post_hook(_write_plain).remove)
            hooks.callback(module.register_load_state_dict_pre_hook(_read_plain).remove)
        yield found
        found.refuse_untrained()
    apply(model, found.masks())
