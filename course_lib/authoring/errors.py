"""The one error of this package: what is wrong in which file, on which line, and what
to do.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class AuthoringError(Exception):
    """A lab, a test file or a release folder that cannot be used as it is. Its text is
    lines of ``file:line: what to do``.
    """


def error(file: str, line: int, message: str) -> AuthoringError:
    return AuthoringError(f"{file}:{line}: {message}")


def shown(path: Path, root: Path) -> str:
    """``path`` as messages name it: relative to the course folder where it lies in
    it.
    """
    return path.relative_to(root).as_posix() if path.is_relative_to(root) else str(path)


class Problems(list[str]):
    """Lines of ``file:line: what to do``, collected so that an author sees all of them
    at once.
    """

    def add(self, file: str, line: int, message: str) -> None:
        """Add a problem that is not there yet."""
        if (text := f"{file}:{line}: {message}") not in self:
            self.append(text)

    @contextmanager
    def collecting(self) -> Iterator[None]:
        """Add the lines of an AuthoringError that is raised in the block."""
        try:
            yield
        except AuthoringError as caught:
            self += [line for line in str(caught).splitlines() if line not in self]

    def stop(self) -> None:
        """Raise AuthoringError if there is a problem."""
        if self:
            raise AuthoringError("\n".join(self))
