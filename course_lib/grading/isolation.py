"""The command line that starts the warm process behind the strongest wall this machine has.

Layers, best first:

- ``bwrap``: a bubblewrap jail. Own user, process, network, mount, ipc and host-name namespaces; visible are the interpreter,
  its packages and the four modules of ``course_lib`` that a lab may use, all read-only; 64 MB of private writable space.
- ``plain``: a child process with limits on memory, processor time, processes and file size, its own session, an empty
  environment. Files, network and other processes of the same user stay reachable: the report says so.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from dataclasses import dataclass
from pathlib import Path

import course_lib

SCRATCH = "/scratch"  # the only writable place inside the jail
SCRATCH_BYTES = 64 << 20
# what of course_lib a submission may see; the implementing modules, the grader and the tests are not there at all
VISIBLE = ("__init__.py", "paths.py", "training.py", "worker", "data", "models")
WORK_BYTES = 2 << 30  # of memory for a submission, beside what the imported libraries take
LIMITS = {"CPU": 60, "FSIZE": 64 << 20, "NOFILE": 64, "NPROC": 48, "CORE": 0}
SENTENCES = {
    "bwrap": "Submissions ran in a bubblewrap jail: no network, no files but the interpreter's, no other processes.",
    "plain": "Submissions ran as limited processes WITHOUT a wall around files, network and other processes of this user: "
    "look at suspicious submissions by hand, or install bubblewrap (Linux) and grade again.",
}


def limits() -> dict[str, int]:
    """What a submission may use at most, by the names of :mod:`resource`.

    Memory is limited as address space, of which torch's CUDA build takes gigabytes before anything is computed: as much
    as this process, which has imported the same, is added.
    """
    try:
        libraries = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return LIMITS
    return {"AS": libraries + WORK_BYTES, **LIMITS}


@dataclass(frozen=True)
class Layer:
    """One way to separate submissions: its name, and the sentence for the report."""

    name: str

    @property
    def sentence(self) -> str:
        return SENTENCES[self.name]


def command(layer: Layer, control: int) -> list[str]:
    """The command that starts the warm process behind ``layer``, its control socket being descriptor ``control``."""
    run = [sys.executable, "-s", "-m", "course_lib.worker.zygote", str(control)]
    return _bwrap() + run if layer.name == "bwrap" else run


def environment(layer: Layer, scratch: str) -> dict[str, str]:
    """All the environment the worker gets."""
    package = str(Path(course_lib.__file__).parent.parent)
    private = layer.name == "bwrap"
    return {
        "PATH": "/usr/bin:/bin",
        "LANG": "C.UTF-8",
        "HOME": SCRATCH if private else scratch,
        "TMPDIR": SCRATCH if private else scratch,
        "MPLCONFIGDIR": SCRATCH if private else scratch,
        "PYTHONPATH": package,
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONHASHSEED": "0",
        "HF_HUB_OFFLINE": "1",
        **({"COURSE_WORKER_JAIL": "1"} if private else {}),
    }


def _bwrap() -> list[str]:
    package = Path(course_lib.__file__).resolve().parent
    args = [
        "bwrap",
        "--unshare-user",
        "--uid",
        "65534",
        "--gid",
        "65534",
        "--unshare-pid",
        "--unshare-net",
        "--unshare-ipc",
    ]
    args += ["--unshare-uts", "--hostname", "worker", "--unshare-cgroup-try", "--die-with-parent", "--new-session"]
    args += ["--cap-drop", "ALL", "--tmpfs", "/tmp", "--dev", "/dev", "--dir", "/proc"]
    args += ["--size", str(SCRATCH_BYTES), "--tmpfs", SCRATCH]
    for folder in ("/usr", "/lib", "/lib64", "/lib32", "/bin", "/sbin"):
        if os.path.islink(folder):
            args += ["--symlink", os.readlink(folder), folder]
        elif os.path.isdir(folder):
            args += ["--ro-bind", folder, folder]
    for file in ("/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/alternatives"):
        if os.path.exists(file):
            args += ["--ro-bind", file, file]
    # torch asks which instructions the processor has before some of its kernels run; nothing else of /proc and /sys is there
    for file in ("/proc/cpuinfo", "/sys/devices/system/cpu/possible", "/sys/devices/system/cpu/present"):
        if os.path.exists(file):
            args += ["--ro-bind", file, file]
    for prefix in _prefixes():
        args += ["--ro-bind", prefix, prefix]
    args += ["--tmpfs", str(package)]
    for name in VISIBLE:
        if (package / name).exists():
            args += ["--ro-bind", str(package / name), str(package / name)]
    # a copy of the package that pip installed holds everything: hide it as well
    for site in {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}:
        copy = Path(site) / "course_lib"
        if copy.is_dir() and copy.resolve() != package:
            args += ["--tmpfs", str(copy)]
    for place in ("/tmp", "/dev", str(package), "/"):
        args += ["--remount-ro", place]
    return [*args, "--chdir", SCRATCH, "--"]


def _prefixes() -> list[str]:
    """The folders that hold the interpreter and its packages, where they are not under /usr."""
    found = {os.path.realpath(p) for p in (sys.prefix, sys.base_prefix, sys.exec_prefix)} | {
        sys.prefix,
        sys.base_prefix,
    }
    found |= {str(Path(sys.executable).resolve().parent.parent), str(Path(sys.executable).parent.parent)}
    outside = sorted(p for p in found if not p.startswith("/usr/") and p not in ("/", "/usr"))
    return [p for p in outside if not any(p != q and p.startswith(q + "/") for q in outside)]


def works(layer: Layer) -> str:
    """Try the layer; "" where it works, else the reason why not."""
    if layer.name == "plain":
        return "" if hasattr(os, "fork") else "this system cannot fork: grade under Linux, macOS or WSL"
    if not sys.platform.startswith("linux"):
        return "bubblewrap exists on Linux only"
    if shutil.which("bwrap") is None:
        return "bubblewrap is not installed (Debian, Ubuntu: apt install bubblewrap)"
    probe = [*_bwrap(), sys.executable, "-c", _PROBE]
    try:
        done = subprocess.run(
            probe,
            check=False,
            env=environment(layer, tempfile.gettempdir()),
            capture_output=True,
            text=True,
            timeout=30,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"bubblewrap does not start here: {error}"
    if done.returncode:
        return f"bubblewrap does not work here: {(done.stderr or done.stdout).strip()[-300:]}"
    return ""


# tried inside: nothing is written outside the scratch folder, no network, nobody else's processes
_PROBE = """
import os, socket
open(os.environ["TMPDIR"] + "/probe", "w").write("x")
for place in ("/tmp/probe", "/probe", "/usr/probe", "/dev/shm/probe"):
    try:
        open(place, "w")
    except OSError:
        continue
    raise SystemExit("could write " + place)
try:
    socket.create_connection(("127.0.0.1", 9), timeout=1)
except ConnectionRefusedError:
    pass
except OSError:
    pass
if [name for _, name in socket.if_nameindex() if name != "lo"]:
    raise SystemExit("sees a network")
if os.getpid() > 10:
    raise SystemExit("shares the process namespace")
"""


def best() -> Layer:
    """The strongest layer that works here."""
    for name in ("bwrap", "plain"):
        layer = Layer(name)
        problem = works(layer)
        if not problem:
            return layer
    raise RuntimeError(problem)
