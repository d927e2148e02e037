"""The built package in an environment of its own, far from any checkout."""

from __future__ import annotations

import re
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

from course_lib import labs
from course_lib.labs_folder import write_labs

ROOT = Path(__file__).parents[2]
PROJECT = (ROOT / "pyproject.toml").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (path,) = folder.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of an environment that holds the wheel; what the wheel requires is borrowed from
    this one, as tests have no network.
    """
    home = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", home], check=True)
    (packages,) = home.glob("lib/python*/site-packages")
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(packages)
    (packages / "borrowed.pth").write_text(sysconfig.get_path("purelib"))
    return home / "bin" / "python"


def run(python: Path, folder: Path, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
    environment = {
        "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
        "HOME": str(folder),
        "HF_HUB_OFFLINE": "1",
    }
    return subprocess.run(
        [python, *words], cwd=folder, capture_output=True, text=True, env=environment | more
    )


COURSE = ("-c", "from course_lib.cli import main; main()")
ANSWER = """
from course_lib.grading import check

def magnitude_mask(weight, sparsity):
    return weight.abs() > weight.abs().median()

check("1.1")
"""


@pytest.mark.long
def test_no_answer_is_in_the_wheel(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    inside = [name for name in names if name.startswith("course_lib/_course/")]
    assert not [name for name in names if "hidden" in name or "solutions/" in name]
    seen = {m[1] for name in inside if (m := re.search(r"tests/labs/(lab\d\d)/visible.py", name))}
    assert seen == set(labs.available())
    assert sum(name.endswith(".ipynb") for name in inside) == len(seen)
    assert "course_lib/_data/README.md" in names
    assert {f"course_lib/data/{name}_words.toml" for name in ("review", "translation")} < {*names}


@pytest.mark.long
def test_the_package_works_without_a_checkout(python: Path, tmp_path: Path) -> None:
    where = run(python, tmp_path, "-c", "import course_lib; print(course_lib.__file__)")
    assert "site-packages" in where.stdout and str(ROOT) not in where.stdout
    doctor = run(python, tmp_path, *COURSE, "doctor")
    assert doctor.returncode == 0, doctor.stdout
    demo = run(python, tmp_path, *COURSE, "demo")
    assert demo.returncode == 0 and "bitmap" in demo.stdout, demo.stdout
    (example,) = re.findall(r"```python\n(.+?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert run(python, tmp_path, "-c", example).returncode == 0
    wrong = run(python, tmp_path, *COURSE, "build")
    assert wrong.returncode and "course lab DIR" in " ".join(wrong.stderr.split()), wrong


@pytest.mark.long
def test_the_library_alone_needs_nothing_of_the_course(python: Path, tmp_path: Path) -> None:
    """The packages of the extra `course` are hidden, as if they were not installed, but
    for three that others bring.
    """
    (course,) = re.findall(r"^course = \[\n(.+?)^\]", PROJECT, re.MULTILINE | re.DOTALL)
    packages = set(re.findall(r'"([\w-]+)>=', course)) - {"pyyaml", "pygments", "psutil"}
    assert {"datasets", "jupyterlab", "nbval", "jinja2"} <= packages
    hidden = [package.replace("-", "_") for package in packages]
    (tmp_path / "sitecustomize.py").write_text(
        "import sys\nfrom importlib import metadata\n"
        f"sys.modules.update(dict.fromkeys({hidden}))\n"
        "def version(name, installed=metadata.version):\n"
        f"    if name in {packages}:\n"
        "        raise metadata.PackageNotFoundError(name)\n"
        "    return installed(name)\n"
        "metadata.version = version\n"
    )
    inside = {"PYTHONPATH": str(tmp_path)}
    (example,) = re.findall(r"```python\n(.+?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    for words in (("-c", example), (*COURSE, "demo")):
        done = run(python, tmp_path, *words, **inside)
        assert done.returncode == 0, (words, done.stdout, done.stderr)
    doctor = run(python, tmp_path, *COURSE, "doctor", **inside)
    (said,) = [line for line in doctor.stdout.splitlines() if line.startswith("Not ready")]
    assert doctor.returncode == 1 and 'pip install "pruning-course[course]"' in said
    assert all(package in said for package in packages), said
    assert doctor.stdout.endswith("The library alone can run here.\n")
    refused = run(python, tmp_path, *COURSE, "grade", "lab01", ".", "--out", "r", **inside)
    assert refused.returncode == 1 and 'pip install "pruning-course[course]"' in refused.stderr


@pytest.mark.long
def test_the_labs_are_written_and_their_checks_work(python: Path, tmp_path: Path) -> None:
    done = run(python, tmp_path, *COURSE, "lab", "pruning", "--version")
    assert done.returncode == 0 and "files written into" in done.stdout, done.stderr
    folder = tmp_path / "pruning"
    assert len(list((folder / "labs").glob("lab*.ipynb"))) == len(labs.available())
    (tmp_path / "downloads").mkdir()
    for place in (folder / "labs", tmp_path / "downloads"):
        checked = run(python, place, "-c", ANSWER)
        assert "1.1: 0 of 1.75 visible points" in checked.stdout, checked.stdout + checked.stderr


def test_what_somebody_wrote_stays(tmp_path: Path) -> None:
    written, kept = write_labs(tmp_path)
    assert not kept and len([path for path in written if path.suffix == ".ipynb"]) == 13
    mine, gone = sorted((tmp_path / "labs").glob("lab*.ipynb"))[:2]
    mine.write_text("my answers")
    gone.unlink()
    written, kept = write_labs(tmp_path)
    assert (written, kept) == ([gone], [mine])
    assert mine.read_text() == "my answers"
