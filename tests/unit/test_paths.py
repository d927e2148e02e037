from pathlib import Path

import pytest

from course_lib import paths


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("COURSE_ROOT", "COURSE_DATA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def course(tmp_path: Path) -> Path:
    root = tmp_path / "my course"
    (root / "labs").mkdir(parents=True)
    (root / "pyproject.toml").write_text(
        '[project]\nname = "my-labs"\ndependencies = ["pruning-course==0.1.0"]\n'
    )
    return root


def test_the_course_is_found_from_any_folder_inside_it(
    course: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert paths.course_root() is None
    for inside in (course, course / "labs"):
        monkeypatch.chdir(inside)
        assert paths.course_root() == course


@pytest.mark.parametrize("lacking", ["labs", "name", "project"])
def test_another_project_is_not_taken_for_the_course(
    course: Path, monkeypatch: pytest.MonkeyPatch, lacking: str
) -> None:
    monkeypatch.chdir(course)
    if lacking == "labs":
        monkeypatch.chdir(course)
        (course / "labs").rmdir()
    elif lacking == "name":
        (course / "pyproject.toml").write_text('[project]\nname = "something-else"\n')
    else:
        (course / "pyproject.toml").unlink()
    assert paths.course_root() is None


def test_the_environment_decides_over_the_working_folder(
    course: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(course)
    monkeypatch.setenv("COURSE_ROOT", str(tmp_path))
    assert paths.course_root() == tmp_path
    monkeypatch.setenv("COURSE_ROOT", "no/such/folder")
    with pytest.raises(ValueError, match="COURSE_ROOT is set to 'no/such/folder'"):
        paths.course_root()


def test_own_data_come_from_the_course_then_from_the_package(
    course: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "site" / "course_lib"
    (package / "_data").mkdir(parents=True)
    monkeypatch.setattr(paths, "_PACKAGE", package)
    assert paths.data_dir() == package / "_data"  # an installed wheel, far from any course
    monkeypatch.chdir(course)
    assert paths.data_dir() == package / "_data"  # a release folder that brings no data
    (course / "data").mkdir()
    assert paths.data_dir() == course / "data"
    monkeypatch.chdir(tmp_path)  # a package in editable mode uses its checkout's
    monkeypatch.setattr(paths, "_PACKAGE", course / "course_lib")
    assert paths.data_dir() == course / "data"


def test_places_for_real_data_in_order(
    course: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = tmp_path / "cache" / "pruning-course"
    assert paths.data_places() == [cache]
    monkeypatch.chdir(course)
    assert paths.data_places() == [course / "data", cache]
    monkeypatch.setenv("COURSE_DATA", "~/sets")
    assert paths.data_places() == [Path.home() / "sets", course / "data", cache]
    monkeypatch.setenv("COURSE_DATA", "")  # set, but to nothing: as if it were not
    assert paths.data_places() == [course / "data", cache]
