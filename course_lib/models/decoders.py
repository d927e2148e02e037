"""Decoders: where their list of layers is, and how they are called when nothing is generated."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from course_lib.models.attention import find_attention
from course_lib.wrapped import refuse_wrapped

#: Windows: token ids (B, L) or (L,), or dicts with ``input_ids`` and, where there is padding on
#: either side, ``attention_mask`` (B, L), 0 at padding.
Batches = Iterable[Tensor | Mapping[str, Any]]


def decoder_layers(model: nn.Module) -> tuple[str, nn.ModuleList]:
    """The path and the list of the layers of a decoder of the table of families; ValueError if the
    model has an encoder, cross-attention, or attention that is unknown.
    """
    refuse_wrapped(model)
    lists = ((name, m) for name, m in model.named_modules() if isinstance(m, nn.ModuleList))
    path, layers = next(lists, ("", nn.ModuleList()))
    for attention in find_attention(model):
        if attention.kind != "decoder" or not attention.name.startswith(f"{path}."):
            raise _no_decoder(model)
    return path, layers


def decoder_inputs(model: nn.Module, batch: Any) -> dict[str, Any]:
    """Keyword arguments that call a model on a batch of windows, without cache or loss. Positions
    are counted from the first token that is no padding; an encoder–decoder is refused.
    """
    if getattr(getattr(model, "config", None), "is_encoder_decoder", False):
        raise _no_decoder(model)
    inputs = dict(batch) if isinstance(batch, Mapping) else {"input_ids": torch.atleast_2d(batch)}
    inputs.pop("labels", None)
    known = inspect.signature(model.forward).parameters
    if (mask := inputs.get("attention_mask")) is not None and "position_ids" in known:
        inputs.setdefault("position_ids", (mask.long().cumsum(1) - 1).clamp(min=0))
    return inputs | ({"use_cache": False} if "use_cache" in known else {})


def token_rows(states: Tensor, mask: Tensor | None) -> Tensor:
    """(tokens, E): the rows of (B, L, E), or of (B · L, E), that are no padding."""
    rows = states.detach().flatten(0, -2)
    return rows if mask is None else rows[mask.to(rows.device).flatten().bool()]


def _no_decoder(model: nn.Module) -> ValueError:
    return ValueError(f"{type(model).__name__} is an encoder or an encoder–decoder, not a decoder")
