"""``import torchvision`` succeeds where its C++ library does not load: :mod:`course_lib`
imports this first.

Why: torch and torchvision come from two places on many machines (a CPU-only torch, and
the torchvision of PyPI, built for CUDA). Such a torchvision cannot load its library, and
then stops on import because two operators are unknown, and with it every transformers
model. Their declaration is enough: data sets, transforms and models do not call them.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import torch


def library_loads() -> bool:
    """True if torchvision can be imported as it is: its C++ library loads, or it is
    absent or imported already.
    """
    if "torchvision" in sys.modules:
        return True
    spec = importlib.util.find_spec("torchvision")  # finds the folder, does not import it
    if spec is None or not spec.submodule_search_locations:
        return True
    # the second since torchvision 0.29
    names = [f"{stem}{suffix}" for stem in ("_C", "_C_stable") for suffix in EXTENSION_SUFFIXES]
    for library in (
        Path(folder) / name for folder in spec.submodule_search_locations for name in names
    ):
        if not library.is_file():
            continue
        if sys.platform == "win32":
            # as torchvision does before it loads the file
            os.add_dll_directory(str(library.parent))
        try:
            # torchvision loads it again: the second time costs nothing
            torch.ops.load_library(library)
            return True
        except OSError:
            continue
    return False


def _declare() -> torch.library.Library | None:
    """The operators live as long as the returned Library, so the caller keeps it."""
    if library_loads() or hasattr(torch.ops.torchvision, "nms"):
        return None
    library = torch.library.Library("torchvision", "FRAGMENT")
    for name in ("nms", "qnms"):
        library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    return library


#: What declares them; None where torchvision needs no help.
DECLARED = _declare()
