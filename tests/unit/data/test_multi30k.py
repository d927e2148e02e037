"""Multi30k where $COURSE_DATA has it; else small files of the same format."""

import gzip
import os
from pathlib import Path

import pytest

from course_lib.data import multi30k
from course_lib.data.images import DataMissing

REAL = os.environ.get("COURSE_DATA", "")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("COURSE_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("COURSE_ROOT", raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "multi30k"


def write(folder: Path, lines: int = 3, short: str = "") -> None:
    folder.mkdir()
    for stem in multi30k.SPLITS.values():
        for language in ("de", "en"):
            n = lines - (f"{stem}.{language}" == short)
            text = "".join(f"{stem} {language} über {i} \n" for i in range(n))
            (folder / f"{stem}.{language}.gz").write_bytes(gzip.compress(text.encode()))


@pytest.mark.parametrize(("source", "target"), [("de", "en"), ("en", "de")])
def test_pairs_in_either_direction(folder, source, target):
    write(folder)
    data = multi30k.load(source, target)
    assert data.num_rows == {"train": 3, "validation": 3, "test": 3}
    assert data["validation"][1] == {
        "source": f"val {source} über 1",
        "target": f"val {target} über 1",
    }
    assert data["test"][0]["source"].startswith("test_2016_flickr")


def test_without_the_files_the_message_names_the_first_one_and_where_to_get_it(folder):
    with pytest.raises(DataMissing, match=r"(?s)github.com/multi30k.*there is no such folder"):
        multi30k.load()
    write(folder)
    (folder / "val.en.gz").unlink()
    with pytest.raises(DataMissing, match=r"val.en.gz is missing"):
        multi30k.load()


def test_files_that_do_not_match_are_refused(folder):
    write(folder, short="train.en")
    with pytest.raises(DataMissing, match="train has 3 and 2 lines"):
        multi30k.load()


@pytest.mark.skipif(
    not (Path(REAL) / "multi30k").is_dir(), reason="Multi30k is not on this machine"
)
def test_the_real_one_has_the_published_numbers():
    data = multi30k.load()
    assert data.num_rows == {"train": 29000, "validation": 1014, "test": 1000}
    assert data["train"][0]["target"] == "Two young, White males are outside near many bushes."
