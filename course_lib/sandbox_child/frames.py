"""Frames over a socket: how plain data travel between the grader and a student's code.

A frame is a JSON header of at most 1 MB followed by raw blobs (tensor bytes).
"""

from __future__ import annotations

import itertools
import json
import socket
import struct
import time
from collections.abc import Callable
from typing import Any

from course_lib.student_code.plain_data import MAX_BLOBS, MAX_ITEMS, WireError

MAX_HEADER = 1 << 20  # bytes of JSON in a frame


class Closed(WireError):
    """The other side has gone."""


class TooLate(WireError):
    """The deadline passed before a whole frame had come."""


_HEAD = struct.Struct("!II")  # bytes of header, bytes of all blobs together


RemainingSeconds = Callable[[], float]  # at 0 it is too late


def until(seconds: float) -> RemainingSeconds:
    """A function that returns how many of these seconds remain from now on."""
    end = time.monotonic() + seconds
    return lambda: end - time.monotonic()


def send(
    sock: socket.socket,
    header: dict[str, Any],
    blobs: list[bytes] | None = None,
    remaining: RemainingSeconds | None = None,
) -> None:
    """Send one whole frame while seconds remain."""
    blobs = blobs or []
    text = json.dumps({**header, "lengths": [len(b) for b in blobs]}, allow_nan=False).encode()
    if len(text) > MAX_HEADER:
        raise WireError(f"a header of {len(text)} bytes: lists belong in tensors")
    body = b"".join(blobs)
    if len(body) > MAX_BLOBS:
        raise WireError(f"more than {MAX_BLOBS >> 20} MB of data")
    frame = memoryview(_HEAD.pack(len(text), len(body)) + text + body)
    sent = 0
    try:
        while sent < len(frame):
            sock.settimeout(_wait(remaining, "the other side does not read"))
            try:
                sent += sock.send(frame[sent:])
            except TimeoutError:
                continue
    except OSError as error:
        raise Closed(str(error)) from None


def _wait(remaining: RemainingSeconds | None, late: str) -> float | None:
    """How long to wait now. Whatever the time is counted by, it is asked again then."""
    if remaining is None:
        return None
    seconds = remaining()
    if seconds <= 0:
        raise TooLate(late)
    return max(0.001, seconds)


def receive(
    sock: socket.socket, remaining: RemainingSeconds | None = None
) -> tuple[dict[str, Any], list[bytes]]:
    """Receive one whole frame while seconds remain.

    Raises:
        Closed: if the other side has gone. TooLate: if it took too long. WireError: if
            the frame breaks the rules.
    """
    size, rest = _HEAD.unpack(_exactly(sock, _HEAD.size, remaining))
    if size > MAX_HEADER or rest > MAX_BLOBS:
        raise WireError(f"a header of {size} bytes, or more than {MAX_BLOBS >> 20} MB of data")
    frame = _exactly(sock, size + rest, remaining)
    return decode(frame[:size], frame[size:])


def decode(text: bytes, body: bytes) -> tuple[dict[str, Any], list[bytes]]:
    """The header and the blobs of a frame.

    Raises:
        WireError: if the frame breaks the rules.
    """
    try:
        header = json.loads(text)
    except (ValueError, RecursionError):
        raise WireError("a header that is not JSON") from None
    if not isinstance(header, dict):
        raise WireError("a header that is no object")
    lengths = header.pop("lengths", [])
    if not isinstance(lengths, list) or len(lengths) > MAX_ITEMS:
        raise WireError("lengths of blobs that do not fit")
    if not all(type(n) is int and 0 <= n <= len(body) for n in lengths) or sum(lengths) != len(
        body
    ):
        raise WireError("lengths of blobs that do not fit")
    ends = list(itertools.accumulate(lengths, initial=0))
    return header, [body[start:end] for start, end in itertools.pairwise(ends)]


def _exactly(sock: socket.socket, size: int, remaining: RemainingSeconds | None) -> bytes:
    chunks = bytearray()
    while len(chunks) < size:
        try:
            sock.settimeout(_wait(remaining, "no whole answer in time"))
            chunk = sock.recv(min(1 << 20, size - len(chunks)))
        except TimeoutError:
            continue
        except OSError as error:
            raise Closed(str(error)) from None
        if not chunk:
            raise Closed("the worker has gone")
        chunks += chunk
    return bytes(chunks)
