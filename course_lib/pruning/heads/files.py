"""A pruned model on disk: its weights, and ``pruned.json`` with each part whose shapes are
not what the configuration (or ``build``) makes: the shapes, the numbers that the module
keeps of itself, and its class where it is another. Loading builds the full model, cuts
these parts to their shapes and reads their weights.
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
    ``model.safetensors``.

    Args:
        build: makes the full model; needed where the model is not one of transformers.

    Raises:
        ValueError: without ``build`` where it is needed; or if the model differs in
            another way from what its configuration (or ``build``) makes, naming the
            first difference. Nothing is written then.
    """
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
    model, read = _full(folder, note["class"], build, options)
    for path, part in note["parts"].items():
        _cut(model, path, part)
        read -= {f"{path}.{name}".lstrip(".") for name in part["shapes"]}
    compute_as_pruned_(model)
    _read(model, folder, model.state_dict().keys() - read, "dtype" in options)
    return model.eval()


def _full(
    folder: Path, saved: str | None, build: Any, options: dict[str, Any]
) -> tuple[nn.Module, set[str]]:
    """The full model, and the names of the tensors that it has read."""
    import transformers

    cls: Any = build or (saved and getattr(transformers, saved, None))
    if cls is None:
        source = f"transformers has no {saved}" if saved else f"{folder} names no class"
        raise ValueError(f"build is needed, since {source}: pass the class or function to build")
    if not saved:
        return cls(**options), set()
    log = transformers.utils.logging
    before = log.get_verbosity()
    log.set_verbosity_error()  # it would list what does not fit
    try:
        with without_bars():
            model, found = cls.from_pretrained(
                folder, ignore_mismatched_sizes=True, output_loading_info=True, **options
            )
    finally:
        log.set_verbosity(before)
    odd = {*found["missing_keys"], *(key[0] for key in found["mismatched_keys"])}
    return model, model.state_dict().keys() - odd


def _parts(model: nn.Module, full: nn.Module) -> dict[str, Part]:
    """What differs between ``model`` and ``full``, which is cut on the way."""
    parts: dict[str, Part] = {}
    for path, module in model.named_modules():
        there: Any = _at(full, path)
        part: Part = {}
        if type(module) in NEW and type(there) is not type(module):
            part["class"], there = type(module).__name__, nn.Module()
        for what, of in (("numbers", _numbers), ("shapes", _shapes)):
            before: dict[str, Any] = of(there) if there is not None else {}
            part[what] = {n: x for n, x in of(module).items() if n not in before or before[n] != x}
        if any(part.values()) and there is not None:
            parts[path] = part
            _cut(full, path, part)
    mine, made = _form(model), _form(full)
    for key in {**mine, **made}:
        has, built = (form.get(key, "nothing") for form in (mine, made))
        if has != built:
            raise ValueError(
                f"model cannot be saved so that load_pruned builds it again: {key!r} is {has}, and"
                f" {built} is built"
            )
    return parts


def _form(model: nn.Module) -> dict[Any, str]:
    """What loading has to build: classes, tensors that are one, and no other forward."""
    form: dict[Any, str] = {}
    for path, module in model.named_modules():
        own = vars(module).get("forward")
        forward = " with its own forward" if callable(own) and type(own) is not WithoutHeads else ""
        form[path] = f"a {full_name(type(module))}{forward}"
    names: dict[int, list[str]] = {}
    for name, tensor in model.state_dict(keep_vars=True).items():
        names.setdefault(id(tensor), []).append(name)
    return form | {" and ".join(same): "one tensor" for same in names.values() if len(same) > 1}


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
        raise ValueError(f"{NOTE} names {path!r}, and nothing is built there")
    kept = part["numbers"].get("kept_layers")
    if kept is not None and len(kept) != len(module):
        keep_layers_(model, path, kept)
        module = _at(model, path)
    for name, value in part["numbers"].items():
        listed = isinstance(getattr(module, name, None), list)  # which JSON does not tell
        setattr(module, name, tuple(value) if isinstance(value, list) and not listed else value)
    for name, shape in part["shapes"].items():
        if shape is None:
            module.register_parameter(name, None)
        elif getattr(module, name, None) is None:
            module.register_parameter(name, nn.Parameter(like.new_empty(shape)))
        else:  # the same object: it may be another module's, too
            getattr(module, name).data = getattr(module, name).data.new_empty(shape)


def _read(model: nn.Module, folder: Path, names: Set[str], keep_dtype: bool) -> None:
    """Read the tensors ``names`` from the files of ``folder``."""
    tensors, read = model.state_dict(keep_vars=True), set()
    built = {name: f"of shape {tuple(tensor.shape)}" for name, tensor in tensors.items()}

    def check(name: str, inside: str) -> None:
        if inside != built.get(name, "nothing"):
            raise ValueError(
                f"{folder} does not fit what is built: {name!r} is {inside} in it, and"
                f" {built.get(name, 'nothing')} where it is built"
            )

    for place in folder.glob("model*.safetensors"):
        with safe_open(str(place), "pt") as file:
            for name in list(file.keys()):
                check(name, f"of shape {tuple(file.get_slice(name).get_shape())}")
                if name in names:
                    value, tensor = file.get_tensor(name), tensors[name]
                    dtype = tensor.dtype if keep_dtype else value.dtype
                    tensor.data = value.to(tensor.device, dtype)
                    read.add(id(tensor))
    for name in sorted(name for name in names if id(tensors[name]) not in read):
        check(name, "missing")


def _shapes(module: nn.Module) -> dict[str, tuple[int, ...] | None]:
    """The shapes of its own tensors; None for a bias that it does not have."""
    left_out = module._non_persistent_buffers_set
    kept = {n: t for n, t in module._buffers.items() if n not in left_out}
    return {n: t if t is None else tuple(t.shape) for n, t in (module._parameters | kept).items()}


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
