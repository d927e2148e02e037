"""Neural-network pruning, taught and measured.

**Imported by notebooks, and by users of the library:**

- :mod:`.pruning`, :mod:`.cost`, :mod:`.models`, :mod:`.data`, :mod:`.training`: the library, for
  any ``nn.Module``, with its tools :mod:`.checks`, :mod:`.devices`, :mod:`.intervals`,
  :mod:`.modes`, :mod:`.progress`, :mod:`.seeding` and :mod:`.wrapped`;
- :mod:`.show`, :mod:`.ledger`, :mod:`.capstone`: figures, the table of results, the final project;
- :mod:`.experiments`, :mod:`.recipes`, :mod:`.conformance`, :mod:`.parallel`: the labs' long runs,
  their checkpoints, the table of supported models;
- :mod:`.files`, :mod:`.paths`: where files lie and how they are written.

**Runs the course; nothing above imports it:**

- :mod:`.authoring`, :mod:`.labs`: notebooks built from sources, and what each lab asks for;
- :mod:`.grading`, :mod:`.student_code`, :mod:`.sandbox_child`: marks for submissions. Notebooks
  import only ``check`` and ``skip`` from :mod:`course_lib.grading`;
- :mod:`.cli`, :mod:`.doctor`, :mod:`.demo`, :mod:`.environment`, :mod:`.install`,
  :mod:`.labs_folder`: the command ``course``, and its set-up.
"""

import importlib.util
import os
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import torch

__version__ = "0.1.0"

_torchvision_operators: torch.library.Library | None = None


def _torchvision_library_loads() -> bool:
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


def _declare_torchvision_operators() -> torch.library.Library | None:
    """Let ``import torchvision`` succeed where its C++ library does not load.

    A torchvision built for CUDA beside a CPU-only torch cannot load its library, and
    then stops on import because two operators are unknown, and with it every
    transformers model. Their declaration is enough: data sets, transforms and models do
    not call them. The operators live as long as the returned Library, so the caller
    keeps it.
    """
    if _torchvision_library_loads() or hasattr(torch.ops.torchvision, "nms"):
        return None
    library = torch.library.Library("torchvision", "FRAGMENT")
    for name in ("nms", "qnms"):
        library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    return library


_torchvision_operators = _declare_torchvision_operators()
