"""Lets ``import torchvision`` succeed where its C++ library does not load.

A torchvision built for CUDA beside a CPU-only torch cannot load its library, and then stops on
import because two operators are unknown, and with it every transformers model. Their declaration
is enough: data sets, transforms and models do not call them.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from contextlib import suppress
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import Any

declared: list[Any] = []  # torch's libraries of operators, which live as long as these


class BeforeTorchvision:
    """Declares the operators when torchvision is first looked for; finds nothing itself, and
    loads torch no earlier.
    """

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        if name == "torchvision":
            sys.meta_path.remove(self)
            declare()


def declare() -> None:
    """Declare them, where they are needed and unknown."""
    import torch

    if not _library_loads() and not hasattr(torch.ops.torchvision, "nms"):
        library = torch.library.Library("torchvision", "FRAGMENT")
        for name in ("nms", "qnms"):
            library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        declared.append(library)


def _library_loads() -> bool:
    """Can torchvision be imported as it is? It can, too, where it is absent."""
    import torch

    spec = importlib.util.find_spec("torchvision")  # finds the folder, does not import it
    if spec is None or not spec.submodule_search_locations:
        return True
    # the second since torchvision 0.29
    names = [f"{stem}{suffix}" for stem in ("_C", "_C_stable") for suffix in EXTENSION_SUFFIXES]
    folders = map(Path, spec.submodule_search_locations)
    for library in (folder / name for folder in folders for name in names):
        if library.is_file():
            if sys.platform == "win32":
                os.add_dll_directory(str(library.parent))  # as torchvision does
            with suppress(OSError):
                torch.ops.load_library(library)  # torchvision loads it again, which costs nothing
                return True
    return False
