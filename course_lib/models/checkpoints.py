"""The small trained models that come with the course: a folder each, in
``data/checkpoints``.

A folder holds what transformers' ``from_pretrained`` reads (config.json,
model.safetensors and, for texts, the tokenizer that the model was trained with), and
``record.json``: how it was trained, how well it does, the command that retrains it, and
the SHA-256 of its weights and of its tokenizer. A model is of no use with another
tokenizer, so ``load`` compares.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from course_lib import devices, paths
from course_lib.progress import without_bars

RECORD = "record.json"


class CheckpointMissing(FileNotFoundError):
    """A checkpoint is not there, or is not whole. The message says how to make it
    again.
    """


@dataclass(frozen=True)
class Checkpoint:
    """A trained model with all that belongs to it."""

    name: str
    model: Any  # a transformers model in evaluation mode
    tokenizer: Any  # a fast tokenizer, or None for images
    record: dict[str, Any]  # see the record.json


def folder() -> Path:
    """Where checkpoints lie: ``checkpoints`` in the course's ``data/``."""
    return paths.data_dir() / "checkpoints"


def names() -> list[str]:
    """The checkpoints that are here."""
    return sorted(file.parent.name for file in folder().glob(f"*/{RECORD}"))


def record(name: str) -> dict[str, Any]:
    """What is known of a checkpoint, without its weights: figures, command,
    fingerprints.

    Raises:
        CheckpointMissing: if it is not there.
    """
    file = folder() / name / RECORD
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        have = ", ".join(names()) or "none"
        raise CheckpointMissing(
            f"there is no checkpoint {name!r} in {folder()}: here are {have}. The course's data/"
            " holds them; python -m course_lib.recipes lists those that can be trained again"
        ) from None
    except ValueError as error:
        raise CheckpointMissing(
            f"{file} cannot be read ({error}): take it from the course again"
        ) from None


def load(name: str, *, attention: str = "sdpa") -> Checkpoint:
    """A checkpoint by name, on the course's device, in evaluation mode.

    Args:
        name: one of ``names()``, for example "reviews-bert-0".
        attention: "sdpa", the fast one, or "eager", which can show its attention
            (``output_attentions=True``).

    Raises:
        CheckpointMissing: if it is not there, is damaged, or weights or tokenizer are
            not the ones it was saved with.
        ValueError: if ``attention`` is another.
    """
    import transformers

    if attention not in ("sdpa", "eager"):
        raise ValueError(f'attention is "sdpa" or "eager", got {attention!r}')
    known = record(name)
    place = folder() / name
    remedy = f"take the folder from the course again, or retrain it: {known.get('command', '')}"
    _compare(place / "model.safetensors", known.get("weights_sha256"), remedy)
    tokenizer = None
    if known.get("tokenizer_sha256"):
        _compare(place / "tokenizer.json", known["tokenizer_sha256"], remedy)
        tokenizer = transformers.AutoTokenizer.from_pretrained(place, local_files_only=True)
    kind = json.loads((place / "config.json").read_text(encoding="utf-8"))["architectures"][0]
    with without_bars():  # they would fill a notebook that loads a dozen
        model = getattr(transformers, kind).from_pretrained(
            place, local_files_only=True, attn_implementation=attention
        )
    return Checkpoint(name, model.to(devices.current()).eval(), tokenizer, known)


def save(name: str, model: Any, tokenizer: Any, about: dict[str, Any]) -> Path:
    """Write a checkpoint and its record; returns its folder. What was there under that
    name is overwritten.

    Args:
        about: plain data for the record; the fingerprints are added.
    """
    place = folder() / name
    place.mkdir(parents=True, exist_ok=True)
    model.save_pretrained(place)
    about = {**about, "weights_sha256": _sha256(place / "model.safetensors")}
    if tokenizer is not None:
        tokenizer.save_pretrained(place)
        about["tokenizer_sha256"] = _sha256(place / "tokenizer.json")
    (place / RECORD).write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")
    return place


def _compare(file: Path, wanted: str | None, remedy: str) -> None:
    if not file.is_file():
        raise CheckpointMissing(f"{file} is missing: {remedy}")
    if wanted != _sha256(file):
        raise CheckpointMissing(
            f"{file} is not the one that this checkpoint was saved with: {remedy}"
        )


def _sha256(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()
