"""Warm worker processes, and the conversation with one submission's code inside one.

The grader never runs a line of the student's: it sends requests, waits until a
deadline, and believes only plain data. What the code prints goes nowhere; what it
starts ends with it.
"""

from __future__ import annotations

import secrets
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from course_lib.grading.claims.alarm import WorkerLost, limited
from course_lib.grading.sandbox import cgroup, layers, usage
from course_lib.sandbox_child import frames, processes
from course_lib.student_code import plain_data

START_SECONDS = 120.0
STOP_SECONDS = 2.0


@dataclass(frozen=True)
class Seconds:
    """How long code may take: of its own time, while the grader waits for it and a core
    is free for it.

    Attributes:
        reply: for one call of a student's function; the grader's answers to what that
            function asks may take twice as long.
        define: for running the definitions of a notebook. submission: for everything of
            one submission.
    """

    reply: float = 10.0
    define: float = 30.0
    submission: float = 180.0


class Worker:
    """One warm process in a sandbox; forks a child for every submission, one at a time."""

    def __init__(self, layer: layers.Isolation, seconds: Seconds = Seconds()) -> None:  # noqa: B008 (it is frozen)
        self.layer = layer
        self.seconds = seconds
        self.process: subprocess.Popen[bytes] | None = None
        self.control: socket.socket | None = None
        self.folder = ""
        self.group: Path | None = None
        self.warm_pid = 0  # the process number of the one that forks

    def budget(self) -> TimeBudget:
        """The time for everything of one submission."""
        return TimeBudget(self.seconds.submission)

    def start(self) -> None:
        """Start, or start again, and wait until it is warm."""
        self.stop()
        ours, theirs = socket.socketpair()
        self.folder = "" if self.layer.name == "jail" else tempfile.mkdtemp(prefix="course-worker-")
        self.group = cgroup.make(layers.PROCESSES + layers.OWN_PROCESSES)
        with theirs:
            self.process = subprocess.Popen(
                layers.command(self.layer, theirs.fileno(), self.group),
                env=layers.environment(self.layer, self.folder),
                cwd=self.folder or "/",
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        self.control = ours
        remaining = frames.until(START_SECONDS)
        try:
            frames.send(ours, layers.orders(self.layer, self.folder), remaining=remaining)
            frames.receive(ours, remaining)
        except plain_data.WireError as error:
            said = self._read_stderr()
            self.stop()
            raise RuntimeError(f"the grading worker did not start ({error}). {said}") from None
        # the jail's own processes stand between us and the warm one, which has no
        # children yet
        self.warm_pid = [self.process.pid, *(p.pid for p in usage.descendants(self.process.pid))][
            -1
        ]

    def _read_stderr(self) -> str:
        if self.process is None or self.process.stderr is None:
            return ""
        self.process.kill()
        return self.process.stderr.read()[-800:].decode(errors="replace")

    def open(
        self,
        cells: list[str],
        graded: Sequence[str],
        imports: Sequence[str] = (),
        names: Mapping[str, Sequence[str]] | None = None,
        budget: TimeBudget | None = None,
        files: Mapping[str, bytes] | None = None,
    ) -> Session:
        """A child that has run the definitions of these cells, forked when the warm
        process has these ``imports``.

        Args:
            graded: what is asked for: run whatever that needs.
            names: of each question, which of that it asks for; so that ``skip`` can
                give it up.
            budget: of the submission, where it has several sessions.
            files: own modules that the cells import, by path.

        Raises:
            WorkerLost: if running the definitions ended or hung the process.
            RuntimeError: if the child could not be restricted this time, or there is no such
                import.
        """
        ours, pid = self._fork(imports)
        watched = usage.Watched(self.warm_pid, layers.share(), self.folder)
        session = Session(self, ours, pid, watched, budget or self.budget())
        notebook = {
            "cells": cells,
            "graded": list(graded),
            "names": {q: list(of) for q, of in (names or {}).items()},
            "files": list(files or {}),
        }
        header, _ = session.call(
            notebook,
            list((files or {}).values()),
            {},
            "the notebook's definitions",
            self.seconds.define,
        )
        problems, skipped = header.get("problems", []), header.get("skipped", [])
        session.problems = (
            [str(p)[:500] for p in problems][:50] if isinstance(problems, list) else []
        )
        session.skipped = {str(q) for q in skipped} if isinstance(skipped, list) else set()
        return session

    def _fork(self, imports: Sequence[str]) -> tuple[socket.socket, int]:
        """A child and its end of a fresh conversation. Where the warm process has gone
        meanwhile, from another one.

        Raises:
            RuntimeError: if that fails, too, or the child cannot be restricted: no fault of
                the submission, which has not run.
        """
        for _ in range(2):
            if self.process is None or self.process.poll() is not None or self.control is None:
                self.start()
            assert self.control is not None
            remaining = frames.until(START_SECONDS)
            ours, theirs = socket.socketpair()
            with theirs:
                try:
                    order = {
                        "op": "fork",
                        "limits": layers.limits(self.layer),
                        "imports": list(imports),
                    }
                    frames.send(self.control, order, remaining=remaining)
                    socket.send_fds(self.control, [b"x"], [theirs.fileno()])
                    reply, _ = frames.receive(self.control, remaining)
                except (plain_data.WireError, OSError):
                    ours.close()
                    self.stop()
                    continue
            if "failed" in reply:
                ours.close()
                raise RuntimeError(f"no submission could be started: {reply['failed']}")
            return ours, reply["pid"]
        raise RuntimeError("the grading worker ended twice before a submission could start")

    def end(self, pid: int) -> None:
        """End the child ``pid`` and whatever it started; a worker that cannot do so is
        replaced.
        """
        if self.control is None:
            return
        try:
            frames.send(self.control, {"op": "end", "pid": pid})
            reply, _ = frames.receive(self.control, frames.until(10))
            if reply.get("ended") is True:
                return
        except plain_data.WireError:
            pass
        self.stop()

    def stop(self) -> None:
        """End the warm process and everything that it started."""
        below = list(usage.descendants(self.process.pid)) if self.process is not None else []
        if self.control is not None:
            self.control.close()  # the warm process ends its children, then itself
            self.control = None
        if self.process is not None:
            try:
                self.process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                pass
            self.process.kill()
            self.process.wait()
            usage.end(below)  # had the warm process been ended, they would not have been
            psutil.wait_procs(below, timeout=STOP_SECONDS)
            if self.process.stderr is not None:
                self.process.stderr.close()
            self.process = None
        cgroup.remove(self.group)
        self.group = None
        if self.folder:
            shutil.rmtree(self.folder, ignore_errors=True)
            self.folder = ""


class TimeBudget:
    """The time that a submission may take, over all its sessions."""

    def __init__(self, seconds: float) -> None:
        self.seconds = self.left = seconds

    @property
    def exhausted(self) -> str:
        return f"the time for the whole submission, {self.seconds:.0f} seconds, was used up"


class Clock:
    """Runs while the code has the word, and a core.

    On a busy machine a process waits for its turn; Linux tells how long its main thread
    did. That is not counted, up to twice the time it is given: code that asks for turns
    in a hundred threads is late in the end.
    """

    PATIENCE = 3.0

    def __init__(self, seconds: float, pid: int) -> None:
        self.seconds = seconds
        self.pid = pid
        self.before = usage.waited_for_a_core(pid)
        self.stopped = 0.0
        self.begin = time.monotonic()

    def used(self) -> float:
        """Seconds so far."""
        elapsed = time.monotonic() - self.begin - self.stopped
        if elapsed < self.seconds:
            return elapsed
        waited = max(0.0, usage.waited_for_a_core(self.pid) - self.before)
        return max(elapsed / self.PATIENCE, elapsed - waited)

    def left(self) -> float:
        """Seconds from now."""
        return self.seconds - self.used()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """The grader has the word."""
        begin = time.monotonic()
        try:
            yield
        finally:
            self.stopped += time.monotonic() - begin


class Session:
    """One child with one submission's names: the transport behind
    :class:`course_lib.grading.claims.student.Submission`.

    Attributes:
        problems: what went wrong with the definitions, in sentences. skipped: the
            questions given up.
    """

    def __init__(
        self,
        worker: Worker,
        sock: socket.socket,
        pid: int,
        watched: usage.Watched,
        budget: TimeBudget,
    ) -> None:
        self.worker = worker
        self.sock = sock
        self.pid = pid
        self.main = (processes.children(worker.warm_pid) or [0])[-1]
        self.watched = watched
        self.budget = budget
        usage.start_watching(watched)
        self.problems: list[str] = []
        self.skipped: set[str] = set()
        self.alive = True

    def call(
        self,
        header: dict[str, Any],
        blobs: list[bytes],
        functions: Mapping[int, Callable[..., Any]],
        whose: str = "your code",
        seconds: float | None = None,
    ) -> tuple[dict[str, Any], list[bytes]]:
        """Send one request, answer the code's calls of ``functions`` meanwhile, return the
        reply.

        Args:
            functions: of the grader, by the number under which the request names them.
            whose: subject of the sentence that says what took too long.
            seconds: for the code; by default those for one call.

        Raises:
            WorkerLost: if the process ended, hung, or broke the rules of the
                conversation.
        """
        seconds = self.worker.seconds.reply if seconds is None else seconds
        clock = Clock(min(seconds, self.budget.left), self.main)
        number = secrets.token_hex(8)
        try:
            frames.send(self.sock, {**header, "request": number}, blobs, clock.left)
            while True:
                reply, blobs = frames.receive(self.sock, clock.left)
                # written by something else than the harness, or too late
                if reply.pop("request", None) != number:
                    raise plain_data.WireError("a reply to no request")
                if "ask" not in reply:
                    return reply, blobs
                # the grader's answers may take twice as long as the code
                remaining = 2 * seconds - clock.stopped
                with clock.paused():
                    answer, answered = _answer(reply, blobs, functions, remaining)
                frames.send(self.sock, answer, answered, clock.left)
        except plain_data.WireError as error:
            self.close()
            if isinstance(error, frames.TooLate) and clock.seconds < seconds:
                raise WorkerLost(self.budget.exhausted) from None
            raise WorkerLost(self.watched.reason or _why(error, whose, seconds)) from None
        finally:
            self.budget.left -= clock.used()

    def close(self) -> None:
        """End the child."""
        if self.alive:
            self.alive = False
            self.sock.close()
            self.worker.end(self.pid)
            usage.stop_watching(self.watched)


def _answer(
    request: dict[str, Any],
    blobs: list[bytes],
    functions: Mapping[int, Callable[..., Any]],
    seconds: float,
) -> tuple[dict[str, Any], list[bytes]]:
    unpack = plain_data.Unpacker(blobs).unpack
    function = functions.get(request["ask"]) if isinstance(request["ask"], int) else None
    args, kwargs = unpack(request.get("args")), unpack(request.get("kwargs"))
    if function is None or not isinstance(args, tuple) or not isinstance(kwargs, dict):
        raise plain_data.WireError("a call of something that was not handed out")
    packer = plain_data.Packer()
    late = {
        "refused": (
            "ValueError: the grader's functions took too long on what they were called with: try"
            " them on something small"
        )
    }
    if seconds <= 0:
        return late, []
    try:
        answer, rung = limited(seconds, lambda: packer.pack(function(*args, **kwargs)))
    # whatever the student passed in: unanswered, the conversation would be out of step
    except Exception as error:
        return {"refused": f"{type(error).__name__}: {error}"[:500]}, []
    return (late, []) if rung else ({"answer": answer}, packer.blobs)


def _why(error: plain_data.WireError, whose: str, seconds: float) -> str:
    if isinstance(error, frames.TooLate):
        return f"{whose} took longer than {seconds:.0f} seconds (an endless loop?)"
    if isinstance(error, frames.Closed):
        return f"{whose} ended its process (exit, too much memory or time, or a crash)"
    return f"{whose} sent something that is no plain result: {error}"
