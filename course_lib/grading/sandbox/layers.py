"""Which kind of sandbox works on this machine, and the command that starts the warm process
in it.

Layers, best first:

- ``jail``: a bubblewrap jail. Own user, process, network, mount, ipc and host-name
  namespaces; visible are the interpreter, its packages and the four modules of
  ``course_lib`` that a lab may use, all read-only. Inside, every submission has
  namespaces of its own once more, and 64 MB in memory (its working folder and ``/tmp``),
  the only place it can write to.
- ``landlock``: where namespaces are refused (Ubuntu 24.04 by default, many containers).
  Linux's Landlock with a filter of system calls through libseccomp: the same files, one
  writable folder, no sockets, no signals to others. What remains visible is *that* a
  file or a process exists, the host's name, and the size and time of a file whose path
  is known.
- ``plain``: a child process with limits on memory, processor time, processes and files,
  its own session, an empty environment. Files, network and other processes of the same
  user stay reachable: the report says so.

What happens inside, child by child, is in :mod:`course_lib.sandbox_child.restrictions`.
"""

from __future__ import annotations

import functools
import json
import os
import secrets
import shlex
import shutil
import socket
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil

import course_lib
from course_lib.grading.sandbox.usage import Share
from course_lib.paths import course_root
from course_lib.sandbox_child import stubs

_PACKAGE = Path(course_lib.__file__).resolve().parent
LAYERS = ("jail", "landlock", "plain")
SCRATCH = "/scratch"  # the only writable place inside the jail
SCRATCH_BYTES = 64 << 20
# what of course_lib a submission may see; the implementing modules, the grader and the
# tests are not there at all
VISIBLE = (
    "__init__.py",
    *(name if (_PACKAGE / name).is_dir() else f"{name}.py" for name in stubs.REAL),
)
# of what must be hidden, what the probe looks for: the grader, and the library's answers
CANARIES = ("grading", "pruning/weights/masks.py")
SYSTEM = ("/usr", "/lib", "/lib64", "/lib32", "/bin", "/sbin")
SYSTEM_FILES = (
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/alternatives",
    # torch asks which instructions the processor has before some of its kernels run;
    # nothing else of /proc and /sys is there
    "/proc/cpuinfo",
    "/sys/devices/system/cpu/possible",
    "/sys/devices/system/cpu/present",
)
WORK_BYTES = 2 << 30  # of memory for a submission, beside what the imported libraries take
PROCESSES = 48  # of a submission; threads count, too
OWN_PROCESSES = 16  # of the jail and the warm process, at most
CPU_SECONDS = 60  # for one submission
LIMITS = {"CPU": CPU_SECONDS, "FSIZE": SCRATCH_BYTES, "NOFILE": 64, "CORE": 0, "MSGQUEUE": 0}
SENTENCES = {
    "jail": (
        "Submissions ran in a bubblewrap jail: no network, no files but the interpreter's, no other"
        " processes."
    ),
    "landlock": (
        "Submissions ran behind Landlock and a filter of system calls: no network, no files but the"
        " interpreter's, no reach to other processes."
    ),
    "plain": (
        "Submissions ran as limited processes WITHOUT a sandbox: files, network and other"
        " processes of this user were open to them. Check suspicious submissions by hand, or see"
        " `course doctor` for a stronger layer and grade again."
    ),
}


@dataclass(frozen=True)
class Isolation:
    """One way to separate submissions: its name, and the sentence for the report."""

    name: str

    @property
    def sentence(self) -> str:
        return SENTENCES[self.name]

    @property
    def is_sandbox(self) -> bool:
        """Is there a boundary round files, network and other processes, or only
        limits?
        """
        return self.name != "plain"


# -- limits
# --------------------------------------------------------------------------------------


def limits(layer: Isolation) -> dict[str, int]:
    """What each process of a submission may use at most, by the names of
    :mod:`resource`.

    Memory is limited as address space, of which torch's CUDA build takes gigabytes
    before anything is computed: as much as this process, which has imported the same,
    is added. The number of processes is counted per user: where the submission has no
    user namespace of its own, as many as this user has now are added (:func:`share`
    counts exactly).
    """
    some = {
        **LIMITS,
        "NPROC": (
            PROCESSES
            + (0 if layer.name == "jail" else _threads_of_user(int(time.monotonic() / 30)))
        ),
    }
    libraries = address_space()
    return {"AS": libraries + WORK_BYTES, **some} if libraries else some


def address_space() -> int:
    """Bytes of address space that this process has; 0 where the system does not tell (only
    Linux does, and elsewhere a limit on it means nothing).
    """
    try:
        return int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return 0


def share() -> Share:
    """What all processes of a submission together may use."""
    return Share(memory=WORK_BYTES, processes=PROCESSES, seconds=CPU_SECONDS, files=SCRATCH_BYTES)


@functools.lru_cache(maxsize=1)
def _threads_of_user(_moment: int) -> int:
    """Threads that this user has, and room for as many again to come while a submission
    runs.
    """
    me, count = os.getuid(), 0
    for process in psutil.process_iter(["uids", "num_threads"]):
        uids = process.info["uids"]
        count += (process.info["num_threads"] or 0) if uids is not None and uids.real == me else 0
    return 2 * count


# -- the command that starts the warm process
# ----------------------------------------------------------------------------


def command(layer: Isolation, control: int, group: Path | None = None) -> list[str]:
    """The command that starts the warm process behind ``layer``.

    Args:
        control: descriptor of its control socket.
        group: a control group to start it in.
    """
    run = [sys.executable, "-P", "-s", "-m", "course_lib.sandbox_child.zygote", str(control)]
    if layer.name == "jail":
        run = [*jail_command(), *run]
    if sys.platform.startswith("linux"):  # if memory runs out, these processes go before any other
        # the limits of the process that judges are its own
        first = "ulimit -S -v unlimited; ulimit -S -t unlimited; "
        first += "echo 1000 2>/dev/null >/proc/self/oom_score_adj; "
        first += f"echo $$ >{shlex.quote(str(group))}/cgroup.procs; " if group is not None else ""
        run = ["/bin/sh", "-c", first + 'exec "$@"', "sh", *run]
    return run


def environment(layer: Isolation, scratch: str) -> dict[str, str]:
    """All the environment the worker gets."""
    place = SCRATCH if layer.name == "jail" else scratch
    return {
        "PATH": "/usr/bin:/bin",
        "LANG": "C.UTF-8",
        "HOME": place,
        "TMPDIR": place,
        "MPLCONFIGDIR": place,
        "PYTHONPATH": str(Path(course_lib.__file__).parent.parent),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONHASHSEED": "0",
        "HF_HUB_OFFLINE": "1",
        # a compiler cannot be started: what torch.compile is given runs as it is
        "TORCH_COMPILE_DISABLE": "1",
    }


def orders(layer: Isolation, scratch: str) -> dict[str, object]:
    """The settings that the warm process receives: how to restrict its children."""
    return {
        "layer": layer.name,
        "folder": SCRATCH if layer.name == "jail" else scratch,
        "readable": readable() if layer.name == "landlock" else [],
        "roots": shown_places() if layer.name == "landlock" else [],
    }


def readable() -> list[str]:
    """The files and folders a submission may read where nothing can be hidden inside
    what is shown.
    """
    hidden, shown = hidden_places(), shown_places()
    seen = {str(_PACKAGE / name) for name in VISIBLE}
    return [
        *seen,
        *(
            str(path)
            for folder in shown
            if folder not in seen
            for path in paths_without(Path(folder), hidden)
        ),
    ]


def shown_places() -> list[str]:
    """The files and folders that a submission sees, where they are there."""
    return [*SYSTEM, *SYSTEM_FILES, *_prefixes(), *(str(_PACKAGE / name) for name in VISIBLE)]


def hidden_places() -> list[Path]:
    """The course's folder, its package, and a copy of the package that pip installed:
    it holds everything.
    """
    copies = {Path(sysconfig.get_path(kind)) / "course_lib" for kind in ("purelib", "platlib")}
    checkout = _PACKAGE.parent if (_PACKAGE.parent / "pyproject.toml").is_file() else None
    places = {
        _PACKAGE,
        *(c for c in copies if c.is_dir()),
        *(r for r in (checkout, course_root()) if r is not None),
    }
    return sorted({place.resolve() for place in places})


def paths_without(folder: Path, hidden: list[Path]) -> Iterator[Path]:
    """The folder; or, if something inside is hidden, all it holds but that."""
    real = folder.resolve()
    inside = [h for h in hidden if h.is_relative_to(real)]
    if not inside:
        yield folder
    elif real not in inside:
        for entry in sorted(real.iterdir()):
            yield from paths_without(entry, inside)


def jail_command() -> list[str]:
    """The jail, in which the warm process keeps the right to make more namespaces for its
    children.
    """
    args = [
        "bwrap",
        "--unshare-user",
        "--uid",
        "65534",
        "--gid",
        "65534",
        "--unshare-pid",
        "--unshare-net",
    ]
    args += [
        "--unshare-ipc",
        "--unshare-uts",
        "--hostname",
        "worker",
        "--unshare-cgroup-try",
        "--die-with-parent",
    ]
    args += ["--new-session", "--cap-drop", "ALL"]
    # rights inside the jail's own user namespace only; its children give them up
    args += ["--cap-add", "CAP_SYS_ADMIN", "--cap-add", "CAP_SETPCAP"]
    # not --dev: bubblewrap would put a second user namespace round it, from which no
    # child could be given namespaces
    args += [
        "--tmpfs",
        "/dev",
        "--dir",
        "/proc",
        "--size",
        str(SCRATCH_BYTES),
        "--tmpfs",
        SCRATCH,
    ]
    for device in ("null", "zero", "full", "random", "urandom"):
        args += ["--dev-bind", f"/dev/{device}", f"/dev/{device}"]
    hidden = [str(place) for place in hidden_places()]
    mounts: dict[str, list[str]] = {}
    for place in shown_places():
        if place in SYSTEM and os.path.islink(place):
            args += ["--symlink", os.readlink(place), place]
        elif os.path.exists(place):
            mounts[place] = ["--ro-bind", place, place]
    mounts |= {path: ["--tmpfs", path] for path in hidden}
    # each child puts a folder of its own over /tmp (:mod:`course_lib.sandbox_child.restrictions`)
    args += ["--tmpfs", "/tmp"]
    # what is inside another comes after it
    for path in sorted(mounts, key=lambda path: Path(path).parts):
        args += mounts[path]
    for place in ("/tmp", "/dev", *hidden, "/"):
        args += ["--remount-ro", place]
    return [*args, "--chdir", SCRATCH, "--"]


def _prefixes() -> list[str]:
    """The folders that hold the interpreter and its packages, where they are not under
    /usr.
    """
    found = {os.path.realpath(p) for p in (sys.prefix, sys.base_prefix, sys.exec_prefix)} | {
        sys.prefix,
        sys.base_prefix,
    }
    found |= {
        str(Path(sys.executable).resolve().parent.parent),
        str(Path(sys.executable).parent.parent),
    }
    outside = sorted(p for p in found if not p.startswith("/usr/") and p not in ("/", "/usr"))
    return [p for p in outside if not any(p != q and p.startswith(q + "/") for q in outside)]


# -- trying
# --------------------------------------------------------------------------------------


@functools.cache
def try_layer(name: str) -> str:
    """Try a layer in a child that tries to get out, once in the life of this process; ""
    where it works, else the reason why not and the remedy.
    """
    if name == "plain":
        if hasattr(os, "fork"):
            return ""
        return (
            "Windows cannot make a copy of a running process, which grading needs: grade in WSL"
            " (wsl --install), under Linux or macOS; students' notebooks and check() work on"
            " Windows as they are"
        )
    if not sys.platform.startswith("linux"):
        return "exists on Linux only"
    if name == "landlock":
        return run_probe([], name)
    if shutil.which("bwrap") is None:
        return (
            "bubblewrap is not installed (Debian, Ubuntu: apt install bubblewrap; Fedora: dnf"
            " install bubblewrap)"
        )
    return run_probe(jail_command(), name)


def run_probe(prefix: list[str], name: str) -> str:
    """Run the probe behind the layer, with something to find outside: canaries,
    listeners, this process; what went wrong, "" if nothing.
    """
    place = str(_PACKAGE / "sandbox_child")
    code = (
        f"import sys; sys.path.insert(0, {place!r}); import probe, restrictions as r; probe.main(r)"
    )
    run = [sys.executable, "-I", "-S", "-B", "-c", code]
    layer = Isolation(name)
    with (
        tempfile.TemporaryDirectory(prefix="course-probe-") as folder,
        socket.create_server(("127.0.0.1", 0)) as tcp,
        socket.socket(socket.AF_UNIX) as local,
    ):
        abstract = f"course-probe-{secrets.token_hex(8)}"
        local.bind("\0" + abstract)
        local.listen()
        inside = Path(folder, "worker")
        inside.mkdir()
        (Path(folder) / "answers").write_text("42")
        asked = {
            **orders(layer, str(inside)),
            "hidden": [
                str(Path(folder, "answers")),
                *(str(_PACKAGE / name) for name in CANARIES),
                *(str(p) for p in course_files()),
                "/etc/hostname",
                "/etc/passwd",
                f"/proc/{os.getpid()}/environ",
            ],
            "locked": [
                folder,
                "/",
                *([] if name == "jail" else ["/tmp"]),
                "/usr",
                "/dev/shm",
                str(_PACKAGE / "sandbox_child"),
                str(Path.home()),
                sysconfig.get_path("purelib"),
            ],
            "grader": os.getpid(),
            "port": tcp.getsockname()[1],
            "unix": abstract,
            "hostname": socket.gethostname(),
        }
        try:
            done = subprocess.run(
                [*prefix, *run],
                check=False,
                input=json.dumps(asked),
                env=environment(layer, str(inside)),
                cwd=folder,
                capture_output=True,
                text=True,
                timeout=60,
                start_new_session=True,
            )
            said = json.loads(done.stdout or "null")
        except (OSError, ValueError, subprocess.TimeoutExpired) as error:
            return f"does not start: {error}"
    if said is None:
        return _reason((done.stderr or "ended without a word").strip()[-300:])
    if said["breaches"]:
        return "the sandbox does not hold here: a submission " + "; ".join(said["breaches"])
    return str(said["problem"])


def course_files() -> list[Path]:
    """What of the course's folder must be hidden, as far as it is there."""
    root = course_root()
    names = ("tests", "solutions", "pyproject.toml") if root else ()
    return [path for name in names if (path := Path(str(root), name)).exists()]


def _reason(said: str) -> str:
    """Why a jail did not start, and the remedy, as far as the system tells."""
    remedies = {
        "/proc/sys/kernel/apparmor_restrict_unprivileged_userns": (
            "1",
            (
                "Ubuntu lets no ordinary program make a jail; the administrator can allow"
                " bubblewrap to: apt install apparmor-profiles, then copy"
                " /usr/share/apparmor/extra-profiles/bwrap-userns-restrict to /etc/apparmor.d and"
                " apparmor_parser -r it"
            ),
        ),
        "/proc/sys/kernel/unprivileged_userns_clone": (
            "0",
            (
                "the administrator can allow user namespaces: sysctl"
                " kernel.unprivileged_userns_clone=1"
            ),
        ),
        "/proc/sys/user/max_user_namespaces": (
            "0",
            "the administrator can allow user namespaces: sysctl user.max_user_namespaces=15000",
        ),
    }
    for place, (value, remedy) in remedies.items():
        try:
            if Path(place).read_text().strip() == value:
                return f"{said}. {remedy}"
        except OSError:
            continue
    return (
        f"{said}. In a container, user namespaces must be allowed from outside (Docker:"
        " --security-opt seccomp=unconfined)"
    )


def best() -> Isolation:
    """The strongest layer that works here.

    Raises:
        RuntimeError: where no layer works, with a remedy.
    """
    for name in LAYERS:
        if not try_layer(name):
            return Isolation(name)
    raise RuntimeError(try_layer("plain"))


def required() -> Isolation:
    """The strongest layer that works here and is a real boundary.

    Raises:
        RuntimeError: where there is none; says what was tried, why each failed, and the
            remedy.
    """
    sandboxes = [layer for layer in map(Isolation, LAYERS) if layer.is_sandbox]
    for layer in sandboxes:
        if not try_layer(layer.name):
            return layer
    why = "".join(f"\n- {layer.name}: {try_layer(layer.name)}" for layer in sandboxes)
    raise RuntimeError(
        "there is no sandbox here for files, network and processes, and one was required."
        f" Tried:{why}"
    )
