"""A control group round one worker, where this user may make one: the kernel then
counts its processes, and at once.

An ordinary user's processes are counted by ``RLIMIT_NPROC``. Root's never are, whatever
the limit says; but root may make control groups (version 1 or 2). Where neither holds
(root in a container), :mod:`course_lib.grading.sandbox.usage` is all there is, and a fork
bomb gets some hundred processes far before it is seen.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import time
from pathlib import Path

# where the controller of processes is: version 1, version 2
_PLACES = ("/sys/fs/cgroup/pids", "/sys/fs/cgroup")


def make(processes: int) -> Path | None:
    """A fresh group with room for so many processes and threads; None where there can
    be none.
    """
    if os.name != "posix" or os.geteuid() != 0:
        return None
    for place in map(Path, _PLACES):
        _remove_old(place)
        group = place / f"course-{os.getpid()}-{secrets.token_hex(4)}"
        try:
            group.mkdir()
        except OSError:
            continue
        try:
            (group / "pids.max").write_text(str(processes))
        except OSError:  # a group, but without that controller
            remove(group)
            continue
        return group
    return None


def remove(group: Path | None) -> None:
    """Remove a group whose processes have ended; some may still be on their way out."""
    if group is None:
        return
    for _ in range(50):
        try:
            group.rmdir()
            return
        except FileNotFoundError:
            return
        except OSError:
            time.sleep(0.02)


def _remove_old(place: Path) -> None:
    """Groups of graders that were killed and could not remove them."""
    with contextlib.suppress(OSError):
        for group in place.glob("course-*-*"):
            if not os.path.exists(f"/proc/{group.name.split('-')[1]}"):
                with contextlib.suppress(OSError):
                    group.rmdir()
