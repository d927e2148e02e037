"""Functions a question hands to the student's code that must run beside it, because
they change the student's model.

They hold no answer: they do what they are told and note what they saw; the grader
recomputes every mark from the notes.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

OPTIMIZERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "sgd": torch.optim.SGD,
    "adam": torch.optim.Adam,
    "adamw": torch.optim.AdamW,
}


class FineTune:
    """``finetune(model, post_step)``: a few optimizer steps, ``post_step()`` after
    each.

    The optimizer is made once, before the student's code runs, over the parameters that
    the model has then: a student who binds a new ``nn.Parameter`` leaves the optimizer
    with the old one, as in real training.

    Args:
        model: the module the optimizer belongs to.
        x, y: one batch, inputs and labels.
        poison: a parameter whose pruned entries' gradients become NaN (as they do when
            a loss blows up), or None.
        more: a last optimizer step, behind which no ``post_step()`` comes.

    The log has one entry a call: the parameters before, and after every
    ``post_step()``; "replaced": the names of those that are no longer the optimizer's
    when it ends.
    """

    def __init__(
        self,
        model: nn.Module,
        x: Tensor,
        y: Tensor,
        steps: int = 3,
        optimizer: str = "sgd",
        settings: dict[str, Any] | None = None,
        poison: str | None = None,
        more: bool = False,
    ) -> None:
        self.optimizer = OPTIMIZERS[optimizer](model.parameters(), **(settings or {"lr": 0.1}))
        self.x, self.y, self.steps, self.poison, self.more = x, y, steps, poison, more
        self.log: list[dict[str, Any]] = []

    def __call__(self, model: nn.Module, post_step: Callable[[], Any] | None = None) -> None:
        entry: dict[str, Any] = {
            "before": _copy(model),
            "after": [],
            "post_step": callable(post_step),
        }
        self.log.append(entry)
        for _ in range(self.steps):
            self._step(model)
            if post_step is not None:
                post_step()
            entry["after"].append(_copy(model))
        if self.more:
            self._step(model)
        held = {id(p) for group in self.optimizer.param_groups for p in group["params"]}
        entry["replaced"] = [name for name, p in model.named_parameters() if id(p) not in held]

    def _step(self, model: nn.Module) -> None:
        self.optimizer.zero_grad()
        F.cross_entropy(model(self.x), self.y).backward()
        if self.poison is not None:
            weight = model.get_parameter(self.poison)
            if weight.grad is not None:
                weight.grad[weight == 0] = torch.nan
        self.optimizer.step()


class Build:
    """``build()``: an untrained model, the same at every call. ``calls`` says how many
    there were.
    """

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self.calls = 0

    def __call__(self) -> nn.Module:
        self.calls += 1
        return copy.deepcopy(self.model)


class Train:
    """``train(model, masks, start, stop)``: steps ``start`` to ``stop`` of a training,
    pruned weights held at zero.

    A step goes by the sign of the gradients' running mean, which is begun anew in every
    call (written out here: torch.optim takes seconds to import, and a self-check should
    take none). The last gradients stay in the model, as they do in training.

    Args:
        x, y: one batch for each step of the whole training, (steps, batch, …), and its
            labels (steps, batch). Where ``stop`` is None, training goes on to the last
            of them.
        lr: how far a weight goes in a step; one without a gradient stays where it is.

    The log has one entry a call: start, stop, the masks, the state dict before (as it
    came) and after, the modules' modes, and the result. What it says can be tried
    again: :meth:`repeated`.
    """

    def __init__(self, x: Tensor, y: Tensor, lr: float) -> None:
        self.x, self.y, self.lr = x, y, lr
        self.log: list[dict[str, Any]] = []

    def __call__(
        self, model: nn.Module, masks: Mapping[str, Tensor], start: int, stop: int | None
    ) -> dict[str, int]:
        parameters = dict(model.named_parameters())
        for name, mask in masks.items():
            if name not in parameters:
                raise KeyError(
                    f"train(model, masks, start, stop) got a mask for {name!r}, no parameter of the"
                    " model"
                )
            if mask.dtype != torch.bool or mask.shape != parameters[name].shape:
                raise ValueError(
                    "train(model, masks, start, stop) takes bool masks of the parameters' shapes,"
                    f" but that of {name!r} is {mask.dtype} of shape {tuple(mask.shape)}"
                )
        end = len(self.x) if stop is None else stop
        if not 0 <= start <= end <= len(self.x):
            raise ValueError(
                f"training has steps 0 to {len(self.x)}, and cannot go from {start} to {stop}"
            )
        before, modes = _copies(model.state_dict()), [module.training for module in model.modules()]
        pruned = [(parameters[name], ~mask) for name, mask in masks.items()]
        _zero(pruned)
        mean = {name: torch.zeros_like(p, requires_grad=False) for name, p in parameters.items()}
        for step in range(start, end):
            model.zero_grad()
            F.cross_entropy(model(self.x[step]), self.y[step]).backward()
            with torch.no_grad():
                for name, p in parameters.items():
                    if p.grad is not None:
                        p.sub_(mean[name].mul_(0.9).add_(p.grad).sign(), alpha=self.lr)
            _zero(pruned)
        result = {"call": len(self.log) + 1, "steps": end - start}
        after = _copies(model.state_dict())
        said = {
            "start": start,
            "stop": stop,
            "masks": _copies(masks),
            "before": before,
            "after": after,
            "modes": modes,
        }
        self.log.append({**said, "result": dict(result)})
        return result


def repeated(entry: Mapping[str, Any], model: nn.Module, x: Tensor, y: Tensor, lr: float) -> bool:
    """Does a training from the state before, on a model like this, give the state
    after, as an entry of a log says?

    Of every tensor with two or more dimensions nine of ten numbers must agree, not all:
    a step goes by a gradient's sign, which the last bit of a sum may turn where it is
    next to nothing (for a bias before a batch norm it is nothing but that).

    Raises:
        KeyError, TypeError, ValueError or RuntimeError: if the entry is none that
        :class:`Train` wrote of such a model.
    """
    model = copy.deepcopy(model)
    model.load_state_dict(entry["before"])
    for module, mode in zip(model.modules(), entry["modes"], strict=True):
        module.training = bool(mode)
    train = Train(x, y, lr)
    train(model, entry["masks"], entry["start"], entry["stop"])
    right, said = train.log[0]["after"], entry["after"]
    if right.keys() != said.keys() or any(right[name].shape != said[name].shape for name in right):
        return False
    weights = [name for name, value in right.items() if value.ndim >= 2]
    close = (
        torch.isclose(said[name].double(), right[name].double(), atol=lr / 100) for name in weights
    )
    return all(bool(each.double().mean() >= 0.9) for each in close)


def sample_losses(model: nn.Module, batch: Mapping[str, Tensor]) -> Tensor:
    """The cross-entropy of each sample, (B,), of a text classifier on {"input_ids",
    "attention_mask", "labels"}.
    """
    logits = model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"]).logits
    return F.cross_entropy(logits, batch["labels"], reduction="none")


class Losses:
    """``loss_fn(model, batch)``: :func:`sample_losses`. The log has one entry a call:
    how many samples, and was dropout on?
    """

    def __init__(self) -> None:
        self.log: list[dict[str, Any]] = []

    def __call__(self, model: nn.Module, batch: Mapping[str, Tensor]) -> Tensor:
        dropout = any(m.training and m.p > 0 for m in model.modules() if isinstance(m, nn.Dropout))
        self.log.append({"samples": len(batch["labels"]), "dropout": dropout})
        return sample_losses(model, batch)


class Formula:
    """``f(x)`` or ``f(x, y)``: tanh(a·x + b·y) + c, with gradients: stands for a
    student's function where another one that calls it is looked at.

    ``count``: how often it was called.
    """

    def __init__(self, a: float, b: float, c: float = 0.0) -> None:
        self.a, self.b, self.c, self.count = a, b, c, 0

    def __call__(self, x: Tensor, y: Tensor | None = None) -> Tensor:
        self.count += 1
        return torch.tanh(self.a * x + (0.0 if y is None else self.b * y)) + self.c


class WritesIntoMasks:
    """``evaluate(xi, nu)``: how much is kept; with ``scores``, ``importance(xi, nu)``:
    these. It leaves the masks that it got all False: what a caller goes on with must
    not be what it handed out.
    """

    def __init__(self, scores: list[Tensor] | None = None) -> None:
        self.scores = scores

    def __call__(self, xi: Tensor, nu: Tensor) -> float | tuple[Tensor, ...]:
        kept = float(xi.sum() + nu.sum())
        xi.zero_()
        nu.zero_()
        return kept if self.scores is None else tuple(s.clone() for s in self.scores)


class GateLosses:
    """``loss_fn(model, batch, gates)``: a squared error of what the model says times
    one plus a sum of gates. Notes gates, log_alpha and mode at each call.

    Args:
        weights: of the gates in that sum, of their shape. log_alpha: what is trained.
    """

    def __init__(self, weights: Tensor, log_alpha: Tensor) -> None:
        self.weights, self.log_alpha = weights, log_alpha
        self.log: list[dict[str, Any]] = []

    def __call__(self, model: nn.Module, batch: Mapping[str, Tensor], gates: Tensor) -> Tensor:
        self.log.append(
            {
                "gates": gates.detach().clone(),
                "log_alpha": self.log_alpha.detach().clone(),
                "training": all(m.training for m in model.modules()),
            }
        )
        said = model(batch["x"]) * (1 + (self.weights * gates).sum())
        return (said - batch["y"]).square().mean()


def optimizer(model: nn.Module, tensor: Tensor, rates: list[float]) -> torch.optim.Optimizer:
    """SGD with momentum over a model's parameters and a tensor, each with its rate."""
    groups = [
        {"params": list(model.parameters()), "lr": rates[0]},
        {"params": [tensor], "lr": rates[1]},
    ]
    return torch.optim.SGD(groups, momentum=0.5)


@contextmanager
def gated(model: nn.Module, values: Tensor, of: str) -> Iterator[None]:
    """In place of a student's gates that are wrong, so that a later question which uses
    them is judged by itself.

    Args:
        of: "heads": inside the block, the input of each layer's output projection is
            multiplied per head, values (layers, heads) or (layers, B, heads). "parts":
            the output of each feed-forward part, values (layers,) or (layers, B).
    """
    from course_lib.models.attention import output_projections
    from course_lib.models.mlps import mlp_outputs

    def scale_heads(module: nn.Module, args: tuple[Tensor, ...], value: Tensor) -> Any:
        x = args[0]  # (B, L, heads · d)
        wide = value.to(x.dtype).repeat_interleave(x.shape[-1] // value.shape[-1], -1)
        return x * (wide if wide.ndim == 1 else wide[:, None]), *args[1:]

    def scale_part(module: nn.Module, args: Any, out: Tensor, value: Tensor) -> Tensor:
        return out * value.to(out.dtype).view(-1, 1, 1)  # (B, L, features)

    with ExitStack() as hooks:
        modules = output_projections(model) if of == "heads" else mlp_outputs(model)
        for module, value in zip(modules, values, strict=True):
            handle = (
                module.register_forward_pre_hook(partial(scale_heads, value=value))
                if of == "heads"
                else module.register_forward_hook(partial(scale_part, value=value))
            )
            hooks.callback(handle.remove)
        yield


def gates(of: str) -> Callable[[nn.Module, Tensor], AbstractContextManager[None]]:
    """:func:`gated` of "heads" or of "parts", as ``gated(model, values)``."""
    return partial(gated, of=of)


class Hooks:
    """``count``: how many hooks of whatever kind the modules of a model have now, or a
    ``forward`` put in place of their own.
    """

    def __init__(self, model: nn.Module) -> None:
        self.model = model

    @property
    def count(self) -> int:
        kinds = ("_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks")
        hooks = sum(
            len(module.__dict__.get(kind) or ())
            for module in self.model.modules()
            for kind in kinds
        )
        own = [
            (module.__dict__.get("forward"), type(module).forward)
            for module in self.model.modules()
        ]
        return hooks + sum(
            mine is not None and getattr(mine, "__func__", mine) is not right for mine, right in own
        )


class Chance:
    """``state``: that of torch's generator for all. To look at it does not move it."""

    @property
    def state(self) -> Tensor:
        return torch.get_rng_state()


def generator(seed: int) -> torch.Generator:
    """A generator of its own, as a question hands it in."""
    return torch.Generator().manual_seed(seed)


def stream(values: list[Any]) -> Iterator[Any]:
    """The values one after the other, once: as data come from a loader, without a
    length.
    """
    return iter(values)


def _copy(model: nn.Module) -> dict[str, Tensor]:
    return _copies(dict(model.named_parameters()))


def _copies(values: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: value.detach().clone() for name, value in values.items()}


@torch.no_grad()
def _zero(pruned: list[tuple[nn.Parameter, Tensor]]) -> None:
    for parameter, gone in pruned:
        parameter.masked_fill_(gone, 0)


HELPERS: dict[str, Callable[..., Any]] = {
    "build": Build,
    "chance": Chance,
    "finetune": FineTune,
    "formula": Formula,
    "gate_losses": GateLosses,
    "gated": gates,
    "generator": generator,
    "hooks": Hooks,
    "losses": Losses,
    "optimizer": optimizer,
    "stream": stream,
    "train": Train,
    "writes_into_masks": WritesIntoMasks,
}
