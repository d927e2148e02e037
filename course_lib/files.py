"""A file is written whole or not at all: beside its place first, then renamed into
it.
"""

from __future__ import annotations

import os
import secrets
from pathlib import Path

HALF = ".part"  # how the name of a file ends that is being written; it begins with a dot


def write_atomic(path: Path, data: bytes, *, sync: bool = False) -> None:
    """Write ``data`` to ``path``: whoever is stopped at any moment leaves the old file
    or the new one, never half of one.

    A process that is killed may leave the file beside it, named ``.….part``; one that
    fails removes it.

    Args:
        sync: wait until the disk has it, so that this holds for a machine that loses
            its power as well.
    """
    beside = path.with_name(f".{secrets.token_hex(8)}{HALF}")
    try:
        with open(beside, "xb") as file:
            file.write(data)
            if sync:
                file.flush()
                os.fsync(file.fileno())
        os.replace(beside, path)
    except BaseException as error:
        beside.unlink(missing_ok=True)
        if isinstance(error, OSError):  # of a full disk, say, which names no file
            raise OSError(error.errno, error.strerror or str(error), str(path)) from None
        raise
