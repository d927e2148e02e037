"""What is done is kept on disk, so that a long run goes on where it was interrupted."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from course_lib import files


def once(path: Path, run: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """``run(*args, **options)``, plain data, as JSON gives it back: computed once, and
    read from ``path`` from then on.
    """
    if not path.exists():
        result = run(*args, **options)
        path.parent.mkdir(parents=True, exist_ok=True)
        files.put(path, json.dumps(result).encode())
    return json.loads(path.read_text(encoding="utf-8"))
