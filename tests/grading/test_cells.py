"""Which statements of a notebook are run when it is graded."""

from __future__ import annotations

import ast

import pytest

from course_lib.student_code import cells


def names(*sources: str, graded: tuple[str, ...] = ()) -> dict:
    return cells.run(sources, graded).namespace


def test_definitions_run_and_experiments_do_not() -> None:
    got = names(
        "import math\nN = 3\nW = [1, 2]\ndef f(x): return x\nclass A: pass",
        "trained = f(1)\nprint('hello')\nfor i in range(3): pass",
    )
    assert {"math", "N", "W", "f", "A"} <= got.keys()
    assert not {"trained", "i"} & got.keys()


PLACEHOLDER = (
    'def f():\n    """Doc."""\n    raise NotImplementedError("1.1 f: write this function")'
)
TIMED = (
    "def f(x):\n    y = %time x + 1\n    %time --no-raise-error g(y)\n    return y\ndef g(y): pass"
)
FUTURE = "from __future__ import annotations"
# what runs: cells, and what is then true of the names, where f is graded; "rows" and "i"
# would be computed by what is not needed
NEEDED = {
    "a table, a helper, an import": (
        ["import math\ntable = [math.sqrt(i) for i in range(9)]\nother = 1 / 0\ndef f(i): return helper(i)\ndef helper(i): return table[i]"],
        "f(4) == 2",
    ),
    "what a needed name needs": (["a = int(3)\nb = a + 1\nf = lambda: b"], "f() == 4"),
    "an attribute": (["def f(): return f.k\nf.k = 7"], "f() == 7"),
    "the value of a default": (["n = int('4')\ndef f(k=n): return k"], "f() == 4"),
    "the last of two answers": (["def f(): return 1", "def f(): return 2"], "f() == 2"),
    "an answer before a copied placeholder": (["def f(): return 1", PLACEHOLDER], "f() == 1"),
    "an answer after it": ([PLACEHOLDER, "def f(): return 1"], "f() == 1"),
    "a value before one": (["f = 'b'", "f = ..."], "f == 'b'"),
    "a placeholder alone": ([PLACEHOLDER], "callable(f)"),
    "not a function's own variables": (
        ["def f():\n    rows = [i for i in range(3)]\n    return rows", "rows = int('7')", "i = int('7')"],
        "not {'rows', 'i'} & globals().keys()",
    ),
    "not what binds a comprehension's variable": (
        ["def f(): return w", "rows = [int(w) for w in '12']"],
        "'rows' not in globals()",
    ),
    "not what has the name of one": (
        ["n = int('7')", "f = [n for n in '12']"],
        "f == ['1', '2'] and 'n' not in globals()",
    ),
    "code inside magics": (
        ["%matplotlib inline\n!echo hi\nx = !ls\nN = 1", "%%time\ndef f(): return N", "%%bash\nrm -rf nothing", "f?"],
        "f() == 1",
    ),
    "magics inside code": ([TIMED], "f(1) == 2"),
    "magics around magics": (
        ["%%time\n%%capture out\n%time k = int('3')\ndef f(): return k"],
        "f() == 3",
    ),
    "not what is timed": (["%%timeit\ndef f(): return 1"], "'f' not in globals()"),
    "annotations": (["def f(x: int): pass"], "f.__annotations__ == {'x': int}"),
    "annotations as texts": ([FUTURE, "def f(x: int): pass"], "f.__annotations__ == {'x': 'int'}"),
    "not what only an annotation needs": (["Kind = list[int]", "def f(x: Kind): pass"], "callable(f)"),
    "cells beside one that is no Python": (["def g(: pass", "def f(): return 1"], "f() == 1"),
    "cells beside one too deep to parse": (
        ["x = " + "(" * 5000 + ")" * 5000, "def f(): return 1"],
        "f() == 1",
    ),
    "cells beside one too deep to compile": (
        ["x = " + "+".join("1" * 20_000), "y = x", "def f(): return 1"],
        "f() == 1",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", NEEDED)
def test_what_is_needed_runs_and_nothing_else(case: str) -> None:
    sources, claim = NEEDED[case]
    done = cells.run(sources, ["f", "y"])
    assert eval(claim, done.namespace)
    wrong = "beside one" in case or "inside magics" in case
    if "too deep to compile" in case:  # not for Python 3.14
        wrong = not compiles(sources[0])
    assert bool(done.problems) == wrong
    assert not (wrong and case.startswith("cells beside")) or "cell 1" in done.problems[0]


def compiles(source: str) -> bool:
    try:
        compile(source, "a cell", "exec")
    except (SyntaxError, RecursionError, MemoryError):
        return False
    return True


def test_a_statement_that_raises_costs_only_itself() -> None:
    done = cells.run(
        [
            "import nothing_of_this_name\nimport math",
            "class A(1): pass",
            "raise SystemExit",
            "def g(): return 1",
        ],
        [],
    )
    assert done.namespace["g"]() == 1
    assert "math" in done.namespace
    assert len(done.problems) == 2


@pytest.mark.parametrize(
    "source",
    [
        "table = [f(i) for i in ys if ok[i]]",
        "table = {f(i) for i in ys if ok[i]}",
        "table = {f(i): ok[i] for i in ys}",
        "table = list(f(i) for i in ys if ok[i])",
        "table = [[f(i, j) for j in ok] for i in ys]",
        "table = [(lambda k: f(k, i)) for i in ys if ok]",
        "for table in [f(i) for i in ys]: ok[table]",
        "def table(x): return [f(i, x) for i in ys if ok]",
        "class table: rows = [f(i) for i in ys if ok]",
    ],
)
def test_a_comprehensions_variable_is_not_read(source: str) -> None:
    """Python 3.12's symbol table says so of those that stand outside of functions."""
    (node,) = ast.parse(source).body
    assert cells.scope(node)[1] - {"list", "table"} == {"f", "ys", "ok"}


def test_every_way_to_bind_a_name_is_seen() -> None:
    source = (
        "import a.b, c as d\nfor e, (f, *g) in []: pass\nwith open('x') as h: i = 1\ntry: pass\nexcept E as j: pass\n"
        "match 1:\n    case {'k': k, **l}: pass\n    case [*m]: pass\n[n := o for o in p]\nq.r[s] = t\nif u: v: int = 1\nw += 1\ndef x(y): z = 1"
    )
    bound = set().union(*(cells.scope(node)[0] for node in ast.parse(source).body))
    assert bound == set("adefghijklmnqvwx")


def test_what_a_statement_reads() -> None:
    """Decorators, a neighbour on the same line, an f-string of several lines."""
    source = (
        "é = 'ü'; a = b; c = int(é)\r\n@d\n@e(f)\ndef g(): return h\nclass K(\n    L,\n): m = n\n"
        'o = f"""{p}\r\n{q!r}"""; r = s\n%time t = u\n'
    )
    statements = cells.parse([source], [])
    by = {name: s.reads for s in statements for name in s.binds}
    assert by == {
        "é": set(), "a": {"b"}, "c": {"int", "é"}, "g": {"d", "e", "f", "h"}, "K": {"L", "n"}, "o": {"p", "q"},
        "r": {"s"}, "t": {"u"},
    }  # fmt: skip


def test_what_a_definition_binds_anew_is_not_computed_before() -> None:
    experiments = "def run(k): raise SystemExit\nfor w in run(3): pass\nw = run(4)"
    answer = "import math as w\ndef f(x): return w.floor(x)"
    done = cells.run([experiments, answer], ["f"])
    assert done.namespace["f"](2.5) == 2 and not done.problems
    # but what a statement that runs reads was there when it ran
    early = "n = int('4')\ndef f(k=n): return k + m\nm = n + 1\nn = 0"
    assert names(early, graded=("f",))["f"]() == 9
    base = "import abc\nclass_of = type(3)\nclass A(class_of): pass\nclass_of = None"
    assert names(base, graded=("A",))["A"](2) == 2


def test_what_a_needed_table_is_filled_by_runs() -> None:
    fill = "table = []\nfor i in range(3): table.append(i)\nother = []\nother.append(1 / 0)"
    done = cells.run([fill, "def f(): return table"], ["f"])
    assert done.namespace["f"]() == [0, 1, 2] and not done.problems
    call = "seen = {}\ndef note(k): seen[k] = 1\nnote('a')\ndef f(): return seen"
    assert names(call, graded=("f",))["f"]() == {"a": 1}
    # a module has methods of such names, too, and is not changed by them
    got = names("import bisect\nx = bisect.insort([], 1)\ndef f(): return bisect", graded=("f",))
    assert "x" not in got


def test_settings_run_and_what_only_looks_like_one_does_not() -> None:
    kept = [
        ast.unparse(s.node)
        for s in cells.select(
            cells.parse(
                [
                    "import sys, os\nsys.path.append('x')\nsys.exit()\nos.system('x')\nsys.setrecursionlimit(9)"
                ],
                [],
            ),
            [],
        )
    ]
    assert kept == ["import sys, os", "sys.path.append('x')", "sys.setrecursionlimit(9)"]


def test_shell_commands_are_named_once() -> None:
    done = cells.run(["!pip install x", "def f():\n    !ls\n    return 1", "%%bash\nls"], [])
    (said,) = done.problems
    assert "`!pip install x` (cell 1), `!ls` (cell 2), `%%bash` (cell 3)" in said


def test_a_file_that_is_run_is_named() -> None:
    (said,) = cells.run(["%run tools.py\ndef f(): return 1"], ["f"]).problems
    assert said.startswith("cell 1: `%run tools.py` is not run") and "import the file" in said


def test_why_a_name_is_missing_is_kept() -> None:
    done = cells.run(["from no_such_module_here import f, g", "def g(): return 1"], ["f", "g"])
    assert "no_such_module_here.py was not handed in" in done.lost["f"]
    assert done.namespace["g"]() == 1


def test_a_name_of_a_cell_that_is_no_python_is_lost_not_renamed() -> None:
    result = cells.run(
        ["def csr_encode(x): return x", "def coo_encode(x):\n    return (x"], ["coo_encode"]
    )
    assert result.lost["coo_encode"].startswith("cell 2, line 2 is no Python")


def test_where_a_statement_stands_is_counted_in_the_cell_as_it_is_written() -> None:
    done = cells.run(["%%capture\n%%time\nx = 1\nimport no_such_module_here"], [])
    assert "cell 1, line 4" in done.problems[0]


def test_an_experiment_does_not_run_for_an_answers_memory_or_log() -> None:
    """Nor for a file that is not imported, nor for what no name is missing for."""
    answer = (
        "KNOWN, LOG = {}, []\ndef f(x):\n    LOG.append(x)\n    KNOWN[x] = x\n    return KNOWN[x]"
    )
    experiments = (
        "def train(k): raise SystemExit(k)\nLOG.append(train(1))\nprint(f(train(2)))\n"
        "globals()['net'] = train(3)\nwith open('table.py', 'w') as file: file.write(train(4))"
    )
    done = cells.run([answer, experiments], ["f"])
    assert done.namespace["f"](1) == 1 and not done.problems
