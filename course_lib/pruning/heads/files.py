"""A model with removed heads on disk: its weights, and beside them which heads they
belong to.

A configuration says how many heads a model has, one number for all layers; transformers
5 has no field for removed heads. So ``from_pretrained`` builds the full model and fails
on the sizes. Here a small file, ``kept_heads.json``, goes with the weights: the full
model is built, the same heads are removed from it, and then the weights fit.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from os import PathLike
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_model, save_model
from torch import Tensor, nn

from course_lib.models.attention import find_attention
from course_lib.pruning.heads.explicit import ExplicitAttention, explicit_attention
from course_lib.pruning.heads.removal import kept_heads, remove_heads_

KEPT = "kept_heads.json"
WEIGHTS = "model.safetensors"


def save_pruned(model: nn.Module, folder: str | PathLike[str]) -> None:
    """Write ``model`` to ``folder`` so that :func:`load_pruned` gives it back; also one
    that has all its heads.

    A transformers model is written by its own ``save_pretrained`` (configuration and
    safetensors, in parts where it is large), any other as ``model.safetensors`` alone.
    ``kept_heads.json`` is added.

    Args:
        model: from :func:`~course_lib.pruning.heads.remove_heads`.
        folder: made if it is not there.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    save_pretrained: Any = getattr(model, "save_pretrained", None)
    if save_pretrained is not None:
        save_pretrained(folder)
    else:
        save_model(model, str(folder / WEIGHTS))
    explicit = any(isinstance(module, ExplicitAttention) for module in model.modules())
    note = {
        "kept": {name: list(heads) for name, heads in kept_heads(model).items()},
        "explicit": explicit,
    }
    (folder / KEPT).write_text(json.dumps(note, indent=1) + "\n", encoding="utf-8")


def load_pruned(
    folder: str | PathLike[str],
    build: type[nn.Module] | Callable[[], nn.Module] | None = None,
    **options: Any,
) -> nn.Module:
    """The model that :func:`save_pruned` wrote, in evaluation mode.

    Args:
        folder: where it was written.
        build: for a transformers model, the class to load, as it would stand before
            ``.from_pretrained``; without it, the class that was saved. For any other
            model, a function that builds the full one, with all heads.
        options: for ``from_pretrained``: ``attn_implementation``, ``dtype``, ...

    Raises:
        FileNotFoundError: if there is no ``kept_heads.json``.
        ValueError: if it does not fit the model, or it is not known what to build.
    """
    folder = Path(folder)
    if not (folder / KEPT).is_file():
        raise FileNotFoundError(
            f"there is no {KEPT} in {folder}: save the model with save_pruned(model, folder)"
        )
    note = json.loads((folder / KEPT).read_text(encoding="utf-8"))
    if (folder / "config.json").is_file():
        cls: Any = _saved_class(folder) if build is None else build
        if hasattr(cls, "from_pretrained"):
            return _from_pretrained(cls, folder, note, options)
    if build is None or options:
        raise ValueError(
            f"{folder} holds no transformers model: pass build=, a function that builds the full"
            " model"
        )
    model = build()
    if note["explicit"]:
        model = explicit_attention(model)
    _remove(model, note)
    load_model(model, str(folder / WEIGHTS))
    return model.eval()


def _from_pretrained(
    cls: Any, folder: Path, note: dict[str, Any], options: dict[str, Any]
) -> nn.Module:
    """``cls.from_pretrained``, with the heads removed between building the model and
    reading its weights.

    For that moment the model is of a subclass, under the same name, since transformers
    keeps what it knows of a class by its name.
    """

    class Smaller(cls):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            # the weights are on "meta" now, where no index can be looked at
            with torch.device("cpu"):
                _remove(self, note)

    for name in ("__module__", "__name__", "__qualname__"):
        setattr(Smaller, name, getattr(cls, name))
    model = Smaller.from_pretrained(folder, **options)
    model.__class__ = cls
    return model


def _saved_class(folder: Path) -> type:
    import transformers

    names = json.loads((folder / "config.json").read_text(encoding="utf-8")).get(
        "architectures"
    ) or ["None"]
    cls = getattr(transformers, names[0], None)
    if cls is None:
        raise ValueError(
            f"transformers has no {names[0]}, which {folder} was saved from: pass its class as"
            " build="
        )
    return cls


def _remove(model: nn.Module, note: dict[str, Any]) -> None:
    heads = {a.name: a.heads for a in find_attention(model)}
    masks: dict[str, Tensor] = {}
    for name, kept in note["kept"].items():
        if (
            name not in heads
            or kept != sorted(set(kept))
            or not all(0 <= head < heads[name] for head in kept)
        ):
            raise ValueError(
                f"{KEPT} keeps heads {kept} of {name!r}, but the model has"
                f" {heads.get(name, 'no attention there')}"
                f"{' heads there' if name in heads else ''}:"
                " is it the same class of model, with the same configuration?"
            )
        masks[name] = torch.zeros(heads[name], dtype=torch.bool)
        masks[name][kept] = True
    remove_heads_(model, masks)
