"""What ``check`` shows in a real Jupyter kernel, ``course grade`` gives: odd but legal ways to
write an answer, each tried in both.

One kernel serves all ways, cleared in between. Where the two differ for a reason, students read it
in their README: :data:`APART`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from jupyter_client.manager import start_new_kernel
from small_lab import RIGHT, claim, load_lab

from course_lib.grading import sandbox
from course_lib.grading.marking.lab import Task
from course_lib.grading.sandbox import Worker

MAGNITUDE, THRESHOLD = RIGHT.strip().rsplit("\n", 1)
SEED = 11


RULES = Path(__file__).parents[2] / "course_lib" / "authoring" / "student_readme.md"


@dataclass(frozen=True)
class Way:
    """A way to write an answer.

    Attributes:
        cells: after ``import torch`` and a right answer of 1.1. files: own modules beside the
            notebook. points: of 3, that check and grade both give.
    """

    cells: tuple[str, ...]
    files: dict[str, str] = field(default_factory=dict)
    points: float = 3


def way(*cells: str, points: float = 3, **files: str) -> Way:
    return Way(cells, {f"{name}.py": text for name, text in files.items()}, points)


BODY = "    return weight.abs() >= a"
TABLE = "table = []\nfor i in range(3): table.append(i == 0)\ndef grouped_mask(weight, a): return weight.abs() >= a if table[0] else None"

WAYS = {
    # --- magics
    "%time in a function": way(
        "def grouped_mask(weight, a):\n    r = %time weight.abs() >= a\n    return r"
    ),
    "%time alone in a function": way(
        f"def grouped_mask(weight, a):\n    %time weight.abs()\n{BODY}"
    ),
    "%timeit in a function": way(
        f"def grouped_mask(weight, a):\n    %timeit -n1 -r1 weight.abs()\n{BODY}"
    ),
    "%prun in a cell": way(f"def helper(): return 0\n%prun -q helper()\n{THRESHOLD}"),
    "!cmd in a function": way(f"def grouped_mask(weight, a):\n    !echo hello\n{BODY}"),
    "x = !cmd in a function": way(
        f"def grouped_mask(weight, a):\n    lines = !true\n    assert list(lines) == []\n{BODY}"
    ),
    "x = !cmd in a cell": way(f"lines = !true\ndef grouped_mask(weight, a):\n    assert not lines\n{BODY}"),
    "%%time": way(f"%%time\n{THRESHOLD}"),
    "%%capture": way(f"%%capture\n{THRESHOLD}\nprint('much')"),
    "%%prun": way(f"%%prun -q\n{THRESHOLD}"),
    "two cell magics": way(f"%%time\n%%capture\n{THRESHOLD}"),
    "two cell magics and a line magic": way(f"%%capture\n%%time\n%matplotlib inline\n{THRESHOLD}"),
    "a name from %time": way("%time small = torch.zeros(()) + 0", "def grouped_mask(weight, a):\n    return weight.abs() + small >= a"),
    "a name from %%timeit does not stay": way(f"%%timeit -n1 -r1\n{THRESHOLD}", points=2),
    "%matplotlib, %load_ext, %autoreload, %config": way(
        "%matplotlib inline\n%load_ext autoreload\n%autoreload 2\n%config InlineBackend.figure_format = 'svg'", THRESHOLD
    ),
    "%matplotlib in a function": way(f"def grouped_mask(weight, a):\n    %matplotlib inline\n{BODY}"),
    "%timeit -o in a function": way(f"def grouped_mask(weight, a):\n    r = %timeit -o -q -n1 -r1 weight.abs()\n    assert r.average >= 0\n{BODY}"),
    "tqdm": way(f"from tqdm.auto import tqdm\ndef grouped_mask(weight, a):\n    for _ in tqdm(range(3)): pass\n{BODY}"),
    "an answer's memory, used further down": way(f"KNOWN = {{}}\ndef grouped_mask(weight, a):\n    KNOWN[a] = 1\n{BODY}", "print(grouped_mask(torch.ones(1), 0.5))\nassert KNOWN"),
    "%env": way("%env COURSE_PARITY=1", f"import os\ndef grouped_mask(weight, a):\n    assert os.environ['COURSE_PARITY'] == '1'\n{BODY}"),
    "%%bash, %%html, %%javascript": way("%%bash\ntrue", "%%html\n<b>x</b>", "%%javascript\n1", THRESHOLD),
    "!pip install": way("!true pip install something", THRESHOLD),
    "?help": way("torch.abs?\n?torch.abs", THRESHOLD),
    "get_ipython() by the student": way(
        f"ip = get_ipython()\ndef grouped_mask(weight, a):\n    ip.run_line_magic('pwd', '')\n    get_ipython().user_ns['seen'] = 1\n    assert seen\n{BODY}"
    ),
    "from IPython import get_ipython": way(
        f"from IPython import get_ipython\ndef grouped_mask(weight, a):\n    assert get_ipython() is not None\n{BODY}"
    ),
    "display": way(f"def grouped_mask(weight, a):\n    display(weight)\n{BODY}"),
    "a prompt that was copied": way(f"In [1]: {THRESHOLD}"),
    "a prompt of Python's": way(">>> def grouped_mask(weight, a):\n...     return weight.abs() >= a"),
    "a trailing semicolon": way(f"{THRESHOLD};"),
    "a cell that is indented": way("    def grouped_mask(weight, a):\n        return weight.abs() >= a"),
    # --- own files
    "an own file": way("from helpers import grouped_mask", helpers=THRESHOLD),
    "an own file, all of it": way("from helpers import *", helpers=f"import torch\n{THRESHOLD}"),
    "an own file by its name": way("import helpers as h\ndef grouped_mask(weight, a): return h.grouped_mask(weight, a)", helpers=THRESHOLD),
    "an own file that imports another": way("from helpers import grouped_mask", helpers="from inner import *", inner=THRESHOLD),
    "an own package": Way(("from tools.masks import grouped_mask",), {"tools/__init__.py": "", "tools/masks.py": THRESHOLD}),
    "an own folder on the path": Way(("import sys\nsys.path.append('src')", "from inside import grouped_mask"), {"src/inside.py": THRESHOLD}),
    "an own file that is not there": way("from helpers_lost import grouped_mask", points=2),
    "an own file that borrows": way("from helpers import grouped_mask", helpers="from course_lib.pruning import weights\ndef grouped_mask(weight, a): return weights.smallest(weight.abs(), 0.0)", points=2),
    "an own file with a question that needs another": way("from helpers import grouped_mask", helpers="def grouped_mask(weight, a): return magnitude(weight) >= a\ndef magnitude(w): return w.abs()"),
    "%%writefile": way(f"%%writefile written.py\n{THRESHOLD}", "from written import grouped_mask"),
    "%%writefile, more of it later": way("%%writefile written.py\nimport torch", f"%%writefile -a written.py\n{THRESHOLD}", "from written import *"),
    "a file that is loaded again": way("%%writefile written.py\ngrouped_mask = None", "import written", f"%%writefile written.py\n{THRESHOLD}\nlonger = 1", "from importlib import reload\nreload(written)\ngrouped_mask = written.grouped_mask"),
    "try: an own file": way(f"try:\n    from helpers_lost import grouped_mask\nexcept ImportError:\n    {THRESHOLD}"),
    # --- Python
    "lambda": way("grouped_mask = lambda weight, a: weight.abs() >= a"),
    "partial": way("from functools import partial\ndef mask(kind, weight, a): return weight.abs() >= a\ngrouped_mask = partial(mask, 'x')"),
    "an object that is called": way("class Mask:\n    def __call__(self, weight, a): return weight.abs() >= a\ngrouped_mask = Mask()"),
    "a decorator": way(f"import functools\ndef loud(f):\n    @functools.wraps(f)\n    def inner(*args): return f(*args)\n    return inner\n@loud\n{THRESHOLD}"),
    "lru_cache": way(f"from functools import lru_cache\n@lru_cache\n{THRESHOLD}"),
    "a closure": way("def make():\n    def inner(weight, a): return weight.abs() >= a\n    return inner\ngrouped_mask = make()"),
    "if and else": way(f"if torch.cuda.is_available() or True:\n    {THRESHOLD}\nelse:\n    grouped_mask = None"),
    "if __name__": way(f'if __name__ == "__main__":\n    {THRESHOLD}'),
    "__main__": way(f"{THRESHOLD}\nimport __main__\ncopy = __main__.grouped_mask\ngrouped_mask = lambda weight, a: copy(weight, a)"),
    "a try": way(f"try:\n    import numba_that_is_not_there\nexcept ImportError:\n    numba_that_is_not_there = None\n{THRESHOLD}"),
    "a loop that fills a table": way(TABLE),
    "a function that fills a table": way(f"KNOWN = {{}}\ndef note(name): KNOWN[name] = 1\nnote('a')\ndef grouped_mask(weight, a):\n    KNOWN['a']\n{BODY}"),
    "update": way("SETTINGS = dict()\nSETTINGS.update(strict=False)\ndef grouped_mask(weight, a): return weight.abs() > a if SETTINGS['strict'] else weight.abs() >= a"),
    "global": way("def prepare():\n    global small\n    small = 0\nprepare()\ndef grouped_mask(weight, a): return weight.abs() + small >= a"),
    "written twice": way("def grouped_mask(weight, a): return None", THRESHOLD),
    "written twice, the last is wrong": way(THRESHOLD, "def grouped_mask(weight, a): return weight.abs() > a", points=2),
    "del": way(f"{THRESHOLD}\ndel grouped_mask", points=2),
    "annotated": way("from collections.abc import Callable\ngrouped_mask: Callable = lambda weight, a: weight.abs() >= a"),
    "annotations that are looked at": way(f"import inspect\ndef grouped_mask(weight: torch.Tensor, a: float):\n    kind = inspect.signature(grouped_mask).parameters['weight'].annotation\n    assert isinstance(weight, kind)\n{BODY}"),
    "walrus": way("(limit := lambda a: a)\ndef grouped_mask(weight, a): return (size := weight.abs()) >= limit(a)"),
    "match": way("def grouped_mask(weight, a):\n    match weight.ndim:\n        case 0: return None\n        case _: return weight.abs() >= a"),
    "match at the top": way(f"match 1:\n    case 1:\n        {THRESHOLD}"),
    "a generator": way("def sizes(w):\n    for x in w.flatten(): yield x.abs()\ndef grouped_mask(weight, a): return torch.tensor([bool(x >= a) for x in sizes(weight)]).view_as(weight)"),
    "a dataclass": way("from dataclasses import dataclass, field\n@dataclass\nclass Rule:\n    a: float\n    more: list = field(default_factory=list)\n    def __call__(self, w): return w.abs() >= self.a\ndef grouped_mask(weight, a): return Rule(a)(weight)"),
    "letters of other alphabets": way("def größe(gewicht): return gewicht.abs()\ndef grouped_mask(weight, a): return größe(weight) >= a"),
    "in a with": way(f"with torch.no_grad():\n    {THRESHOLD}"),
    "in a loop": way(f"for k in range(2):\n    {THRESHOLD}"),
    "numpy in between": way("import numpy as np\ndef grouped_mask(weight, a): return torch.from_numpy(np.abs(weight.numpy()) >= a)"),
    "no_grad": way(f"@torch.no_grad()\n{THRESHOLD}"),
    "gradients switched off": way("torch.set_grad_enabled(False)", f"def grouped_mask(weight, a):\n    assert not torch.is_grad_enabled()\n{BODY}"),
    "float64 by default": way("torch.set_default_dtype(torch.float64)", "def grouped_mask(weight, a): return weight.abs() >= torch.tensor(a)"),
    "a seed": way("torch.manual_seed(3)\nnoise = torch.zeros(1) * torch.rand(1)", "def grouped_mask(weight, a): return weight.abs() + noise >= a"),
    "printing": way(f"print('defined')\ndef grouped_mask(weight, a):\n    print(weight)\n{BODY}"),
    "warnings are errors": way("import warnings\nwarnings.simplefilter('error')", "def grouped_mask(weight, a):\n    try: warnings.warn('x')\n    except UserWarning: return weight.abs() >= a"),
    "recursion": way("import sys\nsys.setrecursionlimit(5000)", f"def deep(n): return n and deep(n - 1)\ndef grouped_mask(weight, a):\n    deep(3000)\n{BODY}"),
    "matplotlib inside": way(f"import matplotlib.pyplot as plt\ndef grouped_mask(weight, a):\n    plt.figure(); plt.plot([1, 2]); plt.show(); plt.close()\n{BODY}"),
    "threads": way("from concurrent.futures import ThreadPoolExecutor\ndef grouped_mask(weight, a):\n    with ThreadPoolExecutor(2) as pool: return pool.submit(lambda: weight.abs() >= a).result()"),
    "logging": way(f"import logging\nlogging.basicConfig(level=logging.INFO)\nlog = logging.getLogger('mine')\ndef grouped_mask(weight, a):\n    log.info('called')\n{BODY}"),
    "tempfile": way(f"import tempfile\ndef grouped_mask(weight, a):\n    with tempfile.TemporaryFile() as f: f.write(b'x')\n    with tempfile.NamedTemporaryFile('w') as f: f.write('x')\n{BODY}"),
    "a file in the folder": way("def grouped_mask(weight, a):\n    torch.save(weight, 'w.pt')\n    return torch.load('w.pt').abs() >= a"),
    "a folder made first": way("import os\nos.makedirs('out', exist_ok=True)", f"def grouped_mask(weight, a):\n    open('out/x', 'w').close()\n{BODY}"),
    "pickle": way(f"import pickle\nclass Rule:\n    pass\ndef grouped_mask(weight, a):\n    pickle.loads(pickle.dumps(Rule()))\n{BODY}"),
    "torch.compile": way(f"@torch.compile(backend='eager')\n{THRESHOLD}"),
    "await at the top": way("async def zero(): return 0\nsmall = await zero()\ndef grouped_mask(weight, a): return weight.abs() + small >= a"),
    "asynchronous": way("async def grouped_mask(weight, a): return weight.abs() >= a", points=2),
    "a future import": way("from __future__ import annotations", "def grouped_mask(weight: Nothing, a: Never) -> None: return weight.abs() >= a"),
    "star": way("from math import *\ndef grouped_mask(weight, a): return weight.abs() >= floor(a)"),
    "monkeypatched, to no end": way(f"import math\nmath.course_parity = 1\ndef grouped_mask(weight, a):\n    math.course_parity\n{BODY}"),
    "an error further up": way("1 / 0\nx = 3", THRESHOLD),
    "a cell that is no Python": way("this is no Python", THRESHOLD),
}  # fmt: skip
# a way, the points that grade gives, and the words by which the README says why
APART = {
    "run_cell": (way(f"get_ipython().run_cell({THRESHOLD!r})"), 2, "made by `exec`, `globals()` or `run_cell`"),
    "a file that a cell writes": (way(f"with open('written.py', 'w') as f:\n    f.write({THRESHOLD!r})", "import written\ngrouped_mask = written.grouped_mask"), 2, "a file that a cell writes with `open`"),
    "a file that is loaded again by itself": (way("%load_ext autoreload\n%autoreload 2", "%%writefile again.py\ngrouped_mask = None", "import again", f"%%writefile again.py\n{THRESHOLD}\nlonger = 1", "grouped_mask = again.grouped_mask"), 2, "`%run` and `%autoreload` have no effect"),
    "%run": (way("%run helpers.py", helpers=THRESHOLD), 2, "`%run` and `%autoreload` have no effect"),
    "%run of a written file": (way(f"%%writefile written.py\n{THRESHOLD}", "%run written"), 2, "`%run` and `%autoreload` have no effect"),
    "exec": (way(f"exec({THRESHOLD!r})"), 2, "made by `exec`, `globals()` or `run_cell`"),
    "exec of a text with a name": (way(f"source = '\\n'.join([{THRESHOLD!r}])\nexec(source)"), 2, "made by `exec`, `globals()` or `run_cell`"),
    "globals()": (way("globals()['grouped_mask'] = lambda weight, a: weight.abs() >= a"), 2, "made by `exec`, `globals()` or `run_cell`"),
    "a shell command's output": (
        way(
            "ones = !echo 1\ndef grouped_mask(weight, a): return weight.abs() >= a * int(ones[0])"
        ),
        2,
        "`files = !ls` gives an empty list",
    ),
    "what was captured": (
        way(
            "%%capture out\nprint('x')",
            "def grouped_mask(weight, a): return weight.abs() >= a if out.stdout else None",
        ),
        2,
        "does not bind `out`",
    ),
    "a file that was saved": (
        way("torch.save(1, 'one.pt')", "one = torch.load('one.pt')", "def grouped_mask(weight, a): return weight.abs() >= a * one"),
        2,
        "Data and models that you saved yourself are not there",
    ),
}  # fmt: skip
# of each kind one, in the short length
SAMPLE = {
    "%time in a function",
    "x = !cmd in a function",
    "two cell magics and a line magic",
    "an own file that imports another",
    "%%writefile",
    "a loop that fills a table",
}


CLEAR = """
import sys, warnings, os, torch, __future__
from course_lib.grading import check as _check

def _clear(folder, before=(set(sys.modules), list(sys.path), dict(os.environ), list(warnings.filters))):
    import __future__, os, sys, warnings, torch
    modules, path, environment, filters = before
    for name, module in list(sys.modules.items()):
        if name not in modules and "pytest" in (getattr(module, "__file__", None) or ""):
            del sys.modules[name]
    sys.path[:], warnings.filters[:] = path, filters
    os.environ.clear(), os.environ.update(environment)
    os.chdir(folder)
    torch.set_default_dtype(torch.float32)
    torch.set_grad_enabled(True)
    sys.setrecursionlimit(3000)
    sys.path_importer_cache.clear()
    get_ipython().compile.flags &= ~__future__.annotations.compiler_flag
    kept = ("get_ipython", "exit", "quit", "open", "In", "Out")
    for name in [n for n in globals() if n[0] != "_" and n not in kept]:
        del globals()[name]
"""


@pytest.fixture(scope="module")
def course(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A course whose lab 01 is the small one."""
    root = tmp_path_factory.mktemp("course")
    claim(root / "tests" / "labs")
    return root


@pytest.fixture(scope="module")
def checked(course: Path) -> Iterator[Callable[[Way, Path], float]]:
    """From a way to the visible points that ``check`` shows in a Jupyter kernel."""
    manager, client = start_new_kernel(
        startup_timeout=120, env={**os.environ, "COURSE_ROOT": str(course)}
    )
    said: list[str] = []

    def hear(message: dict) -> None:
        content = message["content"]
        said.extend(content.get("traceback", []))
        said.append(content.get("text", "") + content.get("data", {}).get("text/plain", ""))

    def run(cell: str) -> str:
        said.clear()
        client.execute_interactive(cell, timeout=120, output_hook=hear, allow_stdin=False)
        return "".join(said)

    run(CLEAR)

    def points(way: Way, folder: Path) -> float:
        for name, text in way.files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text)
        problem = run(f"_clear({str(folder)!r})").replace(f"_clear({str(folder)!r})", "")
        assert not problem.strip()
        for cell in ("import torch", MAGNITUDE, *way.cells):
            run(cell)
        shown = "".join(run(f"_check({question!r})") for question in ("1.1", "1.2"))
        found = re.findall(r"1\.\d: ([\d.]+) of", shown)
        assert len(found) == 2, shown
        return sum(map(float, found))

    yield points
    client.stop_channels()
    manager.shutdown_kernel(now=True)


@pytest.fixture(scope="module")
def graded(course: Path) -> Iterator[Callable[[Way], float]]:
    """From a way to the points that grading gives, in the best sandbox that is here."""
    worker = Worker(sandbox.best())
    tests = course / "tests" / "labs" / "lab01"
    lab = load_lab(tests, SEED)

    def points(way: Way) -> float:
        files = tuple((name, text.encode()) for name, text in way.files.items())
        marked = lab.mark(Task("x", ("import torch", MAGNITUDE, *way.cells), files=files), worker)
        said = [o.message for o in marked.outcomes if o.message]
        print(marked.status, said, marked.notes)  # shown where the test fails
        return sum(o.earned for o in marked.outcomes)

    yield points
    worker.stop()


def marked_long(name: str) -> pytest.param:
    return pytest.param(name, marks=() if name in SAMPLE else pytest.mark.long)


@pytest.mark.parametrize("name", map(marked_long, WAYS))
def test_what_check_shows_is_what_grade_gives(
    name: str,
    checked: Callable[[Way, Path], float],
    graded: Callable[[Way], float],
    tmp_path: Path,
) -> None:
    way = WAYS[name]
    assert (checked(way, tmp_path), graded(way)) == (way.points, way.points)


@pytest.mark.long
@pytest.mark.parametrize("name", APART)
def test_where_the_two_differ_students_are_told(
    name: str,
    checked: Callable[[Way, Path], float],
    graded: Callable[[Way], float],
    tmp_path: Path,
) -> None:
    way, points, why = APART[name]
    assert (checked(way, tmp_path), graded(way)) == (way.points, points)
    assert why in " ".join(RULES.read_text(encoding="utf-8").split())
