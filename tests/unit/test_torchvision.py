"""torchvision can be imported after course_lib, whether or not its C++ library fits
this torch.

Each case runs in a fresh interpreter: what is declared to torch cannot be taken back.
"""

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).resolve().parents[2]

# what the real package does on import, in short: load the library if that works, then
# describe its operators to torch
PACKAGE = """
import importlib.util, torch
from pathlib import Path
try:
    (library,) = Path(__file__).parent.glob("_C*.so")
    torch.ops.load_library(library)
    HAS_OPS = True
except OSError:
    HAS_OPS = False
if not HAS_OPS:
    torch.library.register_fake("torchvision::nms")(lambda dets, scores, iou_threshold: dets)
    torch.library.register_fake("torchvision::qnms")(lambda dets, scores, iou_threshold: dets)
"""

# the second since torchvision 0.29
NAMES = pytest.mark.parametrize(
    "library", [pytest.param("_C.so", marks=pytest.mark.long), "_C_stable.so"]
)
NOT_ON_WINDOWS = pytest.mark.skipif(sys.platform == "win32", reason="files named as on Linux")


def assert_runs(code: str, *path: Path) -> None:
    places = os.pathsep.join(map(str, [*path, ROOT]))
    environment = {**os.environ, "PYTHONPATH": places, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr


@pytest.fixture
def fake(tmp_path: Path) -> Path:
    package = tmp_path / "fake" / "torchvision"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(PACKAGE)
    return package


def test_the_torchvision_of_this_machine_imports_and_transforms() -> None:
    if importlib.util.find_spec("torchvision") is None:
        pytest.skip("torchvision is not installed")
    assert_runs(
        "import course_lib, importlib, sys\n"
        "assert 'torch' not in sys.modules, 'commands answer before it is loaded'\n"
        "importlib.reload(course_lib)  # must not declare a second time\n"
        "import torch, torchvision\n"
        "from course_lib.torchvision_operators import declared\n"
        "from torchvision import datasets, transforms\n"
        "assert datasets.MNIST and transforms.Normalize([0.5], [0.5])(torch.ones(1, 2, 2)).shape == (1, 2, 2)\n"
        "from torchvision.extension import _has_ops\n"
        "assert _has_ops() == (not declared) and len(declared) <= 1\n"
    )


@NAMES
@NOT_ON_WINDOWS
def test_a_library_that_does_not_load_is_stood_in_for(fake: Path, library: str) -> None:
    (fake / library).write_bytes(b"built for another machine")
    assert_runs(
        "try:\n"
        "    import torchvision\n"
        "except RuntimeError as error:\n"
        "    assert 'nms does not exist' in str(error)\n"
        "else:\n"
        "    raise AssertionError('this stand-in should need help')\n"
        "import course_lib, gc\n"
        "import torchvision\n"
        "gc.collect()\n"
        "from course_lib.torchvision_operators import declared\n"
        "assert not torchvision.HAS_OPS and len(declared) == 1\n",
        fake.parent,
    )


@NAMES
@NOT_ON_WINDOWS
def test_nothing_is_declared_where_the_library_loads(fake: Path, library: str) -> None:
    shutil.copyfile(torch._C.__file__, fake / library)  # any library that loads beside torch
    assert_runs(
        "import course_lib, torch, torchvision\n"
        "from course_lib.torchvision_operators import declared\n"
        "assert torchvision.HAS_OPS and not declared\n"
        "assert not hasattr(torch.ops.torchvision, 'nms')\n",
        fake.parent,
    )
