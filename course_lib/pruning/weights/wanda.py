"""Weights by what passes through them: |w|·‖x‖, the size of a weight times that of the input it
multiplies.

A weight of 0.01 on an input of 1,000 does more than one of 1 on an input of 0.1: magnitude does not
see the difference. Hooks note the norms while the model looks at some samples; nothing is trained
and no gradient is needed.

Source: Sun et al. 2023, "A Simple and Effective Pruning Approach for Large Language Models"
(Wanda), section 3.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from course_lib.checks import check_names
from course_lib.models.layouts import layouts
from course_lib.modes import evaluating
from course_lib.pruning.weights.granularity import by_rows, count_pruned
from course_lib.pruning.weights.masks import Masks
from course_lib.pruning.weights.scores import Scores
from course_lib.ranking import prune_lowest
from course_lib.wrapped import hold_hooks, refuse_wrapped


def input_norms(
    model: nn.Module, batches: Iterable[Any], names: Iterable[str] | None = None
) -> Scores:
    """For every weight of a linear or convolutional layer: the norm of the inputs that it
    multiplies, over all samples and positions.

    Padding is no input: where a dict has an ``attention_mask`` (texts, tokens), a linear layer's
    rows for tokens of mask 0 are left out; in the decoder of an encoder–decoder, those of
    ``decoder_attention_mask``, if it has one.

    The model is called in evaluation mode, without gradients: ``model(batch)``, or
    ``model(**batch)`` for a dict. ``names``: of weights; None: all there are, unless there are some
    whose inputs are not seen here (transformers' Conv1D, fused experts, transposed convolutions,
    recurrent layers). Inputs that are infinite or NaN are refused.

    Returns:
        Parameter name ("fc1.weight") -> float64 like the weight, on its device. A linear layer's
        row is the same for all outputs: ‖x_j‖₂ over every (sample, position); a convolution's entry
        (m, c, r, s) has the norm of what kernel place (r, s) meets in channel c, with stride,
        padding, dilation and groups as they are.
    """
    refuse_wrapped(model, "parallel", "compile")
    layers = {
        f"{name}.weight" if name else "weight": module
        for name, module in model.named_modules()
        if isinstance(module, (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d))
    }
    recurrent = [name for name, m in model.named_modules() if isinstance(m, nn.RNNBase)]
    if names is None and (others := [*layouts(model), *recurrent]):
        raise ValueError(
            f"names must say which weights, of {', '.join(layers)}: the inputs of"
            f" {', '.join(map(repr, others))} are not seen here (for transformers' Conv1D pass what"
            " course_lib.models.conv1d.with_linears(model) makes)"
        )
    chosen = list(layers) if names is None else list(names)
    check_names(chosen, layers, "names (of weights of linear and convolutional layers)")
    squares: Scores = {}
    real = _RealRows()

    def note(name: str, module: nn.Module, inputs: tuple[Any, ...]) -> None:
        x = real.of(inputs[0]) if isinstance(module, nn.Linear) else inputs[0].detach()
        squares[name] = squares.get(name, 0) + _squares(module, x)

    with hold_hooks() as hooks, evaluating(model), torch.no_grad():
        for name in chosen:
            hooks.callback(layers[name].register_forward_pre_hook(partial(note, name)).remove)
        of_both = getattr(getattr(model, "config", None), "is_encoder_decoder", False)
        if of_both and hasattr(model, "get_decoder"):
            decoder: nn.Module = model.get_decoder()  # type: ignore[operator]
            hooks.callback(decoder.register_forward_pre_hook(real.decode, with_kwargs=True).remove)
        for batch in batches:
            real.begin(batch)
            model(**batch) if isinstance(batch, Mapping) else model(batch)
    if missing := [name for name in chosen if name not in squares]:
        raise ValueError(f"{', '.join(missing)} saw no input: no batches, or layers not used?")
    for name in chosen:
        if not bool(squares[name].isfinite().all()):
            raise ValueError(
                f"{name!r} saw an input that is infinite or NaN, first of all layers: run the model"
                " in float32 or bfloat16 if float16 overflows, or look at the batches"
            )
    return {name: squares[name].sqrt().expand(layers[name].weight.shape) for name in chosen}


class _RealRows:
    """Which rows of a linear layer's input are tokens, and not padding."""

    def begin(self, batch: Any) -> None:
        given = batch if isinstance(batch, Mapping) else {}
        masks = [given.get(name) for name in ("attention_mask", "decoder_attention_mask")]
        for mask in masks:
            if mask is not None and mask.ndim != 2:
                raise ValueError(
                    f"attention_mask must be (texts, tokens), 0 at padding; got {tuple(mask.shape)}"
                )
        self._mask, self._of_decoder = (None if mask is None else mask.bool() for mask in masks)
        self._states = self._of_states = None  # the encoder's, which cross-attention reads

    def decode(self, decoder: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """From here to the end of the batch rows are those of the decoder."""
        self._states, self._of_states = kwargs.get("encoder_hidden_states"), self._mask
        self._mask = self._of_decoder

    def of(self, x: Tensor) -> Tensor:
        mask = self._of_states if x is self._states else self._mask
        # (texts, tokens, …), or all tokens one after the other
        if mask is not None and x.shape[:-1] in (mask.shape, (mask.numel(),)):
            return x.detach()[mask.to(x.device).view(x.shape[:-1])]
        return x.detach()


def _squares(module: nn.Module, x: Tensor) -> Tensor:
    """Σ x² of what each weight multiplies, float64: like the weight; of a linear layer (d_in,)."""
    weight: Tensor = module.weight  # type: ignore[assignment]
    if isinstance(module, nn.Linear):
        rows = x.reshape(-1, x.shape[-1]).split(64)  # as doubles they stay in the cache
        return torch.stack([part.double().square().sum(0) for part in rows]).sum(0)
    x2 = x.double().square()
    # of the sum of all outputs on x² the derivative by a weight is the sum of the x²
    # that it met
    with torch.enable_grad():
        probe = torch.zeros_like(weight, dtype=torch.float64, requires_grad=True)
        total = module._conv_forward(x2, probe, None).sum()  # type: ignore[operator]
    return torch.autograd.grad(total, probe)[0]


def input_aware(
    model: nn.Module, batches: Iterable[Any], names: Iterable[str] | None = None
) -> Scores:
    """|w|·‖x‖ for every weight that :func:`input_norms` has a norm for, in float64."""
    norms = input_norms(model, batches, names)
    parameters = dict(model.named_parameters(remove_duplicate=False))
    return {
        name: parameters[name].detach().to(torch.float64, copy=True).abs_().mul_(norm)
        for name, norm in norms.items()
    }


def per_output_masks(scores: Scores, sparsity: float) -> Masks:
    """In every output of every layer (a row of a matrix, a filter) exactly ``round(sparsity · its
    weights)`` of the smallest go.

    The rows of GPT-2's Conv1D, transposed convolutions and fused experts are those of their layer,
    as long as their scores carry it (:mod:`course_lib.models.layouts`). Wanda compares within an
    output, since norms of other layers' inputs are of another scale. Among equal scores the lower
    index goes first.
    """

    def rule(score: Tensor, name: str) -> Tensor:
        rows = score.flatten(1) if score.ndim > 1 else score.unsqueeze(0)  # (outputs, weights)
        k = count_pruned(sparsity, rows.shape[1])
        return prune_lowest(rows, k, dim=1, name=name).view(score.shape)

    return {name: by_rows(score, partial(rule, name=name)) for name, score in scores.items()}
