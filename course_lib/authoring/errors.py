"""The one error of this package: what is wrong in which file, on which line, and what
to do.
"""

from __future__ import annotations

from pathlib import Path


class AuthoringError(Exception):
    """A lab, a test file or a release folder that cannot be used as it is. Its text is
    lines of ``file:line: what to do``.
    """


def shown(path: Path, root: Path) -> str:
    """``path`` as messages name it: relative to the course folder where it lies in
    it.
    """
    return path.relative_to(root).as_posix() if path.is_relative_to(root) else str(path)


class Problems:
    """Collects problems, so that an author sees all of them at once."""

    def __init__(self) -> None:
        self._found: list[tuple[str, int, str]] = []

    def add(self, file: str, line: int, message: str) -> None:
        if (file, line, message) not in self._found:
            self._found.append((file, line, message))

    def extend(self, other: Problems) -> None:
        for found in other._found:
            self.add(*found)

    def __bool__(self) -> bool:
        return bool(self._found)

    def lines(self) -> list[str]:
        """Every problem as ``file:line: message``, in the order of files and lines."""
        return [f"{file}:{line}: {message}" for file, line, message in sorted(self._found)]

    def stop(self) -> None:
        """Raise AuthoringError if there is any."""
        if self:
            raise AuthoringError("\n".join(self.lines()))


def error(file: str, line: int, message: str) -> AuthoringError:
    return AuthoringError(f"{file}:{line}: {message}")
