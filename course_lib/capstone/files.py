"""A model as a safetensors file: writing and reading it. A file that is wrong in any way is
refused in a sentence; this is the one place where bytes of a student are validated.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import NamedTuple

import torch
from safetensors.torch import load, save
from torch import Tensor, nn

MOST_BYTES = 8_000_000
MOST_TENSORS = 400
# counters and tables of positions, which no model stores
COUNTERS = ("num_batches_tracked", "position_ids", "token_type_ids")
ZIP = b"PK\x03\x04"  # how files begin that torch.save wrote


class Refused(ValueError):
    """The file is no model of that kind. The message is for its author."""


class Saved(NamedTuple):
    """The contents of a file: name -> float32 tensor (without counters), and layer -> share of
    the tokens that are kept after it.
    """

    state: dict[str, Tensor]
    tokens: dict[int, float]


def to_bytes(model: nn.Module, tokens: Mapping[int, float] | None = None) -> bytes:
    """The model's floating tensors, and its schedule of tokens, as a file contains them."""
    state = {
        name: value.detach().float().contiguous().clone()
        for name, value in model.state_dict().items()
        if value.is_floating_point()
    }
    schedule = {str(layer): float(share) for layer, share in (tokens or {}).items()}
    return save(state, {"tokens": json.dumps(schedule)})


def of_bytes(data: bytes, name: str) -> Saved:
    """The contents of a file of that name, from its bytes.

    Raises:
        Refused: if it is no safetensors file, is larger than 8 MB, or contains anything that
            such a model does not have.
    """
    if len(data) > MOST_BYTES:
        raise Refused(f"{name} has {len(data):,} bytes, and {MOST_BYTES:,} are enough")
    try:
        tensors = load(data)
        header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    except Exception as error:  # whatever the parser makes of a stranger's bytes
        why = " ".join(str(error).split())[:120] if data else "it is empty"
        if data.startswith(ZIP):
            why = "it is a zip archive, as torch.save writes: the file is what submit(…) writes"
        raise Refused(f"{name} is no safetensors file that can be read ({why})") from None
    if len(tensors) > MOST_TENSORS:
        raise Refused(f"{name} has {len(tensors)} tensors, and {MOST_TENSORS} are more than enough")
    state = {}
    for key, value in tensors.items():
        kind = header[key]["dtype"]
        if kind in ("I64", "I32") and key.endswith(COUNTERS):
            continue
        if kind != "F32":
            raise Refused(f"{key!r} is {kind}, and numbers are float32 here (F32)")
        if not bool(torch.isfinite(value).all()):
            raise Refused(f"{key!r} holds numbers that are not finite")
        state[key] = value.clone()
    return Saved(state, _tokens(header.get("__metadata__", {}).get("tokens", "{}")))


def _tokens(text: str) -> dict[int, float]:
    if len(text) > 1000:
        raise Refused("the schedule of tokens has more than a thousand characters")
    try:
        found = {int(layer): float(share) for layer, share in dict(json.loads(text)).items()}
    except (ValueError, TypeError, RecursionError, OverflowError, AttributeError):
        found = {-1: 0.0}
    if not all(layer >= 0 and 0 < share <= 1 for layer, share in found.items()):
        raise Refused(
            "tokens are a JSON object, from layer to share kept, above 0 and at most 1, such as"
            f' {{"1": 0.5}}; got {text[:60]!r}'
        )
    return found
