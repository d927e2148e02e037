"""The warm process: imports once what the labs need, then forks one child a submission. Run as ``python -m course_lib.worker.zygote FD``.

Two sockets, never shared: the *control* socket between the grader and this process, and for each submission a fresh one,
made by the grader and handed on here, that only the child holds. So nothing a child writes can reach another submission's
conversation, and when the grader dies the control socket closes and this process ends with everything it started.
"""

from __future__ import annotations

import gc
import importlib
import os
import signal
import socket
import sys
import time
from typing import Any

# what the labs' first cells import, beside torch: half a second in every child if it is not here already
WARM = (
    "IPython.core.inputtransformer2",
    "IPython.display",
    "matplotlib.figure",
    "numpy",
    "scipy.sparse",
    "threadpoolctl",
    "tqdm.auto",
)
SESSION = 3  # the only descriptor a child has beside the three standard ones: its conversation with the grader


def main() -> None:
    control = socket.socket(fileno=int(sys.argv[1]))
    control.set_inheritable(False)
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ[name] = "1"  # torch + fork hangs where parent and child both use several threads
    os.environ.setdefault("MPLBACKEND", "Agg")
    from course_lib.worker import stubs

    stubs.install()
    for name in WARM:
        importlib.import_module(name)
    import torch
    import torch._dynamo  # making an optimizer imports it, seconds in every child if it is not here already

    import course_lib.models
    import course_lib.training  # noqa: F401
    from course_lib.worker import cells, harness, wire  # noqa: F401

    torch.set_num_threads(1)
    _warm_up()
    _linux_only("PR_SET_DUMPABLE", 4, 0)  # a child of the same user may not trace or read this process
    _linux_only("PR_SET_CHILD_SUBREAPER", 36, 1)  # what a child leaves behind comes to us, and is ended
    gc.collect()
    gc.freeze()  # keep the collector from touching, and so copying, the shared pages
    wire.send(control, {"ready": True, "pid": os.getpid()})
    scratch = os.environ.get("TMPDIR", "")
    private = os.environ.get("COURSE_WORKER_JAIL") == "1"
    while True:
        try:
            order, _ = wire.receive(control)
        except wire.WireError:
            break
        if order.get("op") == "fork":
            _, fds, _, _ = socket.recv_fds(control, 1, 1)
            pid = os.fork()
            if pid == 0:
                try:
                    _child(fds[0], order)
                finally:
                    os._exit(0)
            os.close(fds[0])
            wire.send(control, {"pid": pid})
        elif order.get("op") == "end":
            wire.send(control, {"ended": _end(order["pid"], private), "clean": _clean(scratch) if private else True})
    os._exit(0)


def _warm_up() -> None:
    """One step of training, so that what torch makes at its first use is made here and not in every child.

    With one thread: a child that computes hangs if its parent had a pool of them.
    """
    import torch
    from torch import nn

    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU(), nn.Flatten(), nn.Linear(8, 2))
    for fused in (False, True):
        optimizer = torch.optim.Adam(model.parameters(), fused=fused)
        nn.functional.cross_entropy(model(torch.zeros(2, 1, 4, 4)), torch.zeros(2, dtype=torch.int64)).backward()
        optimizer.step()
    torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9).step()
    model.zero_grad()


def _child(fd: int, order: dict[str, Any]) -> None:
    """In the forked child: take the limits on, then answer requests until the socket closes."""
    os.setsid()
    devnull = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(devnull, standard)
    for signum in (signal.SIGINT, signal.SIGTERM):
        signal.signal(signum, signal.SIG_DFL)
    if fd != SESSION:
        os.dup2(fd, SESSION, inheritable=False)
    os.closerange(SESSION + 1, 1024)  # nothing of the grader's or of this process's is left open
    _limit(order.get("limits", {}))
    serve(socket.socket(fileno=SESSION))


def _limit(limits: dict[str, int]) -> None:
    import resource

    for name, value in limits.items():
        kind = getattr(resource, f"RLIMIT_{name}", None)
        if kind is None:
            continue
        hard = resource.getrlimit(kind)[1]
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        try:
            resource.setrlimit(kind, (value, value))
        except (ValueError, OSError):  # macOS refuses some; the wall clock remains
            continue


def serve(sock: socket.socket) -> None:
    """Read the cells, run the definitions, then answer requests one by one."""
    from course_lib.worker import cells, harness, wire

    request = ""  # the one being answered: its number goes back with everything that is said about it

    def ask(number: int, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        packer = wire.Packer()
        asked = {"ask": number, "args": packer.pack(args), "kwargs": packer.pack(kwargs), "request": request}
        wire.send(sock, asked, packer.blobs)
        header, blobs = wire.receive(sock)
        if "refused" in header:
            raise _refusal(header["refused"])
        return wire.Unpacker(blobs).unpack(header["answer"])

    header, _ = wire.receive(sock)
    sources, graded = header["cells"], header["graded"]
    definitions = cells.run(sources, graded)
    worker = harness.Harness(definitions.namespace, ask)
    wire.send(sock, {"problems": [p[:500] for p in definitions.problems][:50]})
    while True:
        try:
            header, blobs = wire.receive(sock)
        except wire.Closed:
            return
        request = header.pop("request")
        reply, blobs = worker.handle(header, blobs)
        try:
            wire.send(sock, {**reply, "request": request}, blobs)
        except wire.Closed:
            return
        except wire.WireError as error:
            failure = {"kind": "result", "type": "WireError", "bases": [], "message": str(error), "where": ""}
            wire.send(sock, {"error": failure, "request": request})


def _refusal(text: str) -> BaseException:
    """What a proxy raises in the student's code: an error of the type that the grader names."""
    name, _, message = text.partition(": ")
    return {"ValueError": ValueError, "AssertionError": AssertionError}.get(name, RuntimeError)(message)


def _end(pid: int, private: bool) -> bool:
    """End the child and all it started; True when nothing is left."""
    for _ in range(500):
        _kill(pid, private)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except (
            ChildProcessError
        ):  # no child is left, and who loses its parent becomes ours (or dies with the namespace)
            return True
        time.sleep(0.002)
    return False


def _kill(pid: int, private: bool) -> None:
    """One round of killing: what forks meanwhile is met in the next."""
    try:
        if private:
            os.kill(-1, signal.SIGKILL)  # in a process namespace of our own: everyone but us and its init
            return
        os.killpg(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass
    for child in [] if private else _children():
        try:
            os.kill(child, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            pass


def _children() -> list[int]:
    """Our children now, orphans of the submission among them (Linux: we adopt them); elsewhere none are seen."""
    found = []
    for entry in os.listdir("/proc") if os.path.isdir("/proc/self") else ():
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/stat") as file:
                    if int(file.read().rpartition(")")[2].split()[1]) == os.getpid():
                        found.append(int(entry))
            except (OSError, IndexError):
                continue
    return found


def _clean(scratch: str) -> bool:
    """Empty the private folder between two submissions."""
    import shutil

    for entry in os.scandir(scratch) if scratch else ():
        try:
            shutil.rmtree(entry.path) if entry.is_dir(follow_symlinks=False) else os.unlink(entry.path)
        except OSError:
            return False
    return True


def _linux_only(_name: str, option: int, value: int) -> None:
    if sys.platform.startswith("linux"):
        import ctypes

        ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)


if __name__ == "__main__":
    main()
