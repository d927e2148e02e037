"""A pruned model on disk: its weights, and a note of what they belong to.

A configuration says how many heads, neurons and layers a model has, one number for all
layers. ``from_pretrained`` alone therefore builds the full model and fails on the
sizes. Here a small file, ``pruned.json``, is written with the weights. It says how the
model differs from the one that its configuration describes: which layers are left (of a
model without a configuration), which heads, how wide the feed-forward parts are, which
parts are removed, which matrices are two of low rank. The full model is meta_model, brought
into that form, and then the weights fit.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from os import PathLike
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import load_model, save_model
from torch import Tensor, nn

from course_lib.models.attention import find_attention
from course_lib.models.conv1d import cut, is_conv1d, sizes, with_linears_
from course_lib.models.depth import keep_layers_, meta_model
from course_lib.models.families import rows_of
from course_lib.models.mlps import find_mlps, remove_parts_
from course_lib.models.parts import LowRank, ZeroLinear, put_in_place
from course_lib.pruning.heads.explicit import ExplicitAttention, explicit_attention_
from course_lib.pruning.heads.removal import kept_heads, remove_heads_

NOTE = "pruned.json"
WEIGHTS = "model.safetensors"
OLDER = ("kept_heads.json", "ranks.json")  # what was written before there was one format
SAVED = "What is saved: heads, feed-forward neurons and parts, layers, low rank"
Note = dict[str, Any]


def save_pruned(
    model: nn.Module,
    folder: str | PathLike[str],
    build: Callable[[], nn.Module] | None = None,
) -> None:
    """Write ``model`` to ``folder`` so that :func:`load_pruned` gives it back: after any
    combination and order of removed heads, neurons, feed-forward parts and layers, and
    of matrices at low rank; also a model of which nothing is removed.

    A transformers model is written by its own ``save_pretrained`` (configuration and
    safetensors, in parts where it is large), any other as ``model.safetensors`` alone.
    ``pruned.json`` is added. Of a compiled or data-parallel model the model inside is
    written.

    Args:
        model: from :func:`~course_lib.pruning.heads.remove_heads`, ``slice_ffn``,
            ``remove_mlps``, ``take_layers``, ``truncate``.
        folder: made if it is not there.
        build: the function that :func:`load_pruned` will be given, for a model that is
            not of transformers. With it the model is compared with what can be built
            again.

    Raises:
        ValueError: if the model differs in another way from what its configuration (or
            ``build``) describes, naming the first difference; nothing is written then.
    """
    while isinstance(inner := getattr(model, "_orig_mod", None), nn.Module) or (
        isinstance(model, nn.DataParallel | nn.parallel.DistributedDataParallel)
        and isinstance(inner := model.module, nn.Module)
    ):
        model = inner
    note = _note(model)
    transformer: Any = model if hasattr(model, "save_pretrained") else None
    if build is not None:
        _compare(model, build(), note)
    elif transformer is not None:
        full = meta_model(transformer)
        if full is None:
            raise ValueError(
                f"a {type(model).__name__} is not built from its configuration alone: pass build=,"
                " a function that builds the full model"
            )
        note["layers"] = {  # where the configuration does not say it
            path: kept
            for path, kept in note["layers"].items()
            if len(list(full.get_submodule(path).children())) != len(kept)
        }
        note["upright"] = any(map(is_conv1d, full.modules())) > any(map(is_conv1d, model.modules()))
        _compare(model, full, note)
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for name in OLDER:
        (folder / name).unlink(missing_ok=True)
    if transformer is not None and build is None:
        transformer.save_pretrained(folder)
    else:
        save_model(model, str(folder / WEIGHTS))
    (folder / NOTE).write_text(json.dumps(note, indent=1) + "\n", encoding="utf-8")


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
            model, a function that builds the full one.
        options: for ``from_pretrained``: ``attn_implementation``, ``dtype``, ...

    Raises:
        FileNotFoundError: if there is no ``pruned.json`` (or a file of the older
            formats).
        ValueError: if it does not fit the model, or it is not known what to build.
    """
    folder = Path(folder)
    note = _read(folder)
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
    _bring_into_form(model, note)
    tensors = model.state_dict(keep_vars=True)
    with safe_open(str(folder / WEIGHTS), "pt") as file:
        for name in tensors.keys() & set(file.keys()):  # load_model says what does not fit
            tensors[name].data = tensors[name].data.to(file.get_tensor(name).dtype)
    try:
        load_model(model, str(folder / WEIGHTS))
    except RuntimeError as error:
        raise ValueError(
            f"{folder} was saved from a model of another form than build makes. {SAVED}. {error}"
        ) from error
    return model.eval()


# ------------------------------------------------------------------------------ the note
def _note(model: nn.Module) -> Note:
    modules = dict(model.named_modules())
    explicit = any(isinstance(module, ExplicitAttention) for module in modules.values())
    has_heads = explicit or any(hasattr(module, "kept_heads") for module in modules.values())
    has_mlps = any(row.mlp for m in modules.values() for row in rows_of(type(m)))
    mlps = find_mlps(model) if has_mlps else []
    removed = [mlp.name for mlp in mlps if isinstance(modules[mlp.out], ZeroLinear)]
    removed += [
        name for name, m in modules.items() if isinstance(m, ZeroLinear) and m.out_features is None
    ]
    return {
        "layers": {
            name: list(m.kept_layers) for name, m in modules.items() if hasattr(m, "kept_layers")
        },
        "explicit": explicit,
        "upright": False,
        "kept": {name: list(kept) for name, kept in kept_heads(model).items()} if has_heads else {},
        "removed": removed,
        "widths": {
            mlp.name: sizes(modules[mlp.out])[0]
            for mlp in mlps
            if mlp.first and mlp.name not in removed and _is_linear(modules[mlp.out])
        },
        "ranks": {name: m[0].out_features for name, m in modules.items() if isinstance(m, LowRank)},
    }


def _is_linear(module: nn.Module) -> bool:
    return isinstance(module, nn.Linear | LowRank) or is_conv1d(module)


def _read(folder: Path) -> Note:
    empty: Note = {"layers": {}, "explicit": False, "upright": False}
    empty |= {"kept": {}, "removed": [], "widths": {}, "ranks": {}}
    for name in (NOTE, *OLDER):
        if (folder / name).is_file():
            return empty | json.loads((folder / name).read_text(encoding="utf-8"))
    raise FileNotFoundError(
        f"there is no {NOTE} in {folder}: save the model with save_pruned(model, folder)"
    )


def _bring_into_form(model: nn.Module, note: Note) -> None:
    """Give ``model`` the form that ``note`` describes; its weights are of no use
    afterwards.
    """
    for path, kept in note["layers"].items():
        layers = _part(model, path)
        if not isinstance(layers, nn.ModuleList) or not all(0 <= i < len(layers) for i in kept):
            raise ValueError(f"{NOTE} keeps layers {kept} of {path!r}, but the model has not these")
        keep_layers_(model, path, kept)
    if note["explicit"]:
        explicit_attention_(model)
    if note["upright"]:
        with_linears_(model)
    if note["kept"]:
        _remove(model, note["kept"])
    if note["removed"] or note["widths"]:
        mlps = {mlp.name: mlp for mlp in find_mlps(model)}
        if unknown := [name for name in (*note["removed"], *note["widths"]) if name not in mlps]:
            raise ValueError(
                f"{NOTE} names the feed-forward part {unknown[0]!r}, but the model has none there"
            )
        remove_parts_(model, [mlps[name] for name in note["removed"]])
        for name, width in note["widths"].items():
            _narrow(model, mlps[name].first, mlps[name].out, width)
    for path, rank in note["ranks"].items():
        linear = _part(model, path)
        if not isinstance(linear, nn.Linear):
            raise ValueError(
                f"{NOTE} names the matrix {path!r}, but a {type(linear).__name__} is built there"
            )
        weight, (columns, rows) = linear.weight, sizes(linear)
        low = LowRank(weight.new_zeros(rows, rank), weight.new_zeros(rank, columns), linear.bias)
        put_in_place(model, path, low)


def _part(model: nn.Module, path: str) -> Any:
    return dict(model.named_modules()).get(path)


def _narrow(model: nn.Module, first: tuple[str, ...], out: str, width: int) -> None:
    full = sizes(model.get_submodule(out))[0]
    if width == full:
        return
    for path in first:
        layer = model.get_submodule(path)
        cut(layer, outputs=torch.arange(sizes(layer)[1] // full * width) % sizes(layer)[1])
    cut(model.get_submodule(out), inputs=torch.arange(width) % full)


def _compare(model: nn.Module, full: nn.Module, note: Note) -> None:
    """Raises ValueError at the first difference in form between ``model`` and ``full``
    in the form of ``note``.
    """
    _bring_into_form(full, note)
    say = "cannot be saved so that load_pruned builds it again"
    modules = dict(full.named_modules())
    for name, module in model.named_modules():
        there = type(modules[name]).__name__ if name in modules else "nothing"
        if there != type(module).__name__:
            raise ValueError(
                f"the model {say}: {name!r} is a {type(module).__name__}, and {there} is built"
            )
    shapes = {name: tuple(value.shape) for name, value in full.state_dict().items()}
    state = model.state_dict()
    for name in (*state, *shapes):
        mine, theirs = tuple(state[name].shape) if name in state else None, shapes.get(name)
        if mine != theirs:
            raise ValueError(
                f"the model {say}: {name!r} has the shape {mine}, and {theirs} is built there."
                f" {SAVED}"
            )


# ------------------------------------------------------------------------- transformers
def _from_pretrained(cls: Any, folder: Path, note: Note, options: dict[str, Any]) -> nn.Module:
    """``cls.from_pretrained``, with the model brought into its form between building it
    and reading its weights.

    For that moment the model is of a subclass, under the same name, since transformers
    keeps what it knows of a class by its name.
    """

    class Smaller(cls):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            # the weights are on "meta" now, where no index can be looked at
            with torch.device("cpu"):
                _bring_into_form(self, note)
            for module in self.modules():
                if any(isinstance(part, ExplicitAttention) for part in module.children()):
                    # its model would draw weights for the attention that was there
                    module._is_hf_initialized = True

    for name in ("__module__", "__name__", "__qualname__"):
        setattr(Smaller, name, getattr(cls, name))
    model, found = Smaller.from_pretrained(folder, output_loading_info=True, **options)
    for what in ("missing_keys", "mismatched_keys"):
        if found[what]:
            raise ValueError(
                f"{folder} does not fit a {cls.__name__}: {what.replace('_', ' ')}"
                f" {', '.join(map(str, found[what]))}"
            )
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


def _remove(model: nn.Module, kept_by_name: dict[str, list[int]]) -> None:
    heads = {a.name: a.heads for a in find_attention(model)}
    masks: dict[str, Tensor] = {}
    for name, kept in kept_by_name.items():
        if (
            name not in heads
            or kept != sorted(set(kept))
            or not all(0 <= head < heads[name] for head in kept)
        ):
            raise ValueError(
                f"{NOTE} keeps heads {kept} of {name!r}, but the model has"
                f" {heads.get(name, 'no attention there')}"
                f"{' heads there' if name in heads else ''}:"
                " is it the same class of model, with the same configuration?"
            )
        masks[name] = torch.zeros(heads[name], dtype=torch.bool)
        masks[name][kept] = True
    remove_heads_(model, masks)
