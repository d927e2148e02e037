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
from types import ModuleType

import pytest
import torch

from course_lib import torchvision_operators

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


def assert_runs(code: str, *path: Path, isolated: bool = False) -> None:
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(map(str, [*path, ROOT])),
        "OMP_NUM_THREADS": "1",
    }
    options = ["-S"] if isolated else []  # -S: without site-packages
    command = [sys.executable, *options, "-c", code]
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
        "import course_lib, importlib\n"
        "declared = course_lib.torchvision_operators.DECLARED\n"
        "importlib.reload(course_lib)  # must not declare a second time\n"
        "import torch, torchvision\n"
        "from torchvision import datasets, transforms\n"
        "assert datasets.MNIST and transforms.Normalize([0.5], [0.5])(torch.ones(1, 2, 2)).shape == (1, 2, 2)\n"
        "from torchvision.extension import _has_ops\n"
        "assert _has_ops() == (declared is None)\n"
    )


@NAMES
@pytest.mark.skipif(
    sys.platform == "win32", reason="the stand-in library is named as on Linux and macOS"
)
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
        "gc.collect()\n"
        "import torchvision\n"
        "assert not torchvision.HAS_OPS and course_lib.torchvision_operators.DECLARED is not None\n",
        fake.parent,
    )


@NAMES
@pytest.mark.skipif(
    sys.platform == "win32", reason="the stand-in library is named as on Linux and macOS"
)
def test_nothing_is_declared_where_the_library_loads(fake: Path, library: str) -> None:
    shutil.copyfile(torch._C.__file__, fake / library)  # any library that loads beside torch
    assert_runs(
        "import course_lib, torch, torchvision\n"
        "assert torchvision.HAS_OPS and course_lib.torchvision_operators.DECLARED is None\n"
        "assert not hasattr(torch.ops.torchvision, 'nms')\n",
        fake.parent,
    )


def test_nothing_is_declared_once_torchvision_is_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torchvision", ModuleType("torchvision"))
    assert torchvision_operators.library_loads()


@pytest.mark.long
@pytest.mark.skipif(sys.platform == "win32", reason="needs symbolic links")
def test_without_torchvision_the_digits_still_load(tmp_path: Path) -> None:
    # the site-packages of this Python, but for torchvision
    for entry in Path(torch.__file__).parents[1].iterdir():
        if (
            not entry.name.startswith(("torchvision", "pruning_course", "_pruning_course"))
            and entry.suffix != ".pth"
        ):
            (tmp_path / entry.name).symlink_to(entry)
    assert_runs(
        "import importlib.util, course_lib\n"
        "assert importlib.util.find_spec('torchvision') is None and course_lib.torchvision_operators.DECLARED is None\n"
        "from course_lib.data import images\n"
        "assert len(images.load('digits').test.labels) == 400\n",
        tmp_path,
        isolated=True,
    )
