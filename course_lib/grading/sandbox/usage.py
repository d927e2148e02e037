"""Looks at running submissions from outside, and ends one that takes more than its
share over all its processes together.

The kernel's own limits count one process at a time: sixteen that take a little less
each would take the machine. One thread looks at every submission that is running in
this grader, some times a second.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import psutil

from course_lib.sandbox_child import processes

INTERVAL = 0.1  # seconds between two looks
_TOO_MANY = "your code started more than {} processes and threads"


@dataclass(frozen=True)
class Share:
    """What one submission may use over all its processes."""

    memory: int  # bytes, beside what the warm process shares with it
    processes: int  # threads count, too
    seconds: float  # of processor time
    files: int  # bytes in its folder


@dataclass(eq=False)  # two that have done the same so far are two
class Watched:
    """One running submission: below which process, and why it was ended."""

    root: int  # the warm process that forked it, as a process number of this system
    share: Share
    folder: str = ""  # on disk; "" where the kernel limits it
    reason: str = ""  # for the student; "" as long as all is well
    seen: dict[int, psutil.Process] = field(default_factory=dict)


running: list[Watched] = []
_change = threading.Condition()
_thread: threading.Thread | None = None


def start_watching(watched: Watched) -> None:
    """Look at this submission from now on."""
    global _thread
    with _change:
        running.append(watched)
        if _thread is None or not _thread.is_alive():  # not alive: after a fork of this process
            _thread = threading.Thread(target=_watch_all, name="course-watch", daemon=True)
            _thread.start()
        _change.notify()


def stop_watching(watched: Watched) -> None:
    """No longer; whatever was seen of it and still runs is ended (where its warm
    process could not find it).
    """
    with _change:
        if watched in running:
            running.remove(watched)
    end(watched.seen.values())


def _watch_all() -> None:
    while True:
        with _change:
            while not running:
                _change.wait()
        time.sleep(INTERVAL)  # first: most submissions are never looked at
        with _change:
            now = list(running)
        for watched in now:
            # a process that ended under our eyes, one that may not be read
            with contextlib.suppress(Exception):
                reason = watched.reason or _find_excess(watched)
                with _change:
                    # else it has finished, and what was seen may be the next one's
                    if reason and watched in running:
                        watched.reason = reason
                        end(watched.seen.values())


def _find_excess(watched: Watched) -> str:
    """What the submission takes too much of, as a sentence; "" if nothing."""
    share = watched.share
    for number, process in enumerate(descendants(watched.root)):
        watched.seen.setdefault(process.pid, process)
        if number >= share.processes:  # no time to lose with looking closer
            return _TOO_MANY.format(share.processes)
    count = threads = resident = 0
    seconds = 0.0
    shared = psutil.Process(watched.root).memory_info().rss
    for pid, process in list(watched.seen.items()):
        try:
            with process.oneshot():
                times = process.cpu_times()
                resident += max(0, process.memory_info().rss - (0 if count else shared))
                threads += process.num_threads()
        except psutil.Error:
            watched.seen.pop(pid, None)
            continue
        count += 1
        seconds += times.user + times.system + times.children_user + times.children_system
    if threads > share.processes:
        return _TOO_MANY.format(share.processes)
    if seconds > share.seconds:
        return (
            f"your code took more than {share.seconds:.0f} seconds of processor time over all its"
            " processes"
        )
    if resident > share.memory and _proportional(watched, shared) > share.memory:
        return (
            f"your code took more than {share.memory / 2**30:.1f} GB of memory over all its"
            " processes"
        )
    if watched.folder and _size(watched, share.files) > share.files:
        return f"your code wrote more than {share.files >> 20} MB into files"
    return ""


def _proportional(watched: Watched, shared: int) -> int:
    """Bytes of memory, what several processes share counted once; where that cannot be
    read, only what each took itself.
    """
    total = 0
    for process in list(watched.seen.values()):
        try:
            total += process.memory_full_info().pss
        except (psutil.Error, AttributeError):
            with contextlib.suppress(psutil.Error):
                total += max(0, process.memory_info().rss - shared)
    return total


def _size(watched: Watched, enough: int) -> int:
    """Bytes below the folder, and in files that are open but removed; counts no further
    than is needed.
    """
    total = 0
    folders = [watched.folder]
    while folders and total <= enough:
        with contextlib.suppress(OSError), os.scandir(folders.pop()) as entries:
            for entry in entries:
                with contextlib.suppress(OSError):
                    total += max(
                        entry.stat(follow_symlinks=False).st_blocks * 512, 1024
                    )  # an empty file takes room, too
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(entry.path)
                if total > enough:
                    break
    for pid in list(watched.seen):
        for number in processes.entries(f"/proc/{pid}/fd"):
            with contextlib.suppress(OSError):
                status = os.stat(f"/proc/{pid}/fd/{number}")
                total += status.st_blocks * 512 if status.st_nlink == 0 else 0
    return total


def descendants(root: int) -> Iterator[psutil.Process]:
    """All processes below ``root``, parents before their children."""
    waiting = [root]
    while waiting:
        below = processes.children(waiting.pop())
        waiting += below
        for pid in below:
            with contextlib.suppress(psutil.Error):
                yield psutil.Process(pid)


def waited_for_a_core(pid: int) -> float:
    """Seconds that a process's main thread has waited, ready to run, while others ran;
    0 where the system does not tell.
    """
    try:
        with open(f"/proc/{pid}/schedstat") as file:
            return int(file.read().split()[1]) / 1e9
    except (OSError, IndexError, ValueError):
        return 0.0


def end(victims: Iterable[psutil.Process]) -> None:
    """Kill them all; a number that another process has by now is left alone."""
    for process in list(victims):
        with contextlib.suppress(psutil.Error, OSError):
            if process.is_running() and os.getpgid(process.pid) == process.pid:
                # at once: what forks in between would escape
                os.killpg(process.pid, signal.SIGKILL)
            process.kill()
