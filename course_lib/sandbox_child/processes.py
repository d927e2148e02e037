"""The processes that a process has started, read by both halves of the sandbox."""

from __future__ import annotations

import contextlib
import os


def entries(folder: str) -> list[str]:
    """The entries of a folder of ``/proc`` that are numbers; none if it is gone."""
    with contextlib.suppress(OSError):
        return [name for name in os.listdir(folder) if name.isdigit()]
    return []


def children(pid: int) -> list[int]:
    """The direct children of a process now, with the orphans that it adopted; the last one
    started is the last in the list.

    Linux lists them for each thread: to read about every process of the machine would take
    long. Other systems, and kernels without that list, are asked through psutil.
    """
    own = f"/proc/{os.getpid()}"
    if os.path.exists(f"{own}/task/{os.getpid()}/children"):
        found = []
        for thread in entries(f"/proc/{pid}/task"):
            with contextlib.suppress(OSError), open(f"/proc/{pid}/task/{thread}/children") as file:
                found += [int(child) for child in file.read().split()]
        return found
    if os.path.isdir("/proc") and not os.path.isdir(own):  # a jail, which shows no processes
        return []
    import psutil

    try:
        return [process.pid for process in psutil.Process(pid).children()]
    except psutil.Error:
        return []
