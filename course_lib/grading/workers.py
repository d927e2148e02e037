"""Warm worker processes, and the conversation with one submission's code inside one.

The grader never runs a line of the student's: it sends requests, waits until a deadline, and believes only plain data. What
the code prints goes nowhere; what it starts ends with it.
"""

from __future__ import annotations

import secrets
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import psutil

from course_lib.grading import cgroup, isolation, watch
from course_lib.worker import wire

REPLY_SECONDS = 10.0  # for one call of a student's function
DEFINE_SECONDS = 30.0  # for running the definitions of a notebook
SUBMISSION_SECONDS = 180.0  # for everything of one submission
START_SECONDS = 120.0
STOP_SECONDS = 2.0


class WorkerLost(Exception):
    """The student's code ended or hung its process; ``str()`` says which, for the student."""


class Worker:
    """One warm process behind a wall; forks a child for every submission, one at a time."""

    def __init__(self, layer: isolation.Layer) -> None:
        self.layer = layer
        self.process: subprocess.Popen[bytes] | None = None
        self.control: socket.socket | None = None
        self.folder = ""
        self.group: Path | None = None
        self.weaker: list[str] = []  # what of the layer this machine refused
        self.warm = 0  # the process number of the one that forks

    def start(self) -> None:
        """Start, or start again, and wait until it is warm."""
        self.stop()
        ours, theirs = socket.socketpair()
        self.folder = "" if self.layer.name == "jail" else tempfile.mkdtemp(prefix="course-worker-")
        self.group = cgroup.make(isolation.PROCESSES + isolation.OWN_PROCESSES)
        with theirs:
            self.process = subprocess.Popen(
                isolation.command(self.layer, theirs.fileno(), self.group),
                env=isolation.environment(self.layer, self.folder),
                cwd=self.folder or "/",
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        self.control = ours
        deadline = time.monotonic() + START_SECONDS
        try:
            wire.send(ours, isolation.orders(self.layer, self.folder), deadline=deadline)
            ready, _ = wire.receive(ours, deadline)
        except wire.WireError as error:
            said = self._last_words()
            self.stop()
            raise RuntimeError(f"the grading worker did not start ({error}). {said}") from None
        self.weaker = ready["weaker"]
        # the jail's own processes stand between us and the warm one, which has no children yet
        self.warm = [self.process.pid, *(p.pid for p in watch.descendants(self.process.pid))][-1]

    def _last_words(self) -> str:
        if self.process is None or self.process.stderr is None:
            return ""
        self.process.kill()
        return self.process.stderr.read()[-800:].decode(errors="replace")

    def open(self, cells: list[str], graded: list[str], imports: Sequence[str] = ()) -> Session:
        """A child that has run the definitions of these cells, forked when the warm process has these ``imports``.

        Raises:
            WorkerLost: if running the definitions ended or hung the process.
            RuntimeError: if the wall could not be put up this time, or there is no such import.
        """
        ours, pid = self._fork(imports)
        session = Session(self, ours, pid, watch.Watched(self.warm, isolation.share(), self.folder))
        try:
            wire.send(ours, {"cells": cells, "graded": graded}, deadline=time.monotonic() + DEFINE_SECONDS)
            header, _ = wire.receive(ours, time.monotonic() + DEFINE_SECONDS)
        except wire.WireError as error:
            session.close()
            why = session.watched.reason or _why(error, "the notebook's definitions", DEFINE_SECONDS)
            raise WorkerLost(why) from None
        problems = header.get("problems", [])
        session.problems = [str(p)[:500] for p in problems][:50] if isinstance(problems, list) else []
        return session

    def _fork(self, imports: Sequence[str]) -> tuple[socket.socket, int]:
        """A child and its end of a fresh conversation. Where the warm process has gone meanwhile, from another one.

        Raises:
            RuntimeError: if that fails, too, or the wall cannot be put up: no fault of the submission, which has not run.
        """
        for _ in range(2):
            if self.process is None or self.process.poll() is not None or self.control is None:
                self.start()
            assert self.control is not None
            deadline = time.monotonic() + START_SECONDS
            ours, theirs = socket.socketpair()
            with theirs:
                try:
                    order = {"op": "fork", "limits": isolation.limits(self.layer), "imports": list(imports)}
                    wire.send(self.control, order, deadline=deadline)
                    socket.send_fds(self.control, [b"x"], [theirs.fileno()])
                    reply, _ = wire.receive(self.control, deadline)
                except (wire.WireError, OSError):
                    ours.close()
                    self.stop()
                    continue
            if "failed" in reply:
                ours.close()
                raise RuntimeError(f"no submission could be started: {reply['failed']}")
            return ours, reply["pid"]
        raise RuntimeError("the grading worker ended twice before a submission could start")

    def end(self, pid: int) -> None:
        """End the child ``pid`` and whatever it started; a worker that cannot do so is replaced."""
        if self.control is None:
            return
        try:
            wire.send(self.control, {"op": "end", "pid": pid})
            reply, _ = wire.receive(self.control, time.monotonic() + 10)
            if reply.get("ended") is True and reply.get("clean") is True:
                return
        except wire.WireError:
            pass
        self.stop()

    def stop(self) -> None:
        """End the warm process and everything behind its wall."""
        below = list(watch.descendants(self.process.pid)) if self.process is not None else []
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
            watch.end(below)  # had the warm process been ended, they would not have been
            psutil.wait_procs(below, timeout=STOP_SECONDS)
            if self.process.stderr is not None:
                self.process.stderr.close()
            self.process = None
        cgroup.remove(self.group)
        self.group = None
        if self.folder:
            shutil.rmtree(self.folder, ignore_errors=True)
            self.folder = ""


class Session:
    """One child with one submission's names: the transport behind :class:`course_lib.grading.submission.Submission`."""

    def __init__(self, worker: Worker, sock: socket.socket, pid: int, watched: watch.Watched) -> None:
        self.worker = worker
        self.sock = sock
        self.pid = pid
        self.watched = watched
        watch.begin(watched)
        self.problems: list[str] = []
        self.alive = True

    def ask(
        self, header: dict[str, Any], blobs: list[bytes], proxies: dict[int, Callable[..., Any]]
    ) -> tuple[dict[str, Any], list[bytes]]:
        """Send one request, answer the calls of proxies meanwhile, return the reply.

        What the grader takes for its answers is not counted against the code, up to as long again as the code has itself:
        otherwise code that asks for ever would never be late.

        Raises:
            WorkerLost: if the process ended, hung, or broke the rules of the conversation.
        """
        deadline = time.monotonic() + REPLY_SECONDS
        last = deadline + REPLY_SECONDS
        number = secrets.token_hex(8)
        try:
            wire.send(self.sock, {**header, "request": number}, blobs, deadline)
            while True:
                reply, blobs = wire.receive(self.sock, deadline)
                if reply.pop("request", None) != number:  # written by something else than the harness, or too late
                    raise wire.WireError("a reply to no request")
                if "ask" not in reply:
                    return reply, blobs
                asked = time.monotonic()
                answer, answered = _answer(reply, blobs, proxies)
                deadline = min(last, deadline + time.monotonic() - asked)
                wire.send(self.sock, answer, answered, deadline)
        except wire.WireError as error:
            self.close()
            raise WorkerLost(self.watched.reason or _why(error, "your code", REPLY_SECONDS)) from None

    def close(self) -> None:
        """End the child."""
        if self.alive:
            self.alive = False
            self.sock.close()
            self.worker.end(self.pid)
            watch.finish(self.watched)


def _answer(
    request: dict[str, Any], blobs: list[bytes], proxies: dict[int, Callable[..., Any]]
) -> tuple[dict[str, Any], list[bytes]]:
    unpack = wire.Unpacker(blobs).unpack
    function = proxies.get(request["ask"]) if isinstance(request["ask"], int) else None
    args, kwargs = unpack(request.get("args")), unpack(request.get("kwargs"))
    if function is None or not isinstance(args, tuple) or not isinstance(kwargs, dict):
        raise wire.WireError("a call of something that was not handed out")
    packer = wire.Packer()
    try:
        return {"answer": packer.pack(function(*args, **kwargs))}, packer.blobs
    except Exception as error:  # whatever the student passed in: unanswered, the conversation would be out of step
        return {"refused": f"{type(error).__name__}: {error}"[:500]}, []


def _why(error: wire.WireError, whose: str, seconds: float) -> str:
    if isinstance(error, wire.TooLate):
        return f"{whose} took longer than {seconds:.0f} seconds (an endless loop?)"
    if isinstance(error, wire.Closed):
        return f"{whose} ended its process (exit, too much memory or time, or a crash)"
    return f"{whose} sent something that is no plain result: {error}"
