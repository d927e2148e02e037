"""Judges: processes that mark, one submission at a time each, and can be ended.

A judge holds the tests, the library's answers and a warm worker; what a submission
sends is unpacked, compared and described here, and nowhere else. Its time and its
memory are limited: whatever a submission makes the judge do, the grader goes on, with
another judge, and nobody else's marks are touched.

``python -m course_lib.grading.marking.judge FD`` is the inside. Between grader and
judge go tasks and marks, data of ours.
"""

from __future__ import annotations

import functools
import os
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from multiprocessing.connection import Connection, Pipe
from pathlib import Path

import course_lib
from course_lib.grading import sandbox
from course_lib.grading.marking.lab import GradingResult, GradingSpec, Lab, Task
from course_lib.grading.sandbox import Seconds, Worker


@dataclass(frozen=True)
class Limits:
    """What judging one submission may take.

    Attributes:
        seconds: of the submission's own time. cpu: seconds of the judge's processor
            time, for everything of one submission.
        memory: bytes that the judge may take beside what it has when it begins. models:
            as many more where files are handed in and measured: of address space, which
            the libraries that run them take a lot of.
    """

    seconds: Seconds = Seconds()  # noqa: RUF009 (it is frozen)
    cpu: int = 120
    memory: int = 2 << 30
    models: int = 8 << 30

    @property
    def longest(self) -> float:
        """Elapsed seconds, whatever happens."""
        return 4 * (self.seconds.submission + self.cpu)


class JudgeLost(Exception):
    """The judge ended, or was ended; ``str()`` says how, for the report."""


class Judge:
    """One judge, started when it is first needed, and again when it was lost."""

    def __init__(self, layer: sandbox.Isolation, limits: Limits) -> None:
        self.layer, self.limits = layer, limits
        self._process: subprocess.Popen[bytes] | None = None
        self._ours: Connection | None = None
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 (closed by shutdown)

    def mark(self, spec: GradingSpec, task: Task) -> GradingResult:
        """The marks of one submission.

        Raises:
            JudgeLost: if the judge ended meanwhile. RuntimeError: if it cannot judge at
                all.
        """
        try:
            if self._process is None:
                self._start()
            assert self._ours is not None
            self._ours.send((spec, task))
            if not self._ours.poll(self.limits.longest):
                raise JudgeLost(f"it took longer than {self.limits.longest:.0f} seconds")
            answer = self._ours.recv()
        except (EOFError, OSError) as error:
            why = self._why()
            self.stop()
            raise JudgeLost(why) from error
        except JudgeLost:
            self.stop()
            raise
        if isinstance(answer, GradingResult):
            return answer
        raise RuntimeError(str(answer))

    def _start(self) -> None:
        self._ours, theirs = Pipe()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "course_lib.grading.marking.judge", str(theirs.fileno())],
                env={
                    **os.environ,
                    "PYTHONPATH": os.pathsep.join(
                        filter(None, (str(_ROOT), os.environ.get("PYTHONPATH")))
                    ),
                },
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self._said,
                pass_fds=[theirs.fileno()],
            )
        self._ours.send((self.layer, self.limits))

    def _why(self) -> str:
        """How it ended."""
        code = self._process.wait() if self._process is not None else 0
        if code == -getattr(signal, "SIGXCPU", 0):
            return f"it took more than {self.limits.cpu} seconds of processor time"
        self._said.seek(0)
        words = self._said.read()[-300:].decode(errors="replace").strip()
        return f"it ended by itself (exit {code}{': ' if words else ''}{words})"

    def end(self) -> None:
        """End it at once, for another thread than the one that waits for it, which then
        sees it lost.
        """
        process = self._process
        if process is not None:
            process.kill()

    def stop(self) -> None:
        """End it, and whatever it had under way: its worker sees the conversation end
        and ends with all it started.
        """
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
        if self._ours is not None:
            self._ours.close()
            self._ours = None

    def shutdown(self) -> None:
        """End it in order, when nothing is under way."""
        process, ours = self._process, self._ours
        if process is not None and ours is not None:
            ours.close()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                pass
        self.stop()
        self._said.close()


_ROOT = Path(course_lib.__file__).resolve().parent.parent


# --- inside ---------------------------------------------------------------------------


def main() -> None:
    """Take tasks until the grader has gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the grader's
    sandbox.end_with_parent()
    grader = Connection(int(sys.argv[1]))
    layer, limits = grader.recv()
    worker = Worker(layer, limits.seconds)
    lab = functools.lru_cache(maxsize=2)(Lab)
    limit = functools.partial(sandbox.limit, for_good=False)  # a worker's limits are its own
    try:
        limit("CORE", 0)
        limit("FSIZE", 64 << 20)
        most = (sandbox.address_space() or 1 << 40) + limits.memory
        limit("AS", most)
        while True:
            try:
                spec, task = grader.recv()
            except EOFError:
                return
            limit("CPU", int(time.process_time()) + 1 + limits.cpu)
            try:
                if lab(spec).known.files:
                    limit("AS", most + limits.models)
                grader.send(lab(spec).mark(task, worker))
            except RuntimeError as error:
                grader.send(f"{type(error).__name__}: {error}"[:2000])
    finally:
        worker.stop()


if __name__ == "__main__":
    main()
