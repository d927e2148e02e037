"""The warm process: imports once what the labs need, then forks one child a submission.
Run as ``python -m course_lib.sandbox_child.zygote FD``.

Two sockets, never shared: the *control* socket between the grader and this process, and
for each submission a fresh one, made by the grader and handed on here, that only the
child holds. So nothing a child writes can reach another submission's conversation, and
when the grader dies the control socket closes and this process ends with everything it
started.
"""

from __future__ import annotations

import gc
import importlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from typing import Any

from course_lib.sandbox_child import processes, restrictions
from course_lib.sandbox_child.restrictions import Restrictions

# what the labs' first cells import: seconds in every child if it is not here already
WARM = (
    "IPython.core.inputtransformer2",
    "IPython.core.magics",
    "IPython.display",
    "matplotlib.figure",
    "numpy",
    "scipy.sparse",
    "threadpoolctl",
    "torch._dynamo",  # making an optimizer imports it
    "tqdm.auto",
    "course_lib.data",
    "course_lib.models",
    "course_lib.training",
    "course_lib.student_code.cells",
    "course_lib.student_code.harness",
)
# the only descriptor a child has beside the three standard ones: its conversation with
# the grader
SESSION = 3


def main() -> None:
    control = socket.socket(fileno=int(sys.argv[1]))
    control.set_inheritable(False)
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ[name] = "1"  # torch + fork hangs where parent and child both use several threads
    os.environ.setdefault("MPLBACKEND", "Agg")
    from course_lib.sandbox_child import frames, shell, stubs
    from course_lib.student_code import plain_data

    stubs.install()
    # until all is imported: of a thousand modules nothing is garbage, and looking takes
    # a quarter of the time
    gc.disable()
    try:
        # over the socket, not the command line: a submission could read that
        start, _ = frames.receive(control)
    except plain_data.WireError:
        return
    import_all()
    import torch

    from course_lib import devices

    devices.fix()

    torch.set_num_threads(1)
    _warm_up()
    # a child of the same user may not trace or read this process
    restrictions.prctl(restrictions.PR_SET_DUMPABLE, 0)
    # what a child leaves behind comes to us, and is ended
    restrictions.prctl(restrictions.PR_SET_CHILD_SUBREAPER, 1)
    shell.start(start["folder"])
    sandbox = Restrictions(**start)
    del start
    _settle()
    frames.send(control, {"ready": True})
    while True:
        try:
            order, _ = frames.receive(control)
        except plain_data.WireError:  # the grader has gone
            break
        if order.get("op") == "fork":
            _, fds, _, _ = socket.recv_fds(control, 1, 1)
            try:
                _import_for(order["imports"])
                pid = sandbox.fork()
            except (OSError, ImportError) as error:
                frames.send(control, {"failed": str(error)})
            else:
                if pid == 0:
                    try:
                        control.detach()
                        _child(fds[0], order)
                    finally:
                        os._exit(0)
                frames.send(control, {"pid": pid})
            os.close(fds[0])
        elif order.get("op") == "end":
            ended = _end(order["pid"], sandbox)
            folder = sandbox.pop_folder(order["pid"])
            frames.send(control, {"ended": ended and (not folder or _remove(folder))})
    if sandbox.layer != "jail":  # a jail ends with this process, all of it
        _end_all()
        _remove(sandbox.folder)
    os._exit(0)


def import_all() -> None:
    """What every lab needs; a lab's own comes when a submission of it does."""
    for name in WARM:
        importlib.import_module(name)


def _import_for(names: list[str]) -> None:
    """What a lab needs beside :data:`WARM`, once: it would take seconds in every
    child.
    """
    missing = [name for name in names if name not in sys.modules]
    for name in missing:
        importlib.import_module(name)
    if missing:
        _settle()


def _settle() -> None:
    """After imports, and before a child is forked."""
    gc.collect()
    gc.enable()
    gc.freeze()  # keep the collector from touching, and so copying, the shared pages


def _warm_up() -> None:
    """One step of training, so that what torch makes at its first use is made here and
    not in every child.

    With one thread: a child that computes hangs if its parent had a pool of them.
    """
    import torch
    from torch import nn

    model = nn.Sequential(
        nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU(), nn.Flatten(), nn.Linear(8, 2)
    )
    for fused in (False, True):
        optimizer = torch.optim.Adam(model.parameters(), fused=fused)
        nn.functional.cross_entropy(
            model(torch.zeros(2, 1, 4, 4)), torch.zeros(2, dtype=torch.int64)
        ).backward()
        optimizer.step()
    torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9).step()
    model.zero_grad()


def _child(fd: int, order: dict[str, Any]) -> None:
    """In the forked child, with its restrictions: set the limits, then answer requests
    until the socket closes.
    """
    devnull = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(devnull, standard)
    for signum in (signal.SIGINT, signal.SIGTERM):
        signal.signal(signum, signal.SIG_DFL)
    if fd != SESSION:
        os.dup2(fd, SESSION, inheritable=False)
    os.closerange(SESSION + 1, 1024)  # nothing of the grader's or of this process's is left open
    for name, value in order.get("limits", {}).items():
        restrictions.limit(name, value)
    serve(socket.socket(fileno=SESSION))


def serve(sock: socket.socket) -> None:
    """Read the cells, run the definitions, then answer requests one by one."""
    from course_lib.sandbox_child import frames, shell
    from course_lib.student_code import cells, harness, own, plain_data

    # the one being answered: its number goes back with everything that is said about it
    request = ""

    def ask(number: int, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        packer = plain_data.Packer()
        asked = {
            "ask": number,
            "args": packer.pack(args),
            "kwargs": packer.pack(kwargs),
            "request": request,
        }
        frames.send(sock, asked, packer.blobs)
        header, blobs = frames.receive(sock)
        if "refused" in header:
            raise _refusal(header["refused"])
        return plain_data.Unpacker(blobs).unpack(header["answer"])

    header, blobs = frames.receive(sock)
    refused = own.unpack(dict(zip(header["files"], blobs, strict=True)), os.getcwd())
    # Python's own starts anew in every forked child: definitions draw the same each
    # time
    harness.start_chance(0)
    definitions = cells.run(header["cells"], header["graded"], header["names"], shell.enter())
    worker = harness.Harness(definitions.namespace, ask, definitions.lost, header["graded"])
    problems = [problem[:500] for problem in (*refused, *definitions.problems)][:50]
    frames.send(
        sock,
        {
            "problems": problems,
            "skipped": sorted(definitions.skipped),
            "request": header["request"],
        },
    )
    while True:
        try:
            header, blobs = frames.receive(sock)
        except frames.Closed:
            return
        request = header.pop("request")
        reply, blobs = worker.handle(header, blobs)
        try:
            frames.send(sock, {**reply, "request": request}, blobs)
        except frames.Closed:
            return
        except plain_data.WireError as error:
            failure = harness.failure("result", error)
            frames.send(sock, {"error": failure, "request": request})


def _refusal(text: str) -> BaseException:
    """What a proxy raises in the student's code: an error of the type that the grader
    names.
    """
    name, _, message = text.partition(": ")
    return {"ValueError": ValueError, "AssertionError": AssertionError}.get(name, RuntimeError)(
        message
    )


def _end(pid: int, sandbox: Restrictions) -> bool:
    """End the child and all it started; True when nothing is left."""
    # it is process 1 of its namespace: the kernel ends the others before it lets it go
    if sandbox.layer == "jail":
        try:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        except (ProcessLookupError, ChildProcessError):
            pass
        return True
    try:
        os.killpg(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass
    return _end_all()


def _end_all() -> bool:
    """End every child, and every child's child as it becomes ours; True when nothing is
    left.
    """
    for _ in range(500):
        for child in processes.children(os.getpid()):
            try:
                os.kill(child, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                pass
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:  # no child is left, and who loses its parent becomes ours
            return True
        time.sleep(0.002)
    return False


def _remove(folder: str) -> bool:
    """Remove the folder of a submission that has ended; True when nothing is left."""
    try:
        if os.path.isdir(folder) and not os.path.islink(folder):
            shutil.rmtree(folder)
        else:  # what the code put in its place, where only limits hold
            os.unlink(folder)
    except (OSError, RecursionError):  # locked on purpose, or nested deeper than Python can follow
        for command in (["chmod", "-R", "u+rwX", folder], ["rm", "-rf", folder]):
            subprocess.run(
                command, check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )
    return not os.path.lexists(folder)


if __name__ == "__main__":
    main()
