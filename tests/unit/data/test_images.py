"""Real sets are tried on small files of the same format; MNIST itself where
$COURSE_DATA has it.
"""

import gzip
import hashlib
import os
import pickle
import socket
import struct
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

from course_lib.data import images
from course_lib.data.images import DataMissing, ImageData, Split

torchvision_datasets = pytest.importorskip("torchvision.datasets")  # after course_lib
REAL = os.environ.get("COURSE_DATA", "")
FOLDER = {"mnist": "MNIST", "fashion_mnist": "FashionMNIST"}


@pytest.fixture(autouse=True)
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with no data at all, COURSE_DATA being an empty folder, and no network.
    Returns that folder.
    """
    sets = tmp_path / "sets"
    sets.mkdir()
    monkeypatch.setenv("COURSE_DATA", str(sets))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("COURSE_ROOT", raising=False)
    monkeypatch.chdir(tmp_path)

    def no_network(*_: Any, **__: Any) -> None:
        raise urllib.error.URLError(socket.gaierror(-2, "Name or service not known"))

    monkeypatch.setattr(urllib.request, "urlopen", no_network)
    return sets


def idx(array: np.ndarray) -> bytes:
    return (
        bytes([0, 0, 8, array.ndim])
        + struct.pack(f">{array.ndim}I", *array.shape)
        + array.astype(np.uint8).tobytes()
    )


def write_mnist_like(
    root: Path, name: str = "mnist", train: int = 40, test: int = 12, packed: bool = False
) -> Path:
    """A set in MNIST's format. Image i of a part is filled with i, and its label is
    i % 10.
    """
    folder = root / FOLDER[name] / "raw"
    folder.mkdir(parents=True)
    for part, n in (("train", train), ("t10k", test)):
        pixels = np.broadcast_to(np.arange(n)[:, None, None], (n, 28, 28))
        for kind, array in (("images-idx3", pixels), ("labels-idx1", np.arange(n) % 10)):
            file = folder / f"{part}-{kind}-ubyte"
            if packed:
                file.with_name(file.name + ".gz").write_bytes(gzip.compress(idx(array)))
            else:
                file.write_bytes(idx(array))
    return folder


def write_cifar(root: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A set of 8 images a file in CIFAR-10's format, its checksums made known. In every
    image red is 255, green 51 and blue its number.
    """
    folder = root / "cifar-10-batches-py"
    folder.mkdir(parents=True)
    names = [*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"]
    entries: dict[str, Any] = {"batches.meta": {"label_names": list("abcdefghij")}}
    for b, name in enumerate(names):
        number = np.arange(8) + 8 * (b % 5)
        data = np.zeros((8, 3, 32, 32), np.uint8)
        data[:, 0], data[:, 1], data[:, 2] = 255, 51, number[:, None, None]
        entries[name] = {"data": data.reshape(8, -1), "labels": [int(i) % 10 for i in number]}
    for name, entry in entries.items():
        (folder / name).write_bytes(pickle.dumps(entry))
    sums = {name: hashlib.md5((folder / name).read_bytes()).hexdigest() for name in entries}
    reader = torchvision_datasets.CIFAR10
    monkeypatch.setattr(reader, "train_list", [[name, sums[name]] for name in names[:5]])
    monkeypatch.setattr(reader, "test_list", [["test_batch", sums["test_batch"]]])
    monkeypatch.setattr(reader, "meta", {**reader.meta, "md5": sums["batches.meta"]})
    return folder


def ids(split: Split) -> list[int]:
    """Which image of the small sets above each one is."""
    return [round(float(x) * 255) for x in split.images[:, -1, 0, 0]]


def failure(name: str) -> str:
    """The message of DataMissing, which is shown alone."""
    with pytest.raises(DataMissing) as caught:
        images.load(name)
    assert caught.value.__suppress_context__
    return str(caught.value)


def assert_clean(data: ImageData) -> None:
    for split in (data.train, data.validation, data.test):
        assert split.images.dtype == torch.float32 and split.labels.dtype == torch.int64
        assert split.images.ndim == 4 and split.images.is_contiguous()
        assert split.images.min() >= 0 and split.images.max() <= 1
        assert len(split.images) == len(split.labels)


# ---- digits


def test_digits_are_split_once_for_all() -> None:
    data, again = images.load("digits"), images.load("digits")
    parts = (data.train, data.validation, data.test)
    assert [len(part.labels) for part in parts] == [1097, 300, 400]
    assert data.shape == (1, 8, 8) and data.classes == 10
    assert_clean(data)
    # these ten will be the first as long as results are to be compared between releases
    assert data.train.labels[:10].tolist() == [2, 8, 2, 6, 6, 7, 1, 9, 8, 5]
    assert torch.equal(data.test.images, again.test.images)
    everything = torch.cat([part.images for part in parts]).flatten(1) * 16
    assert sorted(everything.tolist()) == sorted(load_digits().data.tolist())


def test_a_subset_is_smaller_in_training_only() -> None:
    data = images.load("digits")
    small, again, other = data.subset(100), data.subset(train=100, seed=0), data.subset(100, seed=1)
    assert len(small.train.labels) == 100 and small.train.images.shape == (100, 1, 8, 8)
    assert torch.equal(small.train.images, again.train.images)
    assert not torch.equal(small.train.images, other.train.images)
    assert small.test is data.test and small.validation is data.validation
    # drawn without replacement
    assert len({tuple(x) for x in small.train.images.flatten(1).tolist()}) > 95


# ---- reading


@pytest.mark.skipif(
    not Path(REAL, "MNIST/raw").is_dir() or not REAL,
    reason="COURSE_DATA names no folder with MNIST",
)
def test_real_mnist(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COURSE_DATA", REAL)
    data = images.load("mnist")
    assert_clean(data)
    assert len(data.validation.labels) == 5_000 and data.shape == (1, 28, 28)
    test = data.test.labels.bincount().tolist()
    assert test == [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
    whole = torch.cat([data.train.labels, data.validation.labels]).bincount().tolist()
    assert whole == [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    mean = (data.train.images.mean() * 55 + data.validation.images.mean() * 5) / 60
    # the figure everyone standardises MNIST by
    assert mean.item() == pytest.approx(0.1307, abs=1e-4)


def test_a_set_in_the_format_of_mnist_is_read_and_split(places: Path) -> None:
    write_mnist_like(places, "fashion_mnist")
    data = images.load("FASHION-MNIST")  # names are forgiving
    assert_clean(data)
    assert data.name == "fashion_mnist" and data.shape == (1, 28, 28)
    # each training image once
    assert sorted(ids(data.train) + ids(data.validation)) == list(range(40))
    assert len(data.validation.labels) == 4 and ids(data.test) == list(range(12))
    assert data.train.labels.tolist() == [i % 10 for i in ids(data.train)]  # shuffled together
    assert ids(data.train) != sorted(ids(data.train))
    assert ids(images.load("fashion_mnist").train) == ids(data.train)


def test_cifar_is_read_with_its_channels_first(
    places: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_cifar(places, monkeypatch)
    data = images.load("cifar10")
    assert_clean(data)
    assert data.shape == (3, 32, 32)
    red, green, _ = data.train.images.unbind(1)
    assert (red == 1).all() and torch.allclose(green, torch.tensor(0.2))
    assert sorted(ids(data.train) + ids(data.validation)) == list(range(40))
    assert data.train.labels.tolist() == [i % 10 for i in ids(data.train)]


def test_the_first_place_that_has_it_wins(
    places: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    course = tmp_path / "course"
    (course / "labs").mkdir(parents=True)
    (course / "pyproject.toml").write_text('name = "pruning-course"')
    monkeypatch.chdir(course / "labs")
    cache = tmp_path / "cache" / "pruning-course"
    missing = {"mnist": "", "fashion_mnist": "", "cifar10": ""}
    assert images.available() == {"digits": "scikit-learn"} | missing
    for size, place in ((20, cache), (30, course / "data"), (40, places)):
        write_mnist_like(place, train=size)
        assert images.available()["mnist"] == str(place)
        assert len(images.load("mnist").train.labels) == size * 9 // 10


# ---- what can go wrong


@pytest.mark.parametrize("name", ["mnist", "cifar10"])
def test_a_missing_set_says_where_it_looked_and_what_to_do(
    name: str, places: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    message = failure(name)
    for said in (name, str(places), str(tmp_path / "cache"), "Name or service", "COURSE_DATA"):
        assert said in message
    assert images.available()[name] == ""
    assert socket.getdefaulttimeout() is None
    monkeypatch.setenv("COURSE_DATA", str(places / "tyop"))
    assert f"{places / 'tyop'}: there is no such folder" in failure(name)
    assert not (places / "tyop").exists()


@pytest.mark.parametrize("damage", ["cut", "another format", "fewer images"])
def test_a_damaged_file_is_told_in_plain_words(places: Path, damage: str) -> None:
    folder = write_mnist_like(places)
    file = folder / "train-images-idx3-ubyte"
    whole, other = file.read_bytes(), b"<html>log in to the network of this hotel</html>"
    fewer = idx(np.zeros((3, 28, 28)))
    file.write_bytes({"cut": whole[:-100], "another format": other, "fewer images": fewer}[damage])
    message = failure("mnist")
    assert f"mnist is in {folder}" in message and "delete that folder" in message


def test_a_cifar_file_with_another_checksum_is_not_unpickled(
    places: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_cifar(places, monkeypatch)
    (folder / "data_batch_2").write_bytes(b"cos\nsystem\n(S'exit 1'\ntR.")
    assert "not found or corrupted" in failure("cifar10")


# ---- downloading


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A server of a small Fashion-MNIST on this machine, known to torchvision as the
    place to download it from.
    """
    folder = write_mnist_like(tmp_path / "server", "fashion_mnist", packed=True)
    sums = {file.name: hashlib.md5(file.read_bytes()).hexdigest() for file in folder.iterdir()}
    monkeypatch.setattr(torchvision_datasets.FashionMNIST, "resources", list(sums.items()))
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder))) as httpd:
        threading.Thread(target=httpd.serve_forever, daemon=True).start()
        mirror = f"http://127.0.0.1:{httpd.server_port}/"
        monkeypatch.setattr(torchvision_datasets.FashionMNIST, "mirrors", [mirror])
        no_proxy = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        monkeypatch.setattr(urllib.request, "urlopen", no_proxy.open)
        yield
        httpd.shutdown()


@pytest.mark.usefixtures("server")
@pytest.mark.parametrize("course_data", ["given", "read-only", "not given"])
def test_a_download_lands_in_course_data_or_else_in_the_cache(
    course_data: str, places: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if course_data == "not given":
        monkeypatch.delenv("COURSE_DATA")
    if course_data == "read-only":
        monkeypatch.setattr(os, "access", lambda place, how: place != places)
    place = places if course_data == "given" else tmp_path / "cache" / "pruning-course"
    assert ids(images.load("fashion_mnist").test) == list(range(12))
    assert images.available()["fashion_mnist"] == str(place)
    assert [p.name for p in place.iterdir()] == ["FashionMNIST"]


@pytest.mark.usefixtures("server")
def test_a_download_completes_what_is_incomplete(places: Path) -> None:
    folder = write_mnist_like(places, "fashion_mnist", train=20)
    (folder / "train-labels-idx1-ubyte").unlink()
    assert len(images.load("fashion_mnist").train.labels) == 36
