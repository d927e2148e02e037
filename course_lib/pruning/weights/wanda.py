"""Weights by what passes through them: |w|·‖x‖, the size of a weight times that of the
input it multiplies.

A weight of 0.01 on an input of 1,000 does more than one of 1 on an input of 0.1:
magnitude does not see the difference. Hooks note the norms while the model looks at
some samples; nothing is trained and no gradient is needed.

Source: Sun et al. 2023, "A Simple and Effective Pruning Approach for Large Language
Models" (Wanda), section 3.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from course_lib.checks import check_names, check_numbers
from course_lib.models.layouts import layout_of, layouts, note_rule
from course_lib.modes import evaluating
from course_lib.pruning.weights.granularity import count_pruned
from course_lib.pruning.weights.masks import Masks
from course_lib.pruning.weights.scores import Scores
from course_lib.wrapped import hold_hooks, refuse_wrapped

_CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)


def input_norms(
    model: nn.Module, batches: Iterable[Any], names: Iterable[str] | None = None
) -> Scores:
    """For every weight of a linear or convolutional layer: the norm of the inputs that
    it multiplies, over all samples and positions.

    Padding is no input: where a dict has an ``attention_mask`` (texts, tokens), a linear
    layer's rows for tokens of mask 0 are left out; in the decoder of an encoder–decoder,
    those of ``decoder_attention_mask``, if it has one.

    Args:
        model: any module; called in evaluation mode, without gradients:
            ``model(batch)``, or ``model(**batch)`` for a dict.
        batches: what the model is called with, one after the other. names: of weights;
            None: all there are.

    Returns:
        Parameter name ("fc1.weight") -> float64 like the weight, on its device. A
        linear layer's row is the same for all
        outputs: ‖x_j‖₂ over every (sample, position); a convolution's entry (m, c, r,
        s) has the norm of what kernel place (r, s) meets in channel c, with stride,
        padding, dilation and groups as they are.

    Raises:
        ValueError: if a name is no weight of such a layer, a layer was not called, its
            inputs are infinite or NaN, a mask is no (texts, tokens), or no names are given
            and the model has weights that are left out here: transformers' Conv1D (GPT-2),
            fused experts of a mixture, transposed convolutions, recurrent layers.
    """
    refuse_wrapped(model, "parallel", "compile")
    layers = {
        f"{name}.weight" if name else "weight": module
        for name, module in model.named_modules()
        if isinstance(module, (nn.Linear, *_CONVOLUTIONS))
    }
    others = [*layouts(model)] + [
        f"{name}.{p}"
        for name, module in model.named_modules()
        if isinstance(module, nn.RNNBase)
        for p, _ in module.named_parameters()
        if "weight" in p
    ]
    if names is None and others:
        raise ValueError(
            f"{', '.join(others)}: weights of layers whose inputs are not seen here (fused experts,"
            " transposed convolutions, recurrent layers; transformers' Conv1D, unless the model is"
            " what course_lib.models.conv1d.with_linears(model) makes); give names, among"
            f" {', '.join(layers)}"
        )
    chosen = list(layers) if names is None else list(names)
    check_names(chosen, layers, "names (of weights of linear and convolutional layers)")
    squares: Scores = {}
    real = _RealRows()

    def noting(name: str) -> Callable[[nn.Module, tuple[Any, ...]], None]:
        def note(module: nn.Module, inputs: tuple[Any, ...]) -> None:
            x = real.of(inputs[0]) if isinstance(module, nn.Linear) else inputs[0].detach()
            found = _squares(module, x)
            squares[name] = squares[name] + found if name in squares else found

        return note

    with hold_hooks() as hooks, evaluating(model), torch.no_grad():
        for name in chosen:
            hooks.callback(layers[name].register_forward_pre_hook(noting(name)).remove)
        of_both = getattr(getattr(model, "config", None), "is_encoder_decoder", False)
        if of_both and hasattr(model, "get_decoder"):
            decoder: nn.Module = model.get_decoder()  # type: ignore[operator]
            hooks.callback(decoder.register_forward_pre_hook(real.decode, with_kwargs=True).remove)
        for batch in batches:
            real.begin(batch)
            model(**batch) if isinstance(batch, Mapping) else model(batch)
    if missing := [name for name in chosen if name not in squares]:
        raise ValueError(
            f"{', '.join(missing)}: these layers saw no input: were there no batches, or are they"
            " not used?"
        )
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
        self._mask, self._of_decoder = (
            _checked(given, name) for name in ("attention_mask", "decoder_attention_mask")
        )
        self._states: Tensor | None = None  # the encoder's, which cross-attention reads
        self._of_states: Tensor | None = None

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


def _checked(batch: Mapping[str, Any], name: str) -> Tensor | None:
    mask = batch.get(name)
    if mask is not None and mask.ndim != 2:
        raise ValueError(
            f"{name} must be (texts, tokens), 0 where there is padding; got {tuple(mask.shape)}"
        )
    return None if mask is None else mask.bool()


def _squares(module: nn.Module, x: Tensor) -> Tensor:
    """Σ x² of what each weight multiplies, float64: like the weight, or for a linear layer
    one number per input, (d_in,).
    """
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
    """|w|·‖x‖ for every weight that :func:`input_norms` has a norm for; float64,
    larger = more important.
    """
    norms = input_norms(model, batches, names)
    parameters = dict(model.named_parameters(remove_duplicate=False))
    return {
        name: parameters[name].detach().to(torch.float64, copy=True).abs_().mul_(norm)
        for name, norm in norms.items()
    }


def per_output_masks(scores: Scores, sparsity: float) -> Masks:
    """In every output of every layer (a row of a matrix, a filter) exactly
    ``round(sparsity · its weights)`` of the smallest go.

    The rows of GPT-2's Conv1D, transposed convolutions and fused experts are those of
    their layer, as long as their scores carry it (:mod:`course_lib.models.layouts`).
    Wanda compares within an output, since norms of other layers' inputs are of another
    scale. Among equal scores the lower index goes first.

    Raises:
        ValueError: if ``sparsity`` is outside [0, 1] or a score is NaN.
    """
    masks = {}
    for name, score in scores.items():
        check_numbers(score, f"a score of {name!r}")
        layout = layout_of(score)
        upright = layout.upright(score.detach())
        # (outputs, weights)
        rows = upright.flatten(1) if score.ndim > 1 else upright.unsqueeze(0)
        goes = rows.argsort(dim=1, stable=True)[:, : count_pruned(sparsity, rows.shape[1])]
        kept = torch.ones_like(rows, dtype=torch.bool).scatter_(1, goes, False)
        masks[name] = note_rule(layout.back(kept.view(upright.shape)), layout)
    return masks
