"""Frames that nobody would write: whatever a hostile process sends is decoded or
refused, at once, and fills no memory.

Real frames are changed at random, in their bytes and in what they mean. ``FRAMES`` (an
environment variable) says how many.
"""

from __future__ import annotations

import json
import os
import random
import resource
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from course_lib.grading import Draw, describe
from course_lib.grading.claims.student import numbers
from course_lib.sandbox_child import frames
from course_lib.student_code import plain_data

FRAMES = int(os.environ.get("FRAMES", "5000"))
SECONDS = 0.05  # of processor time for one frame
MEGABYTES = 200  # that the process may grow by while it looks at all of them
HUGE = [
    0,
    -1,
    1,
    2,
    17,
    1 << 31,
    1 << 39,
    (1 << 40) - 1,
    1 << 63,
    1 << 4000,
    10**4299,
    1e308,
    0.5,
    "x",
    None,
    True,
    [],
    {},
]


def ordinary_frames() -> Iterator[tuple[Any, list[bytes]]]:
    """Headers and blobs as they pass in earnest: every kind of value that travels."""
    draw = Draw("fuzz")
    model = nn.Sequential(nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3), nn.Flatten(), nn.Linear(3, 2))
    values = [
        {"value": [1, 2.5, float("nan"), "text", None, (True, {"a": 1, 2: "b"})]},
        {"value": draw.normal(3, 4), "request": "ab"},
        {
            "value": (
                draw.normal(2, 3).T,
                draw.mask(5),
                torch.empty(0, 3),
                torch.arange(6).to(torch.int16),
            )
        },
        {
            "ask": 3,
            "args": (draw.normal(4), {"x": [1, 2, 3]}),
            "kwargs": {"k": np.arange(4.0), "n": np.int64(3)},
        },
        {"value": model},
        {
            "error": {
                "kind": "raised",
                "type": "ValueError",
                "bases": ["ValueError"],
                "message": "no",
                "where": "",
                "text": "",
            }
        },
        {"value": draw.bert(2, 2)},
    ]
    for fields in values:
        packer = plain_data.Packer()
        header = {
            key: packer.pack(value) if key in ("value", "args", "kwargs") else value
            for key, value in fields.items()
        }
        yield header, packer.blobs


def copied(data: Any) -> Any:
    return json.loads(json.dumps(data))


def places(data: Any) -> list[tuple[Any, Any]]:
    """Every container in it with every key or position."""
    found: list[tuple[Any, Any]] = []
    waiting = [data]
    while waiting:
        item = waiting.pop()
        if isinstance(item, dict | list):
            keys = list(item) if isinstance(item, dict) else range(len(item))
            found += [(item, key) for key in keys]
            waiting += [item[key] for key in keys]
    return found


def change(data: Any, chance: random.Random) -> None:
    """One change of what a header means."""
    there = places(data)
    if not there:
        return
    place, key = chance.choice(there)
    match chance.randrange(6):
        case 0:
            place[key] = chance.choice(HUGE)
        case 1:
            other, at = chance.choice(there)
            place[key] = copied(other[at])
        case 2:
            del place[key]
        case 3:  # many of the same: sizes, order, items, children
            many = chance.choice([1, 16, 17, 300]) if chance.random() < 0.97 else 60_000
            place[key] = [chance.choice(HUGE if many < 1000 else HUGE[:8])] * many
        case 4:
            for _ in range(chance.choice([1, 5, 30, 100])):
                place[key] = {
                    chance.choice(["list", "tuple", "dict", "numpy", "model", "scalar"]): [
                        place[key]
                    ]
                }
        case 5:
            place[key] = {
                "tensor": "uint8",
                "shape": [chance.choice([0, 1, 1 << 39])] * chance.choice([2, 16, 17]),
                "blob": 0,
            }
            if chance.random() < 0.03:
                place[key]["shape"] *= 4000


def mutated(chance: random.Random, some: list[tuple[Any, list[bytes]]]) -> tuple[bytes, bytes]:
    # a BERT takes long to read
    header, blobs = some[-1] if chance.random() < 0.02 else chance.choice(some[:-1])
    header = copied(header)
    for _ in range(chance.choice([1, 1, 2, 5])):
        change(header, chance)
    header = header if isinstance(header, dict) else {"value": header}
    try:
        text = bytearray(json.dumps({**header, "lengths": [len(b) for b in blobs]}).encode())
    except RecursionError:  # Python does not write what is nested so deeply, but reads it
        text = bytearray(b'{"value": ' + b'{"list": [' * 5000)
    body = bytearray(b"".join(blobs))
    for raw in (text, body):
        for _ in range(chance.choice([0, 0, 0, 1, 4])):
            if raw:
                raw[chance.randrange(len(raw))] = chance.randrange(256)
    return bytes(text[: frames.MAX_HEADER]), bytes(body)


def looked_at(text: bytes, body: bytes) -> None:
    """What the grader does with a frame before a test sees it, and with a value that a
    test puts into a message.
    """
    try:
        header, blobs = frames.decode(text, body)
        unpacker = plain_data.Unpacker(blobs)
        for key in ("value", "args", "kwargs"):
            value = unpacker.unpack(header.get(key))
            assert len(describe(value)) < 1000
            numbers(value)
            if isinstance(value, plain_data.Model):
                value.build()
    except plain_data.WireError:
        pass


def test_a_frame_is_decoded_or_refused_at_once() -> None:
    chance, some = random.Random(0), list(ordinary_frames())
    for text, blobs in some:  # whatever is made once is made before
        looked_at(
            json.dumps({**text, "lengths": [len(b) for b in blobs]}).encode(), b"".join(blobs)
        )
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for number in range(FRAMES):
        text, body = mutated(chance, some)
        for _ in range(3):  # a collection of garbage may fall into any of them, not into all three
            begin = time.process_time()
            looked_at(text, body)
            if (seconds := time.process_time() - begin) < SECONDS:
                break
        else:
            pytest.fail(f"frame {number} took {seconds:.2f} s: {text[:300]!r}")
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    assert grown < MEGABYTES, f"the process grew by {grown:.0f} MB"


def test_changed_frames_are_of_both_kinds() -> None:
    """A fuzzer that is refused at the door tries nothing."""
    chance, some = random.Random(1), list(ordinary_frames())
    read = 0
    for _ in range(300):
        try:
            header, blobs = frames.decode(*mutated(chance, some))
            plain_data.Unpacker(blobs).unpack(header.get("value"))
            read += 1
        except plain_data.WireError:
            continue
    assert 50 < read < 280
