"""Notebooks that nobody has checked: whatever their bytes are, reading them takes time
and memory like any other of their size.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import nbformat
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from course_lib.grading.batch import ipynb

# Reads texts of one size, in a process that may take a few hundred megabytes more than
# it has; says how long each took beside a notebook with one long output, the best of
# three, and what was said of it.
CHILD = r"""
import json, resource, sys, time
from pathlib import Path
from course_lib.grading.batch.collect import collect, read_single_submission
from course_lib.grading.batch import ipynb

n, more, folder = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]

def cells(piece, most=10**9):
    count = min(most, (n - 30) // len(piece))
    body = b'{"cells":[' + piece * count + b'{}]}'
    return body[:-1] + b',"x":"' + b"y" * (n - len(body) - 7) + b'"}'

def plain():
    out = {"output_type": "stream", "name": "stdout", "text": "y" * (n - 200)}
    return json.dumps({"nbformat": 4, "cells": [{"cell_type": "code", "source": "x = 1", "metadata": {}, "outputs": [out]}]})

def string(piece):
    body = piece * ((n - 80) // len(piece))
    return b'{"cells":[{"cell_type":"code","source":"x","outputs":["' + body + b'"]}]}'

TEXTS = {
    "plain": lambda: plain().encode(),
    "braces": lambda: b"{" * n,
    "brackets": lambda: b"[" * n,
    "deep": lambda: (b"[" * 900 + b"]" * 900 + b",") * (n // 1801),
    "dicts in dicts": lambda: b'{"a":' * (n // 5),
    "empty lists": lambda: cells(b"[],"),
    "empty dicts": lambda: cells(b"{},"),
    "dicts": lambda: cells(b'{"a":1},'),
    "numbers": lambda: cells(b"1.5,"),
    "strings": lambda: cells(b'"ab",'),
    "as many cells as may be": lambda: cells(b"{},", 980_000),
    "as many dicts as may be": lambda: cells(b'{"a":[]},', 660_000),
    "as many strings as may be": lambda: cells(b'"ab",', 1_980_000),
    "as many code cells as may be": lambda: cells(b'{"cell_type":"code"},', 980_000),
    "quotes": lambda: string(b'\\"'),
    "backslashes": lambda: string(b"\\\\"),
    "brackets in a string": lambda: string(b"[{,"),
    "a string that never ends": lambda: b'"' + b"\\" * n,
    "escaped quotes that never end": lambda: b'"\\' * (n // 2),
    "braces, then escaped quotes": lambda: b"{" * (n - 100_000) + b'"\\' * 50_000,
    "nothing but quotes": lambda: b'"' * n,
    "blanks": lambda: b" " * n,
    "a long number": lambda: b"1." + b"1" * n,
    "a longer number": lambda: b"1" * n,
    "zeros": lambda: b"\0" * n,
    "signs of two bytes": lambda: '{"cells":["'.encode() + "é".encode() * (n // 2),
    "signs of four": lambda: string("\U0001f600".encode()),
}
size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (size + more,) * 2)
seconds, said = {}, {}
for name, make in TEXTS.items():
    data = make()
    assert len(data) <= n + 100, (name, len(data))
    for _ in range(3):
        begin = time.thread_time()
        try:
            ipynb.code(ipynb.read(data))
            said[name] = ""
        except ipynb.Unreadable as error:
            said[name] = str(error)
        seconds[name] = min(seconds.get(name, 1e9), time.thread_time() - begin)
begin = time.thread_time()
said |= {h.id: h.problem for h in collect(Path(folder), "lab01").submissions}
seconds["three zips"] = (time.thread_time() - begin) * n / 88_000_000  # which they hold, unpacked
begin = time.thread_time()
said["on Gradescope"] = read_single_submission(Path(folder) / "braces.zip", "lab01").problem
seconds["on Gradescope"] = (time.thread_time() - begin) * n / 40_000_000
print(json.dumps({"ratio": {k: v / seconds["plain"] for k, v in seconds.items()}, "said": said}))
"""


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="limits the memory as Linux does")
def test_any_text_takes_time_and_memory_as_a_plain_one_of_its_size(tmp_path: Path) -> None:
    size = 20_000_000
    for name, text in {
        "braces": b"{" * 40_000_000,
        "escapes": b"{" * size + b'"\\' * 50_000,
        "one string": b'{"a":"' + b"{" * 39_000_000 + b'"}',
    }.items():
        with zipfile.ZipFile(tmp_path / f"{name}.zip", "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("lab01.ipynb", text)
        assert (tmp_path / f"{name}.zip").stat().st_size < 60_000
    command = [sys.executable, "-c", CHILD, str(size), str(400 << 20), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    result = json.loads(done.stdout)
    assert result["said"]["plain"] == ""
    slow = {name: round(ratio, 1) for name, ratio in result["ratio"].items() if ratio > 40}
    assert not slow, f"times as long as a plain notebook of {size / 1e6:g} MB: {slow}"
    assert {name for name, said in result["said"].items() if not said} == {
        "plain", "as many cells as may be", "as many dicts as may be", "quotes", "backslashes", "brackets in a string", "signs of four",
    }  # fmt: skip


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.sampled_from('a\\"[]{},:\n\u20ac')),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(st.sampled_from('a"\\{'), max_size=3), inner)
    ),
    max_leaves=30,
)


def counted(value: object) -> tuple[int, int]:
    """Values and depth, by looking at what was built."""
    if not isinstance(value, list | dict):
        return 1, 0
    inner = [counted(v) for v in (value.values() if isinstance(value, dict) else value)]
    return 1 + sum(n for n, _ in inner), 1 + max((d for _, d in inner), default=0)


@settings(max_examples=300, deadline=None)
@given(values, st.booleans(), st.sampled_from([None, 1]))
def test_what_is_measured_is_what_is_built(value: object, ascii: bool, indent: int | None) -> None:
    most, depth = ipynb.measure(json.dumps(value, ensure_ascii=ascii, indent=indent).encode())
    assert depth == counted(value)[1]
    # an empty list counts as its first value, too
    assert counted(value)[0] <= most <= 2 * counted(value)[0]


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.sampled_from([b'"', b"\\", b"\\\\", b"[", b"{", b"]", b",", b"a"]), max_size=40),
    st.integers(1, 7),
)
def test_pieces_do_not_matter(marks: list[bytes], piece: int) -> None:
    data = b"".join(marks)
    whole = ipynb.measure(data)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ipynb, "_PIECE", piece)
        assert ipynb.measure(data) == whole


def test_as_much_as_a_real_notebook_holds_is_read() -> None:
    drawing = {"data": {"x": [0.5] * 200_000, "y": [[i, i] for i in range(100_000)]}}
    cell = {
        "cell_type": "code",
        "source": ["x = 1\n", "y"],
        "metadata": {},
        "outputs": [{"data": drawing}],
    }
    assert ipynb.code(ipynb.read(json.dumps({"cells": [cell]}).encode())) == ["x = 1\ny"]


@pytest.mark.parametrize(
    "data, said",
    [
        (b"[" * 201 + b"]" * 201, "nested 201 deep"),
        (b"[" + b"1," * 2_000_000 + b"1]", r"holds 2\.0 millions of values: clear its outputs"),
        (b"[1]", "holds a list"),
        (b"null", "holds a NoneType"),
        (b"\xff\xfe", "is empty"),
        (b'{"cells": 3}', "no notebook"),
        (b'{"cells": [3]}', "no notebook"),
        (b'{"cells": [{}', "is no readable JSON .*cut off"),
        (b"{}", "no notebook"),
        (b'{"nbformat": 4.5, "cells": []}', "nbformat, is no whole number"),
        (b'{"nbformat": Infinity, "cells": []}', "nbformat, is no whole number"),
    ],
)
def test_what_is_said(data: bytes, said: str) -> None:
    with pytest.raises(ipynb.Unreadable, match=said):
        ipynb.code(ipynb.read(data))


def test_code_of_every_version() -> None:
    for number in (3, 4):
        module = getattr(nbformat, f"v{number}")
        cells = [module.new_code_cell("x = 1"), module.new_text_cell("markdown", "no")] if number == 3 else [
            module.new_code_cell("x = 1"), module.new_markdown_cell("no"),
        ]  # fmt: skip
        made = (
            module.new_notebook(worksheets=[module.new_worksheet(cells=cells)])
            if number == 3
            else module.new_notebook(cells=cells)
        )
        assert ipynb.code(ipynb.read(json.dumps(made).encode())) == ["x = 1"]


def test_more_code_than_goes_to_the_worker_is_refused_without_writing_it_out() -> None:
    many = json.dumps({"cells": [{"cell_type": "code", "source": "\0" * 30_000_000}]})
    with pytest.raises(ipynb.Unreadable) as caught:
        ipynb.code(ipynb.read(many.encode()))
    assert re.match(r"the notebook holds 30\.0 MB of code", str(caught.value))
