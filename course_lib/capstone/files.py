"""A model as a safetensors file: written, and read with every way to be wrong refused
in a sentence.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor, nn

from course_lib import files

MOST_BYTES = 8_000_000
MOST_TENSORS = 400
# counters and tables of places, which no model stores
COUNTERS = ("num_batches_tracked", "position_ids", "token_type_ids")


class Refused(ValueError):
    """The file is no model of that kind. The message is for its author."""


@dataclass(frozen=True)
class Saved:
    """What a file holds.

    Attributes:
        state: name -> float32 tensor (counters are left out). tokens: layer -> share of
            the tokens that are kept behind it.
    """

    state: dict[str, Tensor]
    tokens: dict[int, float] = field(default_factory=dict)


def write(model: nn.Module, path: Path, tokens: Mapping[int, float] | None = None) -> None:
    """The model as a file; one that is there is overwritten when the new one is
    whole.
    """
    files.write_atomic(path, to_bytes(model, tokens))


def to_bytes(model: nn.Module, tokens: Mapping[int, float] | None = None) -> bytes:
    """The model's floating tensors, and its schedule of tokens, as such a file holds
    them.
    """
    state = {
        n: v.detach().float().contiguous().clone()
        for n, v in model.state_dict().items()
        if v.is_floating_point()
    }
    return save(
        state, {"tokens": json.dumps({str(k): float(v) for k, v in (tokens or {}).items()})}
    )


def read(path: Path) -> Saved:
    """What a file holds, as :func:`of_bytes`."""
    return of_bytes(path.read_bytes(), path.name)


def of_bytes(data: bytes, name: str) -> Saved:
    """What a file of that name holds, from its bytes.

    Raises:
        Refused: if it is no safetensors file, is larger than 8 MB, or holds what no
            model of ours does.
    """
    if len(data) > MOST_BYTES:
        raise Refused(
            f"{name} has {len(data):,} bytes, and {MOST_BYTES:,} are enough for the model as it was"
            " given"
        )
    try:
        tensors = load(data)
        header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    except (
        SafetensorError,
        OSError,
        ValueError,
        RuntimeError,
        OverflowError,
        TypeError,
        KeyError,
    ) as error:
        raise Refused(
            f"{name} is no safetensors file that can be read ({_other(data) or _short(error)})"
        ) from None
    if len(tensors) > MOST_TENSORS:
        raise Refused(f"{name} has {len(tensors)} tensors, and {MOST_TENSORS} are more than enough")
    state = {}
    for key, value in tensors.items():
        kind = header[key]["dtype"]
        if kind in ("I64", "I32") and key.endswith(COUNTERS):
            continue
        if kind != "F32":
            raise Refused(
                f"{key!r} is {kind}, and numbers are float32 here (F32): model.float() before it is"
                " written"
            )
        if not bool(torch.isfinite(value).all()):
            raise Refused(f"{key!r} holds numbers that are not finite")
        state[key] = value.clone()
    return Saved(state, _tokens(header.get("__metadata__", {}).get("tokens", "{}")))


def _tokens(text: str) -> dict[int, float]:
    if len(text) > 1000:
        raise Refused("the schedule of tokens has more than a thousand characters")
    try:
        given = json.loads(text)
        found = {int(layer): float(share) for layer, share in dict(given).items()}
    except (ValueError, TypeError, RecursionError, OverflowError, AttributeError):
        raise Refused(
            f'tokens are a JSON object, layer -> share, such as {{"1": 0.5}}; got {text[:60]!r}'
        ) from None
    for layer, share in found.items():
        if not 0 <= layer < 12 or not math.isfinite(share) or not 0 < share <= 1:
            raise Refused(
                f"tokens: a share is above 0 and at most 1, of a layer that is there; got {layer}:"
                f" {share}"
            )
    return found


def _other(data: bytes) -> str:
    """What a file seems to be that is no safetensors file; "" if that is not known."""
    if not data:
        return "it is empty"
    kinds = {b"PK\x03\x04": "a zip archive, as torch.save writes them", b"\x80": "a pickle"}
    for signature, kind in kinds.items():
        if data.startswith(signature):
            return f"it is {kind}: the file is what submit(…) writes, whatever its name"
    return ""


def _short(error: BaseException) -> str:
    return " ".join(str(error).split())[:120]
