"""Masks: which weights are kept.

A mask is a bool tensor of the shape of its parameter, True = kept. Masks live in a plain dict
beside the model, keyed by parameter name, not in the module: so a masked model can be copied, saved
and moved like any other, and two masks can be compared without a model.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import optimizer as steps

from course_lib.checks import check_mask, check_names
from course_lib.models.layouts import check_rules, note_layouts
from course_lib.wrapped import refuse_wrapped

#: Parameter name -> bool tensor of its shape, True where the weight is kept.
Masks = dict[str, Tensor]


def prunable(model: nn.Module) -> dict[str, nn.Parameter]:
    """The parameters that are pruned, by name: those with two or more dimensions, so no biases and
    no norms; the parameters themselves, in the model's order. What else a model holds in that form
    is among them (ConvNeXt's layer_scale (C, 1, 1), ViT's class token): leave it out by name.

    Tied weights come once, under their first name: they are one set of numbers, to be counted and
    pruned once. A model under ``torch.nn.utils.prune`` is refused.
    """
    refuse_wrapped(model, "parallel", "compile", "script")
    note_layouts(model)
    return {name: parameter for name, parameter in model.named_parameters() if parameter.ndim >= 2}


def dense_masks(model: nn.Module) -> Masks:
    """The masks that prune nothing: all True, one per prunable parameter, on its device."""
    return {
        name: torch.ones_like(p, dtype=torch.bool, requires_grad=False)
        for name, p in prunable(model).items()
    }


def sparsity(masks: Mapping[str, Tensor]) -> float:
    """The fraction of weights pruned, over all masks together. Without any weight: 0."""
    total = sum(mask.numel() for mask in masks.values())
    kept = sum(int(mask.count_nonzero()) for mask in masks.values())
    return (total - kept) / total if total else 0.0


def remaining(masks: Mapping[str, Tensor]) -> float:
    """The fraction of weights kept, over all masks together. Without any weight: 1."""
    return 1 - sparsity(masks)


def check(model: nn.Module, masks: Mapping[str, Tensor]) -> dict[str, nn.Parameter]:
    """The parameters that ``masks`` belong to, by the same names; ValueError, naming the key, if it
    is no parameter of the model, its mask is not bool, of another shape or made of rows that are
    not the parameter's, or it is a second name of a tied weight.
    """
    refuse_wrapped(model, "parallel", "compile", "script")
    parameters = dict(model.named_parameters(remove_duplicate=False))
    check_names(masks, parameters, "masks")
    seen: dict[int, str] = {}
    for name, mask in masks.items():
        check_mask(mask, f"masks[{name!r}]", parameters[name].shape)
        if (first := seen.setdefault(id(parameters[name]), name)) != name:
            raise ValueError(f"masks[{first!r}] and masks[{name!r}] are for one tied weight")
    check_rules(model, masks)
    return {name: parameters[name] for name in masks}


@torch.no_grad()
def apply(model: nn.Module, masks: Mapping[str, Tensor]) -> None:
    """Set the pruned weights of ``model`` to zero, in place.

    In place, because an optimizer holds on to the parameter objects: a parameter replaced by a new
    one is a parameter that is no longer trained. Masks may be on another device than the model; if
    :func:`check` refuses one, nothing is changed.
    """
    for name, parameter in check(model, masks).items():
        _zero(parameter, ~masks[name])


class Masked:
    """Inside the ``with`` block, pruned weights stay zero, whatever the optimizer does.

    ::

        masks = dense_masks(model)
        masks["conv1.weight"][0] = False  # its first filter is to stay zero
        with masked(model, masks):
            train(model)

    Masking the gradients is not enough: momentum and Adam's moments from earlier steps move a
    weight without one. So the weights themselves are set to zero again: on entry, after every
    ``step()`` of any ``torch.optim`` optimizer that holds one of them (made before or inside the
    block; plain, foreach or fused; under a GradScaler), and on exit, also when an exception ends
    the block.

    How: torch's global hook on optimizer steps, with the optimizer recognised by the identity of
    its parameters. Nothing is attached to the module or its tensors, so the model can be copied
    (and a copy is not held) and saved inside the block. Masks are read on entry; blocks may be
    nested, and threads may each hold a model of their own.

    - Gradients stay dense, for growth criteria; clipping by norm counts them in full.
    - Weights changed without a ``torch.optim`` step (by hand, by ``load_state_dict``): call
      :meth:`apply` afterwards. Parameters replaced by others (its ``assign=True``) are refused with
      a RuntimeError, at the next step, or where the block ends.
    - An optimizer that evaluates its closure many times in one step (LBFGS) sees unmasked weights
      in between.

    Source: Han et al. 2015, "Learning both Weights and Connections", section 4, which keeps a mask
    beside every weight tensor.
    """

    def __init__(self, model: nn.Module, masks: Mapping[str, Tensor]) -> None:
        self.model = model
        self.masks = masks
        self._held: dict[str, tuple[nn.Parameter, Tensor]] = {}  # and where it is pruned

    def __enter__(self) -> Masked:
        if self in _blocks:
            raise RuntimeError("this Masked is in use: for a block inside it, make a second one")
        self._held = {
            name: (parameter, ~self.masks[name].to(parameter.device))
            for name, parameter in check(self.model, self.masks).items()
        }
        self._zero_all()
        _blocks.append(self)
        return self

    def __exit__(self, error: type[BaseException] | None, *of_it: object) -> None:
        _blocks.remove(self)
        self._zero_all()
        if error is None:
            self._refuse_replaced()
        self._held = {}

    def apply(self) -> None:
        """Set the pruned weights to zero now: it can serve as a ``post_step``."""
        if self not in _blocks:
            raise RuntimeError("this Masked holds nothing outside its block: use weights.apply")
        self._refuse_replaced()
        self._zero_all()

    @torch.no_grad()
    def _zero_all(self, moved: Container[int] | None = None) -> None:
        """``moved``: the parameters to look at, by identity; None: all."""
        for parameter, pruned in self._held.values():
            if moved is None or id(parameter) in moved:
                _zero(parameter, pruned)

    def _refuse_replaced(self) -> None:
        now = dict(self.model.named_parameters(remove_duplicate=False))
        for name, (parameter, _) in self._held.items():
            if now.get(name, parameter) is not parameter:
                raise RuntimeError(
                    f"{name!r} is another parameter than the one held at zero: load a state without"
                    " assign=True, or before the block"
                )

    def _before_step(self, optimizer: torch.optim.Optimizer) -> None:
        """For masks that change while a model trains: gradients are there."""

    def _after_step(self, optimizer: torch.optim.Optimizer) -> None:
        self._refuse_replaced()
        # Only the parameters that moved: to write into another model's weights between its forward
        # and its backward pass (two networks trained in turn) would make autograd refuse.
        self._zero_all({id(p) for group in optimizer.param_groups for p in group["params"]})


# The open blocks. A step in one thread goes through a copy, while another opens its own.
_blocks: list[Masked] = []


def holding(parameter: nn.Parameter) -> list[Masked]:
    """The open blocks with a mask for this parameter."""
    return [block for block in [*_blocks] if any(p is parameter for p, _ in block._held.values())]


def _before_any_step(optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
    for block in [*_blocks]:
        block._before_step(optimizer)


def _after_any_step(optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
    for block in [*_blocks]:
        block._after_step(optimizer)


# Once and for good, not per block: torch goes through its table of hooks at every step, and fails
# with "OrderedDict mutated during iteration" if another thread adds one meanwhile.
steps.register_optimizer_step_pre_hook(_before_any_step)
steps.register_optimizer_step_post_hook(_after_any_step)


def masked(model: nn.Module, masks: Mapping[str, Tensor]) -> Masked:
    """:class:`Masked`: ``with masked(model, masks):`` keeps pruned weights at zero."""
    return Masked(model, masks)


_WORDS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}  # by bytes


def _zero(parameter: nn.Parameter, pruned: Tensor) -> None:
    """Fill zeros in where ``pruned``, in place: NaN * 0 would be NaN."""
    pruned = pruned.to(parameter.device)  # the model may have been moved since
    word = _WORDS.get(parameter.element_size()) if parameter.layout is torch.strided else None
    if word is None or type(parameter) is not nn.Parameter:
        parameter.masked_fill_(pruned, 0)
    else:  # seven times as fast on the bits: all stay (-1 in two's complement), or none does (0)
        parameter.view(word).bitwise_and_(pruned.view(torch.int8) - 1)


class PrunedLinear(torch.autograd.Function):
    """``PrunedLinear.apply(x, w, m)`` is y = x (w∘m)ᵀ with its backward pass by hand, for x (...,
    d_in), w (d_out, d_in) and a bool m like w, True = kept.

    With g = ∂L/∂y: ∂L/∂x = g (w∘m), through the weights that are there; ∂L/∂w = (gᵀx)∘m, since a
    pruned weight has no influence on the loss. Pruned entries are filled with zeros rather than
    multiplied: NaN or inf in them does no harm. Gradients of gradients and ``torch.func`` (vmap:
    gradients per sample) work too.
    """

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, w: Tensor, m: Tensor) -> Tensor:
        check_mask(m, "m", w.shape)
        return x @ w.masked_fill(~m, 0).T  # (..., d_in) @ (d_in, d_out)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor, Tensor], output: Tensor) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        x, w, m = ctx.saved_tensors
        grad_x = grad_w = None
        if ctx.needs_input_grad[0]:
            grad_x = g @ w.masked_fill(~m, 0)  # (..., d_out) @ (d_out, d_in)
        if ctx.needs_input_grad[1]:
            # all leading dimensions as one, N
            rows, cols = g.reshape(-1, w.shape[0]), x.reshape(-1, w.shape[1])
            grad_w = (rows.T @ cols).masked_fill(~m, 0)  # (d_out, N) @ (N, d_in)
        return grad_x, grad_w, None
