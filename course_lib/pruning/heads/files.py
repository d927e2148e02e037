"""A pruned model on disk: its weights, and the shapes of what was pruned.

A configuration says how many heads, neurons and layers a model has, one number for all
layers, so ``from_pretrained`` alone builds the full model. Beside it, ``pruned.json``
lists each part whose shapes are not what the configuration (or ``build``) makes: the
shapes, the numbers that the module keeps of itself, and its class where it is another.
Loading builds the full model, cuts these parts to their shapes and reads their weights.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Set
from copy import copy
from os import PathLike
from pathlib import Path
from typing import Any

from safetensors import safe_open
from safetensors.torch import save_model
from torch import nn

from course_lib.models.depth import keep_layers_, meta_model
from course_lib.models.families import full_name
from course_lib.models.parts import LowRank, ZeroLinear, put_in_place
from course_lib.progress import without_bars
from course_lib.pruning.heads.explicit import ExplicitAttention
from course_lib.pruning.heads.removal import WithoutHeads, compute_as_pruned_
from course_lib.wrapped import refuse_wrapped

NOTE = "pruned.json"
# what pruning puts in the place of another module, or beside one (T5's position bias)
NEW = (LowRank, ZeroLinear, ExplicitAttention, nn.Linear, nn.Embedding, nn.Identity)
PLAIN = {bool, int, float, str, type(None)}
Part = dict[str, Any]  # the new "class", if any; "numbers"; "shapes" of its own tensors


def save_pruned(
    model: nn.Module,
    folder: str | PathLike[str],
    build: Callable[..., nn.Module] | None = None,
) -> None:
    """Write ``model`` to ``folder`` so that :func:`load_pruned` gives it back: after any
    combination and order of removed heads, neurons, feed-forward parts, layers and
    channels, and of matrices at low rank; also a model of which nothing is removed.

    A transformers model is written by its own ``save_pretrained``, any other as
    ``model.safetensors``. Of a compiled or data-parallel model the model inside is written.

    Args:
        build: makes the full model; needed where the model is not one of transformers.

    Raises:
        ValueError: without ``build`` where it is needed; or if the model differs in
            another way from what its configuration (or ``build``) makes, naming the
            first difference. Nothing is written then.
    """
    while isinstance(inner := getattr(model, "_orig_mod", None), nn.Module) or (
        isinstance(model, nn.DataParallel | nn.parallel.DistributedDataParallel)
        and isinstance(inner := model.module, nn.Module)
    ):
        model = inner
    refuse_wrapped(model)
    full = build() if build else meta_model(model)
    if full is None:
        raise ValueError(
            f"build is needed, since no configuration of transformers describes a"
            f" {type(model).__name__}: pass build=, a function that makes the full model"
        )
    plain: Any = copy(model)
    if getattr(plain, "hf_quantizer", None):  # of a GGUF file, whose layers are plain by now
        for name in ("hf_quantizer", "is_quantized", "quantization_method"):
            vars(plain).pop(name, None)
        plain.config = copy(plain.config)
        del plain.config.quantization_config
    note = {"class": None if build else type(model).__name__, "parts": _parts(plain, full)}
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for file in folder.glob("model*.safetensors"):  # the model may still read from it
        file.unlink()
    if build:
        save_model(model, str(folder / "model.safetensors"))
    else:
        plain.save_pretrained(folder, save_original_format=False)  # under the model's own names
    (folder / NOTE).write_text(json.dumps(note, indent=1) + "\n", encoding="utf-8")


def load_pruned(
    folder: str | PathLike[str], build: Callable[..., nn.Module] | None = None, **options: Any
) -> nn.Module:
    """The model that :func:`save_pruned` wrote, in evaluation mode.

    Args:
        build: the function that it was saved with; for a model of transformers, the class
            to load in place of the one that was saved.
        options: for ``from_pretrained`` (``attn_implementation``, ``dtype``, ...) or ``build``.

    Raises:
        FileNotFoundError: if there is no ``pruned.json``.
        ValueError: if it does not fit the model, or it is not known what to build.
    """
    folder = Path(folder)
    if not (folder / NOTE).is_file():
        raise FileNotFoundError(
            f"there is no {NOTE} in {folder}: save the model with save_pruned(model, folder)"
        )
    note = json.loads((folder / NOTE).read_text(encoding="utf-8"))
    if note.keys() != {"class", "parts"}:
        raise ValueError(f"{folder / NOTE} is of another version of the course: save it again")
    unread: Set[str] = {
        f"{p}.{name}".lstrip(".") for p, part in note["parts"].items() for name in part["shapes"]
    }
    if note["class"]:
        model, more = _from_pretrained(build or note["class"], folder, options)
        unread |= more
    elif build:
        model = build(**options)
    else:
        raise ValueError(f"build is needed: pass the function that {folder} was saved with")
    for path, part in note["parts"].items():
        _cut(model, path, part)
    compute_as_pruned_(model)
    names = model.state_dict().keys()
    _read(model, folder, names & unread if note["class"] else names, "dtype" in options)
    return model.eval()


def _from_pretrained(cls: Any, folder: Path, options: dict[str, Any]) -> tuple[nn.Module, set[str]]:
    """The full model with the weights that fit, and the names of the others."""
    import transformers

    log = transformers.utils.logging
    if isinstance(cls, str) and (cls := getattr(transformers, name := cls, None)) is None:
        raise ValueError(
            f"transformers has no {name}, which {folder} was saved from: pass its class as build="
        )
    before = log.get_verbosity()
    log.set_verbosity_error()  # it would list what does not fit
    try:
        with without_bars():
            model, found = cls.from_pretrained(
                folder, ignore_mismatched_sizes=True, output_loading_info=True, **options
            )
    finally:
        log.set_verbosity(before)
    return model, {*found["missing_keys"], *(key[0] for key in found["mismatched_keys"])}


def _parts(model: nn.Module, full: nn.Module) -> dict[str, Part]:
    """What differs between ``model`` and ``full``, which is cut on the way."""
    parts: dict[str, Part] = {}
    for path, module in model.named_modules():
        there: Any = _at(full, path)
        part: Part = {}
        if there is None or full_name(type(there)) != full_name(type(module)):
            if type(module) not in NEW:
                built = "nothing" if there is None else f"a {type(there).__name__}"
                _refuse(f"{path!r} is a {type(module).__name__}, and {built} is built")
            part["class"], there = type(module).__name__, nn.Module()
        elif odd := sorted(_shapes(module).keys() ^ _shapes(there).keys()):
            _refuse(f"{odd[0]!r} of {path!r} is there, or is built, but not both")
        if not isinstance(vars(module).get("forward", WithoutHeads), type | WithoutHeads):
            _refuse(f"{path!r} has a forward of its own")
        for what, of in (("numbers", _numbers), ("shapes", _shapes)):
            before: dict[str, Any] = of(there)
            part[what] = {n: x for n, x in of(module).items() if n not in before or before[n] != x}
        if any(part.values()):
            parts[path] = part
            _cut(full, path, part)
    for path, there in full.named_modules():
        if _at(model, path) is None:
            _refuse(f"{path!r} is missing, and a {type(there).__name__} is built")
    if one := sorted(_shared(model) ^ _shared(full)):
        _refuse(f"{' and '.join(one[0])} are one tensor, or are built as one, but not both")
    return parts


def _refuse(difference: str) -> None:
    raise ValueError(f"model cannot be saved so that load_pruned builds it again: {difference}")


def _cut(model: nn.Module, path: str, part: Part) -> None:
    """Give the module at ``path`` the form of ``part``; its new tensors are empty."""
    like = next(model.parameters())
    if "class" in part:
        cls = {new.__name__: new for new in NEW}[part["class"]]
        made = cls.__new__(cls)
        nn.Module.__init__(made)
        put_in_place(model, path, made)
    module: Any = _at(model, path)
    if module is None:
        raise ValueError(f"{NOTE} names {path!r}, and a {type(model).__name__} has nothing there")
    kept = part["numbers"].get("kept_layers")
    if kept is not None and len(kept) != len(module):
        keep_layers_(model, path, kept)
        module = _at(model, path)
    for name, value in part["numbers"].items():
        listed = isinstance(getattr(module, name, None), list)  # which JSON does not tell
        setattr(module, name, tuple(value) if isinstance(value, list) and not listed else value)
    for name, shape in part["shapes"].items():
        if shape is None and hasattr(module, name):
            setattr(module, name, None)
        elif shape is None:
            module.register_parameter(name, None)
        elif getattr(module, name, None) is None:
            module.register_parameter(name, nn.Parameter(like.new_empty(shape)))
        else:  # the same object: it may be another module's, too
            getattr(module, name).data = getattr(module, name).data.new_empty(shape)


def _read(model: nn.Module, folder: Path, names: Set[str], keep_dtype: bool) -> None:
    """Read the tensors ``names`` from the files of ``folder``."""
    tensors, read = model.state_dict(keep_vars=True), set()
    for place in folder.glob("model*.safetensors"):
        with safe_open(str(place), "pt") as file:
            if odd := sorted(set(file.keys()) - tensors.keys()):
                _misfit(folder, f"{odd[0]!r} is in it, and nothing is built there")
            for name in names & set(file.keys()):
                value, tensor = file.get_tensor(name), tensors[name]
                if value.shape != tensor.shape:
                    sizes = f"{tuple(value.shape)} in it, and {tuple(tensor.shape)} is built"
                    _misfit(folder, f"{name!r} is {sizes}")
                tensor.data = value.to(tensor.device, tensor.dtype if keep_dtype else value.dtype)
                read.add(id(tensor))
    if unread := sorted(name for name in names if id(tensors[name]) not in read):
        _misfit(folder, f"{unread[0]!r} is not in it")


def _misfit(folder: Path, difference: str) -> None:
    raise ValueError(f"{folder} does not fit what is built: {difference}")


def _shapes(module: nn.Module) -> dict[str, tuple[int, ...] | None]:
    """The shapes of its own tensors; None for a bias that it does not have."""
    left_out = module._non_persistent_buffers_set
    kept = {n: t for n, t in module._buffers.items() if n not in left_out}
    return {n: t if t is None else tuple(t.shape) for n, t in (module._parameters | kept).items()}


def _shared(model: nn.Module) -> set[tuple[str, ...]]:
    """The names of tensors that are one."""
    names: dict[int, tuple[str, ...]] = {}
    for name, tensor in model.state_dict(keep_vars=True).items():
        names[id(tensor)] = (*names.get(id(tensor), ()), name)
    return {same for same in names.values() if len(same) > 1}


def _numbers(module: nn.Module) -> dict[str, Any]:
    """What a module with parameters keeps of itself in plain attributes, and lists of such."""
    return {
        name: value
        for name, value in vars(module).items()
        if name[0] != "_"
        and name not in ("training", "gradient_checkpointing")
        and {type(x) for x in (value if type(value) in (list, tuple) else (value,))} <= PLAIN
        and next(module.parameters(), None) is not None
    }


def _at(model: nn.Module, path: str) -> nn.Module | None:
    try:
        return model.get_submodule(path)
    except AttributeError:
        return None
