"""Multi30k: descriptions of photographs in English and German, 29,000 pairs to train on
(Elliott et al. 2016).

The files of the data set's repository, gzipped lines, are read from ``multi30k`` in
``$COURSE_DATA``, the course's ``data/`` or the cache; where they are in none of them
the message says where to get them. Test is that of 2016.
"""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import TYPE_CHECKING

from course_lib import paths
from course_lib.checks import check_same_names
from course_lib.data.images import DataMissing

if TYPE_CHECKING:
    from datasets import DatasetDict

SPLITS = {"train": "train", "validation": "val", "test": "test_2016_flickr"}
SOURCE = "https://github.com/multi30k/dataset (data/task1/raw)"


def load(source: str = "de", target: str = "en") -> DatasetDict:
    """A ``datasets.DatasetDict`` with train, validation and test, columns ``source``
    and ``target``.

    Args:
        source, target: "de" and "en", in either order.

    Raises:
        ValueError: for other languages.
        DataMissing: if the files are not there, or their lines do not match.
    """
    from datasets import Dataset, DatasetDict

    check_same_names({source, target}, ("de", "en"), "source and target")
    wanted = [f"{stem}.{language}.gz" for stem in SPLITS.values() for language in ("de", "en")]
    place, looked = paths.data_folder("multi30k", wanted)
    if place is None:
        raise DataMissing(
            f"Multi30k is not on this machine. Put its files *.de.gz and *.en.gz from {SOURCE} into"
            " one of these folders:\n" + "\n".join(looked)
        )
    found = {}
    for split, stem in SPLITS.items():
        one, other = (_lines(place / f"{stem}.{language}.gz") for language in (source, target))
        if len(one) != len(other):
            raise DataMissing(
                f"{place}: {stem} has {len(one)} and {len(other)} lines, and should have as many in"
                " both"
            )
        found[split] = Dataset.from_dict({"source": one, "target": other})
    return DatasetDict(found)


def _lines(file: Path) -> list[str]:
    with gzip.open(file, "rt", encoding="utf-8") as lines:
        return [line.strip() for line in lines]
