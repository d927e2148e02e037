"""Tries to get out: what ``course doctor`` runs in each kind of sandbox, with harmless means.
Standard library only.

Started as ``import probe, restrictions as r; probe.main(r)`` from this folder, so that no
package of the course is loaded: a try takes a tenth of a second. Reads one JSON object
from standard input, writes one to standard output: what it could reach that it should
not (``breaches``), and why the sandbox cannot be had (``problem``).
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

_KEY = 0x70726F62  # of a System V memory block left for others to find


def main(restrictions: ModuleType) -> None:
    """Restrict children, leave one child waiting, let another try to reach it and
    everything else.
    """
    asked = json.load(sys.stdin)
    said: dict[str, Any] = {"problem": "", "breaches": []}
    try:
        sandbox = restrictions.Restrictions(
            asked["layer"], asked["folder"], asked["readable"], asked["roots"]
        )
        if asked["layer"] != "plain":
            said["breaches"] = _behind(sandbox, asked)
    except OSError as error:
        said["problem"] = str(error)
    print(json.dumps(said), flush=True)
    os._exit(0)


def _behind(sandbox: Any, asked: dict[str, Any]) -> list[str]:
    sibling = sandbox.fork()
    if sibling == 0:
        with open("sibling", "w") as file:
            file.write("answer")
        _shared_memory(create=True)
        signal.pause()
        os._exit(0)
    left = sandbox._folders[sibling]
    reader, writer = os.pipe()
    child = sandbox.fork()
    if child == 0:
        asked["hidden"].append(os.path.join(left, "sibling"))
        asked["locked"].append(left if sandbox.layer == "landlock" else "/scratch/..")
        pids = {
            "the warm process": os.getppid(),
            "the grader": asked["grader"],
            "another submission": sibling,
        }
        try:
            found = list(
                _breaches(
                    asked, {name: pid for name, pid in pids.items() if pid not in (0, os.getpid())}
                )
            )
        except BaseException as error:
            found = [f"the probe itself failed: {error!r}"]
        os.write(writer, json.dumps(found).encode())
        os._exit(0)
    os.close(writer)
    with open(reader, "rb") as pipe:
        answer = pipe.read()
    for pid in (child, sibling):
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    return (
        json.loads(answer)
        if answer
        else ["a child in the sandbox ended before it could say anything"]
    )


def _breaches(asked: dict[str, Any], pids: dict[str, int]) -> Iterator[str]:
    try:
        with open("own", "w") as file:
            file.write("x")
    except OSError as error:
        yield f"its own folder cannot be written ({error})"
    for path in asked["hidden"]:
        if _allowed(_read, path):
            yield f"could read {path}"
    for folder in asked["locked"]:
        if _allowed(open, os.path.join(folder, "probe-of-sandbox"), "x"):
            yield f"could write into {folder}"
    for name, pid in pids.items():
        if _allowed(os.kill, pid, 0):
            yield f"could signal {name}"
        if _allowed(_attach, pid):
            yield f"could trace {name}"
        for what in ("environ", "cmdline", "mem"):
            if _allowed(_read, f"/proc/{pid}/{what}"):
                yield f"could read /proc of {name}"
    if _allowed(lambda: socket.create_connection(("127.0.0.1", asked["port"]), timeout=1)):
        yield "could connect to a port of this machine"
    if _allowed(lambda: socket.socket(socket.AF_UNIX).connect("\0" + asked["unix"])):
        yield "could connect to a unix socket"
    if _shared_memory(create=False):
        yield "found System V shared memory of another submission"
    if asked["layer"] == "jail" and os.uname().nodename == asked["hostname"]:
        yield "sees the name of the machine"


def _allowed(action: Callable[..., object], *args: object) -> bool:
    try:
        action(*args)
    except OSError:
        return False
    return True


def _read(path: str) -> None:
    if os.path.isdir(path):
        os.listdir(path)
    else:
        open(path, "rb").close()


def _attach(pid: int) -> None:
    if (
        ctypes.CDLL(None, use_errno=True).ptrace(ctypes.c_long(16), ctypes.c_long(pid), None, None)
        < 0
    ):
        raise OSError(ctypes.get_errno(), "ptrace")


def _shared_memory(create: bool) -> bool:
    """Make a block of System V memory under a known key, or look for it; the kernel
    removes it when nobody uses it.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    block = libc.shmget(_KEY, 4096, 0o1600 if create else 0o600)
    if block >= 0 and create:
        libc.shmat.restype = ctypes.c_void_p
        libc.shmat(block, None, 0)
        libc.shmctl(block, 0, None)
    return bool(block >= 0)
