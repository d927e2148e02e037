"""Every sandbox that this machine has, attacked from inside by a submission; and what is
left of it afterwards.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy
import psutil
import pytest

from course_lib.grading import Submission, sandbox
from course_lib.grading.claims.alarm import WorkerLost
from course_lib.grading.sandbox import cgroup
from course_lib.grading.sandbox import layers as isolation
from course_lib.grading.sandbox import usage as watch
from course_lib.grading.sandbox.workers import Seconds, Worker
from course_lib.sandbox_child import restrictions

pytestmark = pytest.mark.long

Run = Callable[..., Submission]
COURSE = Path(__file__).parents[2]

# a submission's usual start: names of what it could do, not of what it could not
TRY = """
import os, sys
def allowed(action):
    try:
        action()
    except (OSError, ImportError):
        return False
    return True
def passed(ways): return [name for name, way in ways.items() if allowed(way)]
"""


@pytest.fixture
def patient(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit that is tested must come first, also on a busy machine."""
    monkeypatch.setattr(worker, "seconds", Seconds(reply=60.0))


@pytest.fixture
def sandboxed(worker: Worker) -> Iterator[None]:
    """The test is about a sandbox, and the warm process is unharmed outside it."""
    if not worker.layer.is_sandbox:
        pytest.skip("plain limits are no sandbox: the report says so")
    if worker.process is None or worker.process.poll() is not None:
        worker.start()
    before = worker.warm_pid
    yield
    assert worker.warm_pid == before and psutil.pid_exists(before), "the warm process was harmed"


in_a_sandbox = pytest.mark.usefixtures("sandboxed")


# what is tried -> the code, whose f names the ways that were allowed, and its arguments
TRIES: dict[str, tuple[str, list[object]]] = {
    "changing the interpreter and its packages": (
        "def f(files, folders):\n"
        "    return [p for p in files if allowed(lambda: open(p, 'ab')) or allowed(lambda: os.unlink(p))] + \\\n"
        "        [p for p in folders if allowed(lambda: open(p + '/left.pth', 'w'))]",
        [
            [numpy.__file__, os.__file__, restrictions.__file__, sys.executable],
            [
                sysconfig.get_path("purelib"),
                sysconfig.get_path("stdlib"),
                str(COURSE / "course_lib" / "sandbox_child"),
                "/usr",
            ],
        ],
    ),
    "writing outside its own folder": (
        "def f():\n    done = []\n    for top, dirs, files in os.walk('/'):\n        if top.count('/') > 2: dirs.clear()\n"
        "        if allowed(lambda: open(top + '/probe', 'w').close()): done.append(top)\n"
        "    own = os.environ['TMPDIR']\n    open(own + '/probe', 'w').close()\n"
        "    return [p for p in done if p != own and (p, own) != ('/tmp', '/scratch')]",  # both are the child's in the jail
        [],
    ),
    "looking at the grader": (
        "def f(grader):\n"
        "    seen = [n for n in ('environ', 'cmdline', 'mem', 'maps', 'cwd') if allowed(lambda: open(f'/proc/{grader}/{n}', 'rb').read(1))]\n"
        "    seen += [n for n in ('cwd', 'exe', 'fd/0') if allowed(lambda: os.readlink(f'/proc/{grader}/{n}'))]\n"
        "    return seen + ([n for n in os.listdir('/proc') if n != 'cpuinfo'] if allowed(lambda: os.listdir('/proc')) else [])",
        [os.getpid()],
    ),
    "leaving a sign on a file that others read, too": (
        "import ctypes, fcntl, struct\n"
        "def f(path):\n"
        "    file, libc = open(path), ctypes.CDLL(None, use_errno=True)\n"
        "    lock = struct.pack('hhqqi', fcntl.F_RDLCK, 0, 0, 0, 0)\n"
        "    def inotify():\n"
        "        if libc.inotify_add_watch(libc.inotify_init(), path.encode(), 1) < 0: raise OSError\n"
        "    return passed(dict(flock=lambda: fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB), lease=lambda: fcntl.fcntl(file, 1024, fcntl.F_RDLCK),\n"
        "        record=lambda: fcntl.fcntl(file, fcntl.F_SETLK, lock), look=lambda: fcntl.fcntl(file, fcntl.F_GETLK, lock),\n"
        "        open_file=lambda: fcntl.fcntl(file, 37, lock), leased=lambda: fcntl.fcntl(file, 1025),\n"
        "        notify=lambda: fcntl.fcntl(os.open(os.path.dirname(path), os.O_RDONLY), 1026, 1), inotify=inotify))",
        [json.__file__],
    ),
    "a handle on the process at the other end of the conversation": (
        "import socket\n"
        "def f():\n"
        "    here = socket.socket(fileno=os.dup(3))\n"
        "    return passed(dict(pidfd=lambda: here.getsockopt(socket.SOL_SOCKET, 77, 4), passed=lambda: here.setsockopt(socket.SOL_SOCKET, 76, 1)))",
        [],
    ),
}


@in_a_sandbox
@pytest.mark.parametrize("tried", TRIES)
def test_what_is_tried_is_refused(run: Run, tried: str) -> None:
    source, arguments = TRIES[tried]
    assert run(TRY + source).f(*arguments) == []


# -- files
# -------------------------------------------------------------------------------------------------------------


@in_a_sandbox
def test_the_course_cannot_be_read(run: Run) -> None:
    hidden = ["tests/labs/lab01/hidden.py", "course_lib/grading/claims/question.py", "course_lib/pruning/weights/masks.py", "pyproject.toml",
              "course_lib/cost/encodings.py", *(str(p.relative_to(COURSE)) for p in (COURSE / "solutions").glob("*.py"))]  # fmt: skip
    folders = ["", "tests", "solutions", "course_lib/grading", "course_lib/pruning"]
    assert all((COURSE / name).exists() for name in (*hidden, *folders))
    s = run(
        TRY + "def read(paths): return [p for p in paths if allowed(lambda: open(p).read())]\n"
        "def list_(paths, ways): return [p for p in paths if allowed(lambda: os.listdir(p)) and set(os.listdir(p)) - set(ways)]"
    )
    assert s.read([str(COURSE / name) for name in hidden]) == []
    # on the way to what may be seen: the visible modules, and the interpreter where it
    # lies in the course's folder
    assert (
        s.list_([str(COURSE / name) for name in folders], ["course_lib", Path(sys.prefix).name])
        == []
    )


@in_a_sandbox
def test_what_else_lies_on_the_machine_can_be_neither_read_nor_changed(
    run: Run, tmp_path: Path
) -> None:
    secret = tmp_path / "report.json"
    secret.write_text("{}")
    before = secret.stat()
    source = (
        "def f(file, folder):\n"
        "    ways = dict(read=lambda: open(file).read(), write=lambda: open(file, 'a').write('x'), mode=lambda: os.chmod(file, 0o777),\n"
        "        owner=lambda: os.chown(file, 1, 1), time=lambda: os.utime(file, (0, 0)), cut=lambda: os.truncate(file, 0),\n"
        "        remove=lambda: os.unlink(file), rename=lambda: os.rename(file, file + '.old'), link=lambda: os.link(file, 'mine'),\n"
        "        list=lambda: os.listdir(folder), create=lambda: open(folder + '/new', 'w'), make=lambda: os.mkdir(folder + '/d'),\n"
        "        attribute=lambda: os.setxattr(file, 'user.x', b'1'), replace=lambda: os.replace('own', file),\n"
        "        through_a_link=lambda: (os.symlink(file, 'through'), open('through').read()))\n"
        "    open('own', 'w').close()\n"
        "    return passed(ways)"
    )
    assert run(TRY + source).f(str(secret), str(tmp_path)) == []
    after = secret.stat()
    assert (after.st_mode, after.st_uid, after.st_size, after.st_mtime_ns, after.st_ino, after.st_nlink) == (
        before.st_mode, before.st_uid, before.st_size, before.st_mtime_ns, before.st_ino, before.st_nlink,
    )  # fmt: skip
    assert os.listdir(tmp_path) == ["report.json"]


def test_the_next_submission_finds_an_empty_folder(run: Run, worker: Worker) -> None:
    leave = (
        "import os\ndef f():\n    os.makedirs('deep/er')\n    open('deep/left', 'w').write('x')\n    os.symlink('/usr', 'link')\n"
        "    os.chdir('deep')\n    for _ in range(1500):\n        os.mkdir('d'); os.chdir('d')\n    return 1"
    )
    first = worker.open([leave], ["f"])
    assert Submission(first).f() == 1
    first.close()
    assert run("import os\ndef g(): return os.listdir(os.environ['TMPDIR'])").g() == []
    assert os.path.isdir("/usr/lib"), "the link was removed, not what it points to"


@pytest.mark.usefixtures("patient")
def test_a_disk_cannot_be_filled(run: Run, worker: Worker) -> None:
    source = (
        "import os, time\n"
        "def f():\n"
        "    kept = []\n"
        "    for n in range(6):\n"
        "        file = open(f'big{n}', 'wb', buffering=0)\n"
        "        kept.append(file)\n"
        "        os.unlink(f'big{n}')\n"  # still takes its room, and no longer shows in the folder
        "        for _ in range(32): file.write(bytes(1 << 20))\n"
        "    time.sleep(2)\n"
        "    return 'filled'"
    )
    try:
        said = run(source).f()
    except Exception as error:  # no space left; or ended from outside
        said = str(error)
    assert "No space left" in said or "64 MB into files" in said


# -- processes
# ---------------------------------------------------------------------------------------------------------


def test_the_environment_and_the_descriptors_tell_nothing(run: Run) -> None:
    source = (
        "import os\ndef f(): return [sorted(os.environ), [n for n in range(4096) if open_(n)]]\n"
        "def open_(n):\n    try: os.fstat(n)\n    except OSError: return False\n    return True"
    )
    keys, descriptors = run(source).f()
    assert not [k for k in keys if k not in (
        "HF_HUB_OFFLINE", "HOME", "LANG", "LC_CTYPE", "MKL_NUM_THREADS", "MPLBACKEND", "MPLCONFIGDIR", "OMP_NUM_THREADS",
        "OPENBLAS_NUM_THREADS", "PATH", "PWD", "PYTHONDONTWRITEBYTECODE", "PYTHONHASHSEED", "PYTHONPATH", "TMPDIR", "OLDPWD", "SHLVL", "_",
    ) and not k.startswith(("KMP", "TORCH"))]  # fmt: skip
    assert descriptors == [0, 1, 2, 3], (
        "the three standard ones, all nowhere, and its own conversation"
    )


@in_a_sandbox
def test_no_other_process_can_be_signalled_or_changed(run: Run, worker: Worker) -> None:
    sibling = worker.open(["def g(): return 7"], ["g"])
    with subprocess.Popen(["sleep", "60"]) as victim:
        priority, cores = (
            os.getpriority(os.PRIO_PROCESS, victim.pid),
            os.sched_getaffinity(victim.pid),
        )
        source = (
            "import resource, signal\n"
            "def f(pids):\n"
            "    me = os.getpid()\n"
            "    for pid in [p for p in pids if p != me] + [os.getppid(), -1]:\n"
            "        for way in (lambda: os.kill(pid, signal.SIGKILL), lambda: os.killpg(pid, signal.SIGKILL),\n"
            "                lambda: os.setpriority(0, pid, 19), lambda: os.sched_setaffinity(pid, {0}),\n"
            "                lambda: resource.prlimit(pid, resource.RLIMIT_NOFILE, (0, 0)),\n"
            "                lambda: signal.pidfd_send_signal(os.pidfd_open(pid), signal.SIGKILL)):\n"
            "            if pid not in (0, me): allowed(way)\n"
            "    return 1"
        )
        attacker = worker.open([TRY + source], ["f"])
        below = [p.pid for p in watch.descendants(worker.warm_pid)]
        pids = sorted(
            {victim.pid, worker.warm_pid, *below, *range(2, 30), os.getpid()} - {attacker.pid}
        )
        assert Submission(attacker).f(pids) == 1
        assert victim.poll() is None
        assert os.getpriority(os.PRIO_PROCESS, victim.pid) == priority
        assert os.sched_getaffinity(victim.pid) == cores
        assert psutil.Process(victim.pid).rlimit(psutil.RLIMIT_NOFILE) != (0, 0)
        victim.kill()
    assert Submission(sibling).g() == 7, "another submission was ended"
    attacker.close()
    sibling.close()


@in_a_sandbox
def test_no_other_process_can_be_traced(run: Run, worker: Worker) -> None:
    sibling = worker.open(["secret = 'the right answer'\ndef g(): return 7"], ["g"])
    source = (
        "import ctypes\n"
        "def f(pids):\n"
        "    libc = ctypes.CDLL(None, use_errno=True)\n"
        "    there = ctypes.create_string_buffer(64)\n"
        "    class Piece(ctypes.Structure): _fields_ = [('at', ctypes.c_void_p), ('size', ctypes.c_size_t)]\n"
        "    here, far = Piece(ctypes.addressof(there), 64), Piece(id(f), 64)\n"
        "    found = []\n"
        "    for pid in pids:\n"
        "        for request in (16, 0x4206):\n"
        "            if libc.ptrace(ctypes.c_long(request), ctypes.c_long(pid), None, None) >= 0: found.append(('ptrace', pid))\n"
        "        if libc.process_vm_readv(pid, ctypes.byref(here), 1, ctypes.byref(far), 1, 0) >= 0: found.append(('read', pid))\n"
        "    return found"
    )
    attacker = worker.open([source], ["f"])
    pids = [
        worker.warm_pid,
        os.getpid(),
        *(p.pid for p in watch.descendants(worker.warm_pid)),
        *range(2, 30),
    ]
    assert Submission(attacker).f(pids) == []
    assert Submission(sibling).g() == 7
    attacker.close()
    sibling.close()


@in_a_sandbox
def test_no_right_is_left_and_none_can_be_had(run: Run) -> None:
    source = (
        "import ctypes\n"
        "def f():\n"
        "    libc = ctypes.CDLL(None)\n"
        "    header = (ctypes.c_uint32 * 2)(0x20080522, 0)\n"
        "    rights = (ctypes.c_uint32 * 6)()\n"
        "    libc.capget(header, rights)\n"
        # which rights a program that it runs could get
        "    may = [libc.prctl(23, n, 0, 0, 0) for n in range(41)]\n"
        "    made = [flag for flag in (0x10000000, 0x20000, 0x20000000, 0x40000000) if libc.unshare(flag) == 0]\n"
        "    mounted = libc.mount(b'tmpfs', b'.', b'tmpfs', 0, None) == 0\n"
        "    return [sum(rights), sum(m > 0 for m in may), libc.prctl(39, 0, 0, 0, 0), made, mounted]"
    )
    held, gained, no_new, made, mounted = run(source).f()
    assert held == 0 and no_new == 1
    assert gained == 0 or os.getuid() != 0, (
        "an ordinary user cannot change the set; no_new_privs keeps it from being used"
    )
    assert made == [] and mounted is False


@pytest.mark.skipif(not restrictions.LINUX, reason="looks for processes in /proc")
def test_nothing_that_was_started_survives(run: Run, worker: Worker) -> None:
    source = (
        "import os, signal, time\n"
        "def f():\n"
        "    for way in range(4):\n"
        "        if os.fork() == 0:\n"
        "            os.setsid()\n"
        "            for n in range(1, 32):\n"
        "                if n not in (9, 19): signal.signal(n, signal.SIG_IGN)\n"
        "            if way % 2 and os.fork(): os._exit(0)\n"  # its child has lost its parent
        "            if way > 1: os.execv('/bin/sleep', ['sleep', '60'])\n"
        "            while True: time.sleep(60)\n"
        "    time.sleep(0.3)\n"
        "    return 1"
    )
    session = worker.open([source], ["f"])
    assert Submission(session).f() == 1
    started = list(watch.descendants(worker.warm_pid))
    assert len(started) >= 5
    session.close()
    assert [p for p in started if p.is_running() and p.status() != psutil.STATUS_ZOMBIE] == []
    assert list(watch.descendants(worker.warm_pid)) == []


# -- the network, and objects of the system
# ------------------------------------------------------------------------------


@in_a_sandbox
def test_there_is_no_network(run: Run, tmp_path: Path) -> None:
    path, name = str(tmp_path / "socket"), f"\0course-test-{os.getpid()}"
    with (
        socket.create_server(("127.0.0.1", 0)) as tcp,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp,
        socket.socket(socket.AF_UNIX) as file,
        socket.socket(socket.AF_UNIX) as abstract,
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as datagram,
    ):
        udp.bind(("127.0.0.1", 0))
        file.bind(path)
        abstract.bind(name)
        datagram.bind(name + "-d")
        for listening in (file, abstract):
            listening.listen()
        source = (
            "import socket\n"
            "def f(tcp, udp, path, name):\n"
            "    pair = socket.socketpair()\n"  # event loops need one: it leads nowhere
            "    ways = dict(tcp=lambda: socket.create_connection(('127.0.0.1', tcp), 1), listen=lambda: socket.create_server(('', 0)),\n"
            "        udp=lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', udp)),\n"
            "        path=lambda: socket.socket(socket.AF_UNIX).connect(path), abstract=lambda: socket.socket(socket.AF_UNIX).connect(name),\n"
            "        datagram=lambda: socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)[0].sendto(b'x', name + '-d'),\n"
            "        on=lambda: pair[0].connect(name), raw=lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1),\n"
            "        names=lambda: socket.getaddrinfo('example.org', 443), netlink=lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW))\n"
            "    return passed(ways)"
        )
        assert run(TRY + source).f(tcp.getsockname()[1], udp.getsockname()[1], path, name) == []
        for listening in (tcp, udp, file, abstract, datagram):
            listening.setblocking(False)
            with pytest.raises(BlockingIOError):
                listening.recv(1) if listening in (udp, datagram) else listening.accept()


_OBJECTS = """
import ctypes, os
libc = ctypes.CDLL(None)
NAME, KEY = b"/course-left", 0x6c656674
def leave_something():
    libc.shmget(KEY, 4096, 0o1666), libc.msgget(KEY, 0o1666), libc.semget(KEY, 1, 0o1666)
    libc.mq_open(NAME, 0o102, 0o666, None)
    libc.syscall(ADD_KEY, b"user", NAME, b"answer", 6, -4)
    for place in ("/dev/shm", "/tmp", "/var/tmp", "/run"):
        try: open(place + "/course-left", "w").close()
        except OSError: pass
    return 1
def found():
    where = [name for name, object in (("shm", libc.shmget(KEY, 0, 0)), ("msg", libc.msgget(KEY, 0)), ("sem", libc.semget(KEY, 0, 0)),
        ("mq", libc.mq_open(NAME, 0)), ("key", libc.syscall(ADD_KEY + 1, b"user", NAME, None, 0))) if object >= 0]
    return where + [p for p in ("/dev/shm", "/tmp", "/var/tmp", "/run") if os.path.exists(p + "/course-left")]
""".replace("ADD_KEY", "248" if os.uname().machine == "x86_64" else "217")


@in_a_sandbox
def test_nothing_of_the_systems_objects_is_left_for_the_next(run: Run, worker: Worker) -> None:
    first = worker.open([_OBJECTS], ["leave_something", "found"])
    assert Submission(first).leave_something() == 1
    if worker.layer.name == "jail":
        assert {"shm", "msg", "sem"} <= set(Submission(first).found()), "its own namespace has them"
    libc = ctypes.CDLL(None)
    assert libc.shmget(0x6C656674, 0, 0) < 0 and libc.msgget(0x6C656674, 0) < 0, (
        "made outside the sandbox"
    )
    first.close()
    assert run(_OBJECTS, graded=["found"]).found() == []


# -- limits
# ------------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("patient")
def test_there_are_no_more_processes_than_allowed(run: Run, worker: Worker) -> None:
    source = (
        "import os, time\n"
        "def f():\n"
        "    for n in range(400):\n"
        "        try:\n            if os.fork() == 0:\n                time.sleep(60)\n"
        "        except OSError: break\n"
        f"    if n > {isolation.PROCESSES}: time.sleep(50)\n"  # to be ended meanwhile
        "    return n"
    )
    try:
        assert run(source).f() <= isolation.PROCESSES
    except WorkerLost as lost:
        assert "more than 48 processes" in str(lost)


def test_one_that_is_closed_leaves_its_neighbour_watched(worker: Worker) -> None:
    first, second = (worker.open(["x = 1"], []) for _ in range(2))
    second.close()  # so far both have done the same
    assert first.watched in watch.running and second.watched not in watch.running
    first.close()
    assert watch.running == []


# what is limited -> the setting of the layers and its value, the code, how it ends
LIMITS: dict[str, tuple[str, object, str, str]] = {
    "memory of all processes": (
        "WORK_BYTES",
        400 << 20,
        "import os, time\n"
        "def f():\n"
        "    for n in range(6):\n"
        "        if os.fork() == 0:\n"
        "            held = b'x' * (150 << 20)\n"  # each well below the limit
        "            time.sleep(60)\n"
        "    time.sleep(50)",
        "0.4 GB of memory over all its processes",
    ),
    "processor time of all processes": (
        "CPU_SECONDS",
        1,
        "import os\ndef f():\n    os.fork(); os.fork()\n    while True: pass",
        "1 seconds of processor time",
    ),
    # by the kernel: process 1 of a namespace ignores the polite signal
    "processor time of one process": (
        "LIMITS",
        {**isolation.LIMITS, "CPU": 1},
        "import signal\ndef f():\n    signal.signal(signal.SIGXCPU, signal.SIG_IGN)\n    while True: pass",
        "ended its process",
    ),
}


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("limited", LIMITS)
def test_what_takes_too_much_is_ended(
    run: Run, limited: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, value, source, said = LIMITS[limited]
    monkeypatch.setattr(isolation, name, value)
    with pytest.raises(WorkerLost, match=said):
        run(source).f()


# -- the grader
# --------------------------------------------------------------------------------------------------------

_GRADER = """
import json, os, sys, time
from concurrent.futures import ThreadPoolExecutor
from course_lib.grading import Submission
from course_lib.grading.sandbox import cgroup
from course_lib.grading.sandbox import layers as isolation
from course_lib.grading.sandbox import usage as watch
from course_lib.grading.sandbox.workers import Worker
kept = []
def start(name):
    worker = Worker(isolation.Isolation(name))
    session = worker.open([sys.argv[1]], ["f"])
    Submission(session).f()
    kept.append(session)
    return worker.folder, [worker.process.pid, worker.warm_pid, *(p.pid for p in watch.descendants(worker.warm_pid))]
print(json.dumps(list(ThreadPoolExecutor().map(start, sys.argv[2:]))), flush=True)
time.sleep(600)
"""


@pytest.mark.skipif(
    not restrictions.LINUX, reason="elsewhere nobody adopts a process that lost its parent"
)
def test_a_killed_grader_leaves_nothing_running() -> None:
    busy = (
        "import os, time, threading\n"
        "def f():\n"
        "    if os.fork() == 0:\n"
        "        os.setsid()\n"
        "        if os.fork() == 0:\n"
        "            while True: time.sleep(1)\n"
        "        os._exit(0)\n"
        "    def spin():\n"
        "        while True: pass\n"
        "    threading.Thread(target=spin, daemon=True).start()\n"
        "    time.sleep(0.2)\n"
    )
    layers = [name for name in isolation.LAYERS if not isolation.try_layer(name)]
    grader = subprocess.Popen(
        [sys.executable, "-c", _GRADER, busy, *layers], stdout=subprocess.PIPE, text=True
    )
    try:
        assert grader.stdout is not None
        started = json.loads(grader.stdout.readline())
        running = [
            psutil.Process(pid)
            for _, pids in started
            for pid in set(pids)
            if psutil.pid_exists(pid)
        ]
        assert len(started) == len(layers) and len(running) >= 3 * len(layers)
    finally:
        grader.send_signal(signal.SIGKILL)
        grader.wait()
    assert psutil.wait_procs(running, timeout=30)[1] == []
    assert [folder for folder, _ in started if folder and os.path.exists(folder)] == []


def test_a_warm_process_that_has_gone_costs_nobody_anything(worker: Worker) -> None:
    if worker.layer != isolation.best():
        pytest.skip("the same for every layer")
    session = worker.open(["def f(): return 1"], ["f"])
    session.close()
    psutil.Process(worker.warm_pid).kill()
    session = worker.open(["def f(): return 2"], ["f"])
    assert Submission(session).f() == 2
    session.close()


def test_a_control_group_goes_with_its_worker_and_after_a_killed_grader_with_the_next(
    tmp_path: Path,
) -> None:
    group = cgroup.make(5)
    if group is None:
        pytest.skip(
            "this user cannot make control groups: RLIMIT_NPROC counts an ordinary user's processes"
        )
    try:
        held = f"echo $$ >{group}/cgroup.procs; for n in 1 2 3 4 5 6 7 8; do sleep 0.5 & done; wait"
        said = subprocess.run(
            ["/bin/sh", "-c", held], check=False, capture_output=True, text=True
        ).stderr
        assert "fork" in said.lower(), "the ninth process was allowed"
    finally:
        cgroup.remove(group)
    assert not group.exists()
    with subprocess.Popen(["true"]) as gone:
        pass
    left = group.parent / f"course-{gone.pid}-00000000"
    left.mkdir()
    cgroup.remove(cgroup.make(5))
    assert not left.exists()


# -- choosing
# ----------------------------------------------------------------------------------------------------------


def _here(name: str) -> None:
    if problem := isolation.try_layer(name):
        pytest.skip(f"no {name} here: {problem}")


def test_the_probe_notices_a_jail_that_shows_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    _here("jail")
    monkeypatch.setattr(isolation, "hidden_places", list)
    monkeypatch.setattr(isolation, "SYSTEM", (*isolation.SYSTEM, str(COURSE / "tests")))
    found = isolation.run_probe(isolation.jail_command(), "jail")
    assert "could read" in found and "tests" in found


def test_the_probe_notices_landlock_rules_that_show_too_much(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _here("landlock")
    monkeypatch.setattr(isolation, "readable", lambda: ["/"])
    monkeypatch.setattr(isolation, "shown_places", lambda: ["/"])
    found = isolation.run_probe([], "landlock")
    assert "could read" in found and "/proc" in found


def test_landlock_shows_no_copy_of_the_package_inside_the_interpreters_folder(
    tmp_path: Path,
) -> None:
    for name in ("lib/a/one.py", "lib/a/hidden/x.py", "lib/b.py", "bin/python"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    shown = {
        str(p.relative_to(tmp_path))
        for p in isolation.paths_without(tmp_path, [tmp_path / "lib/a/hidden"])
    }
    assert shown == {"bin", "lib/b.py", "lib/a/one.py"}
    assert (
        list(isolation.paths_without(tmp_path / "lib/a/hidden", [tmp_path / "lib/a/hidden"])) == []
    )


@pytest.mark.parametrize("layer", ["jail", "landlock"])
def test_without_libseccomp_there_is_no_sandbox(
    layer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(name: str | None, **more: bool) -> ctypes.CDLL:
        raise OSError(name)

    monkeypatch.setattr(restrictions.ctypes, "CDLL", missing)
    with pytest.raises(OSError, match="apt install libseccomp2"):
        restrictions.Restrictions(layer, "/nowhere")


def test_where_no_sandbox_works_the_best_is_plain_and_asking_for_more_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    problems = {
        "jail": "bubblewrap is not installed",
        "landlock": "this kernel has no Landlock",
        "plain": "",
    }
    monkeypatch.setattr(isolation, "try_layer", problems.__getitem__)
    assert isolation.best() == isolation.Isolation("plain")
    with pytest.raises(
        RuntimeError,
        match=r"(?s)jail: bubblewrap is not installed.*landlock: this kernel has no Landlock",
    ):
        isolation.required()
    problems["landlock"] = ""
    assert isolation.required() == isolation.best() == isolation.Isolation("landlock")
    layers = [isolation.Isolation(name) for name in isolation.LAYERS]
    assert [layer.is_sandbox for layer in layers] == [True, True, False]
    assert all(layer.sentence for layer in layers)


def test_doctor_shows_every_layer_with_reason_and_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    from course_lib import doctor

    problems = {
        "jail": "bubblewrap is not installed (Debian, Ubuntu: apt install bubblewrap)",
        "landlock": "",
        "plain": "",
    }
    for module in (isolation, sandbox):
        monkeypatch.setattr(module, "try_layer", problems.__getitem__)
    found = {what: (state, remedy) for what, state, remedy in doctor._isolation()}
    assert "apt install bubblewrap" in found["grading: jail"][1]
    assert found["grading: landlock"] == ("works", "")
    assert found["grading here"][0].startswith("landlock: a sandbox")
