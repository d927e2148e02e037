"""A folder with one file per training: what a long search has found is on disk as soon
as it is found.

Every file is written whole or not at all (written beside, then renamed), so a search
can be stopped at any moment. Files hold tensors and plain data only and are read
without running any code that a file could bring along.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import io
import json
import pickle
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from filelock import FileLock, Timeout
from torch import Tensor

from course_lib import files

FORMAT = 2


def pack(value: Any) -> bytes:
    """``value`` as bytes that :func:`unpack` reads: for a file, or on the way to
    another process.

    Raises:
        TypeError: if it is not plain: numbers, strings, None, tensors, and lists,
            tuples and dicts of them.
    """
    buffer = io.BytesIO()
    try:
        torch.save(value, buffer)
        torch.load(io.BytesIO(buffer.getvalue()), weights_only=True)
    # the last two: what cannot even be pickled
    except (pickle.PickleError, AttributeError, TypeError) as error:
        raise TypeError(
            "what is kept in a folder or comes from another process must be plain data: numbers,"
            " strings, None, tensors, and lists, tuples and dicts of them (of a numpy number take"
            f" .item(), of an object vars()): {str(error).splitlines()[0]}"
        ) from None
    return zlib.compress(buffer.getvalue(), 1)  # masks are bytes of 0 and 1


def unpack(data: bytes) -> Any:
    """What :func:`pack` was given, tensors on the CPU."""
    return torch.load(io.BytesIO(zlib.decompress(data)), weights_only=True, map_location="cpu")


def described(value: Any) -> Any:
    """What can be told of ``value`` in JSON, so that two configurations can be
    compared.

    Tensors and arrays by a digest of their content; a ``functools.partial`` and a
    dataclass with all that they hold; functions and other objects by the name of what
    they are, without what they do.
    """
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, functools.partial):
        arguments = {str(i): argument for i, argument in enumerate(value.args)} | value.keywords
        return {
            "function": described(value.func),
            **{k: described(v) for k, v in sorted(arguments.items())},
        }
    if isinstance(value, Tensor | np.ndarray):
        tensor = torch.as_tensor(value).detach().cpu().contiguous()
        content = tensor.flatten().view(torch.uint8).numpy().tobytes() if tensor.numel() else b""
        digest = hashlib.blake2b(content, digest_size=16).hexdigest()
        return f"{str(tensor.dtype).removeprefix('torch.')} {tuple(tensor.shape)} {digest}"
    if isinstance(value, Mapping):
        return {str(key): described(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [described(item) for item in value]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {f.name: described(getattr(value, f.name)) for f in dataclasses.fields(value)}
        return {"type": type(value).__qualname__, **fields}
    return getattr(value, "__qualname__", type(value).__qualname__)


def digest(state: Mapping[str, Any]) -> str:
    """One short text for all the numbers of a model."""
    content = json.dumps({name: described(value) for name, value in state.items()})
    return hashlib.blake2b(content.encode(), digest_size=16).hexdigest()


class Folder:
    """The files of one search: ``configuration.json``, ``start.pt.z``,
    ``round-00.pt.z``, ``round-01-reinit.pt.z``, …

    Args:
        path: made if it is not there.
        configuration: plain data for JSON; a folder belongs to one configuration.
    """

    def __init__(self, path: str | Path, configuration: Mapping[str, Any]) -> None:
        self.path = Path(path)
        self.configuration = json.loads(json.dumps({"format": FORMAT, **configuration}))

    @contextmanager
    def opened(self) -> Iterator[None]:
        """Inside, nobody else writes here.

        Raises:
            RuntimeError: if another process is at work here.
            ValueError: if the files belong to another configuration.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        lock = FileLock(self.path / ".lock")
        try:
            lock.acquire(timeout=0)
        except Timeout:
            raise RuntimeError(
                f"another search is writing to {self.path}: wait for it, or give this one a folder"
                " of its own"
            ) from None
        try:
            self._compare()
            yield
        finally:
            lock.release()

    def read(self, name: str) -> Any:
        """The content of a file, or None if there is none.

        Raises:
            ValueError: if the file is damaged.
        """
        path = self.path / f"{name}.pt.z"
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            return None
        try:
            return unpack(data)
        except Exception as error:  # whatever a damaged file makes of zlib, zipfile and pickle
            raise ValueError(
                f"{path} is damaged ({type(error).__name__}): delete it and what comes after it,"
                " and run again; the rounds before it stay"
            ) from None

    def write(self, name: str, packed: bytes) -> None:
        """Write a file of what :func:`pack` gave, whole or not at all; one that is
        there is replaced.
        """
        files.put(self.path / f"{name}.pt.z", packed, sync=True)

    def _compare(self) -> None:
        path = self.path / "configuration.json"
        try:
            there = json.loads(path.read_bytes())
        except FileNotFoundError:
            if any(self.path.glob("*.pt.z")):
                raise ValueError(
                    f"{self.path} holds rounds, but no configuration.json that says of what: give"
                    " an empty folder"
                ) from None
            files.put(path, json.dumps(self.configuration, indent=1).encode(), sync=True)
            return
        except ValueError:
            raise ValueError(
                f"{path} is no JSON any more: give another folder, or delete this one"
            ) from None
        here, there = _flat(self.configuration), _flat(there)
        if differing := [
            key for key in {**here, **there} if here.get(key, "absent") != there.get(key, "absent")
        ]:
            lines = "\n".join(
                f"  {k}: {there.get(k, 'absent')!r} there, {here.get(k, 'absent')!r} now"
                for k in differing
            )
            raise ValueError(
                f"{self.path} holds a search of another configuration:\n{lines}\nTo go on with it,"
                " call it with the same arguments as before; for a new search give another folder."
            )


def _flat(value: Any, name: str = "") -> dict[str, Any]:
    """{"train": {"lr": 1}} as {"train.lr": 1}."""
    if not isinstance(value, Mapping):
        return {name: value}
    return {
        k: v
        for key, item in value.items()
        for k, v in _flat(item, f"{name}.{key}" if name else str(key)).items()
    }
