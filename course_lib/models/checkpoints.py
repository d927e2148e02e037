"""The small trained models that come with the course: a folder each, in
``data/checkpoints``, with what transformers' ``from_pretrained`` reads (for texts also the
tokenizer), and ``record.json``: how it was trained, how well it does, the command that retrains
it, and the SHA-256 of its weights and of its tokenizer, which ``load`` compares.
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
    """A checkpoint is not there, or is not whole; the message says how to make it again."""


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
    """What is known of a checkpoint, without its weights: figures, command, fingerprints."""
    file = folder() / name / RECORD
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise CheckpointMissing(
            f"{file} cannot be read ({error}); the checkpoints here are"
            f" {', '.join(names()) or 'none'}. The course's data/ holds them; python"
            " data/checkpoints/make lists those that can be trained again"
        ) from None


def load(name: str, *, attention: str = "sdpa") -> Checkpoint:
    """A checkpoint by name, on the course's device, in evaluation mode.

    Args:
        name: one of ``names()``, for example "reviews-bert-0".
        attention: "sdpa", the fast one, or "eager", which can show its attention
            (``output_attentions=True``).

    Raises:
        CheckpointMissing: if it is not as it was saved.
    """
    import transformers

    known = record(name)
    place = folder() / name
    _compare(place / "model.safetensors", known.get("weights_sha256"), known)
    tokenizer = None
    if known.get("tokenizer_sha256"):
        _compare(place / "tokenizer.json", known["tokenizer_sha256"], known)
        tokenizer = transformers.AutoTokenizer.from_pretrained(place, local_files_only=True)
    kind = json.loads((place / "config.json").read_text(encoding="utf-8"))["architectures"][0]
    with without_bars():  # they would fill a notebook that loads a dozen
        model = getattr(transformers, kind).from_pretrained(
            place, local_files_only=True, attn_implementation=attention
        )
    return Checkpoint(name, model.to(devices.current()).eval(), tokenizer, known)


def save(name: str, model: Any, tokenizer: Any, about: dict[str, Any]) -> Path:
    """Write a checkpoint, over what was there under that name, and the record ``about`` with
    its fingerprints; returns its folder.
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


def _compare(file: Path, wanted: str | None, known: dict[str, Any]) -> None:
    if not file.is_file() or wanted != _sha256(file):
        raise CheckpointMissing(
            f"{file} is missing, or is not the one that this checkpoint was saved with: take the"
            f" folder from the course again, or retrain it: {known.get('command', '')}"
        )


def _sha256(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()
