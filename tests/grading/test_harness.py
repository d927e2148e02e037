"""Driving names in the student's own process, as the notebook's check does."""

from __future__ import annotations

import sys

import pytest
import torch
from torch import Tensor, nn

from course_lib.grading import Draw, Proxy, StudentError, Submission
from course_lib.grading.claims.student import InPlace, InProcess
from course_lib.pruning.channels import scale_shift
from course_lib.student_code.plain_data import built


def submission(source: str, forbidden: tuple[str, ...] = ()) -> Submission:
    namespace: dict = {"torch": torch, "nn": nn}
    exec(source, namespace)
    made = Submission(InProcess(namespace))
    made.begin(0, forbidden)
    return made


def test_arguments_are_copies() -> None:
    s = submission("def f(x):\n    x.zero_()\n    return x.sum()")
    x = torch.ones(3)
    s.f(x)
    assert x.tolist() == [1, 1, 1]
    assert s.call("f", x, returning=(0,))[1][0].tolist() == [0, 0, 0]


@pytest.mark.parametrize("all_ran", [True, False])
def test_a_name_that_is_not_there_has_another_name_or_no_cell_yet(all_ran: bool) -> None:
    namespace: dict = {}
    exec("def csr_encode(x): pass\ndef encode_rle(x): pass\ndef coo_decod(x): pass", namespace)
    graded = ["csr_encode", "rle_encode", "coo_decode"]
    s = Submission(InProcess(namespace, graded, all_ran))
    kinds = {}
    for name in (*graded[1:], "answer_0_8a"):
        with pytest.raises(StudentError) as caught:
            s.value(name) if name.startswith("answer") else s.call(name, 1)
        kinds[name] = caught.value.kind, caught.value.message
    absent = "missing" if all_ran else "not run"
    # csr_encode answers another question
    assert kinds["rle_encode"][0] == kinds["answer_0_8a"][0] == absent
    assert "csr_encode" not in kinds["rle_encode"][1]
    assert kinds["coo_decode"] == (
        "missing",
        "coo_decode is not defined, but coo_decod is: is that it, under another name?",
    )


def test_a_proxy_is_called_with_plain_data() -> None:
    s = submission(
        "def f(model, evaluate):\n    return [evaluate(model, 'validation'), evaluate(model, split='test')]"
    )
    seen = []

    def evaluate(model, split):
        seen.append((sorted(model.state), split))
        return len(seen)

    assert s.f(nn.Linear(2, 3), Proxy(evaluate)) == [1, 2]
    assert seen == [(["bias", "weight"], "validation"), (["bias", "weight"], "test")]


def test_a_proxys_refusal_is_the_students_exception() -> None:
    s = submission(
        "def f(g):\n    try:\n        g(1)\n    except ValueError as e:\n        return str(e)"
    )

    def refuse(x):
        raise ValueError("no")

    assert s.f(Proxy(refuse)) == "no"


def test_errors_say_where() -> None:
    s = submission("def f(x):\n    y = x + 1\n    return y / 0")
    with pytest.raises(StudentError) as caught:
        s.f(1)
    assert caught.value.type == "ZeroDivisionError"
    assert caught.value.where == "line 3 of f"


def test_gradients_through_an_autograd_function() -> None:
    s = submission(
        "class Double(torch.autograd.Function):\n"
        "    @staticmethod\n    def forward(ctx, x): return 2 * x\n"
        "    @staticmethod\n    def backward(ctx, g): return 2 * g"
    )
    x = s.put(torch.ones(3), requires_grad=True)
    y = s.call("Double.apply", x, keep=True)
    s.backward(y, torch.arange(3.0))
    assert s.grad(x).tolist() == [0, 2, 4]


def test_a_context_manager_is_left_when_an_exception_passes() -> None:
    s = submission(
        "from contextlib import contextmanager\nlog = []\n"
        "@contextmanager\ndef entered(x):\n    log.append('in')\n    try:\n        yield x\n    finally:\n        log.append('out')\n"
        "def seen(): return log"
    )
    for raising in (False, True):
        with s.within(s.call("entered", 1, keep=True), raising=raising):
            assert s.seen()[-1] == "in"
        assert s.seen()[-1] == "out"


def test_a_class_with_parameters() -> None:
    s = submission(
        "class Scale(nn.Module):\n    def __init__(self, n):\n        super().__init__()\n        self.theta = nn.Parameter(torch.ones(n))\n"
        "    def forward(self, x): return self.theta * x"
    )
    scale = s.Scale(3, keep=True)
    out = s.call("", torch.arange(3.0), on=scale, keep=True)
    s.backward(s.call("sum", on=out, keep=True))
    assert s.get(scale, "theta.grad").tolist() == [0, 1, 2]
    assert list(s.get(scale).state) == ["theta"]


SPARSE = "torch.Tensor.to_sparse_csr"
MAKE = "torch.eye(2).to_sparse_csr()"
# code that calls what it should write, and by another name than its own -> what is forbidden
BORROWING = {
    "from course_lib.pruning.weights.iterative import cubic\ndef f(): return cubic(0.5, 3)": "",
    "from course_lib.pruning.weights import iterative as hidden\ndef f(): return [hidden.cubic][0](0.5, 3)": "",
    "def f():\n    from course_lib.pruning.weights.iterative import cubic\n    try:\n        return cubic(0.5, 3)\n    except Exception:\n        return None": "",
    "import scipy.sparse as sp\ndef f(): return sp.csr_array([[1, 0]]).nnz": "scipy.sparse",
    f"def f(): return {MAKE}.values()": SPARSE,
    "def f(): return getattr(torch.eye(2), 'to_sparse_' + 'csr')().values()": SPARSE,
    "def f(): return next(map(torch.Tensor.to_sparse_csr, [torch.eye(2)])).values()": SPARSE,
    "import operator\ndef f(): return operator.methodcaller('to_sparse_csr')(torch.eye(2)).values()": SPARSE,
    "import functools\ndef f(): return functools.reduce(lambda x, g: g(x), [torch.Tensor.to_sparse_csr], torch.eye(2)).values()": SPARSE,
    "def f(): return torch.ops.aten._to_sparse_csr(torch.eye(2)).values()": SPARSE,
    "def f(): return torch.ops.aten._to_sparse_csr.default(torch.eye(2)).values()": SPARSE,
    "def f(): return dict(zip('a', map(torch.Tensor.to_sparse_csr, [torch.eye(2)])))['a'].values()": SPARSE,
    # behind the watch
    f"def f():\n    try:\n        {MAKE}\n    except BaseException:\n        {MAKE}": SPARSE,
    f"import threading\ndef f():\n    t = threading.Thread(target=lambda: {MAKE})\n    t.start()\n    t.join()": SPARSE,
    f"import sys\ndef f():\n    sys.setprofile(None)\n    {MAKE}": SPARSE,
    f"import sys\ndef f():\n    sys.setprofile(lambda *a: None)\n    {MAKE}\n    raise ValueError": SPARSE,
}


@pytest.mark.parametrize("source", BORROWING)
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_calling_what_the_question_asks_for_is_noticed(source: str) -> None:
    forbidden = tuple(filter(None, [BORROWING[source]]))
    with pytest.raises(StudentError) as caught:
        submission(source, forbidden).f()
    assert caught.value.kind == "library"
    assert forbidden or "cubic" in caught.value.message
    assert sys.getprofile() is None
    if "values()" in source:  # where nothing forbids it, it is right
        assert submission(source).f().tolist() == [1, 1]


def test_a_function_of_the_graders_refuses_too_much() -> None:
    s = submission(
        "def f(g, size, times):\n    for _ in range(times): g(torch.zeros(size))\n    return times\n"
        "def shape(g, *sizes): return g(sizes)"
    )
    assert s.f(Proxy(lambda x: 0), 1 << 20, 3) == 3
    for size, times in ((10_000_000, 1), (8_000_000, 20)):
        with pytest.raises(StudentError, match="try it on something small"):
            s.f(Proxy(lambda x: 0), size, times)
    with pytest.raises(StudentError, match="try it on something small"):
        s.shape(Proxy(torch.zeros), 1 << 20, 1 << 20)


def test_the_rest_of_torch_is_free() -> None:
    s = submission(
        "def f(x): return torch.sort(x, stable=True).indices",
        ("torch.Tensor.to_sparse", "scipy.sparse"),
    )
    assert s.f(torch.tensor([2.0, 1.0])).tolist() == [1, 0]


def test_uses_follows_helpers() -> None:
    s = submission(
        "def a(): pass\ndef helper(): return a()\ndef b(): return [helper() for _ in range(2)]\ndef c(): pass"
    )
    assert s.uses("b", ["a", "c"]) == ["a"]


def test_replaced_names_are_restored() -> None:
    s = submission("def a(): return 1\ndef b(): return a() + 1")
    s.replace({"a": lambda: 10})
    assert s.b() == 11
    s.restore()
    assert s.b() == 2


def net_and_batches() -> tuple[nn.Module, dict]:
    draw = Draw("net")
    return draw.mlp((6, 5, 3)), {
        "x": draw.normal(4, 8, 6),
        "y": draw.labels(32, 3).view(4, 8),
        "lr": 0.1,
    }


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("{'0.weight': torch.ones(5, 6)}, 0, None", "takes bool masks"),
        ("{'0.weight': torch.ones(6) > 0}, 0, None", "takes bool masks"),
        ("{'9.weight': torch.ones(6) > 0}, 0, None", "no parameter of the model"),
        ("{}, 0, 5", "cannot go from 0 to 5"),
        ("{}, 3, 2", "cannot go from 3 to 2"),
    ],
)
def test_training_refuses_what_it_cannot_do(arguments: str, message: str) -> None:
    s = submission(f"def f(build, train): return train(build(), {arguments})")
    net, batches = net_and_batches()
    with pytest.raises(StudentError, match=message):
        s.f(s.helper("build", model=net), s.helper("train", **batches))


@pytest.mark.parametrize("call", ["fill(model, value)", "fill(model=model, value=value)"])
def test_a_function_that_changes_a_module_is_replaced_in_place(call: str) -> None:
    s = submission(
        "def fill(model, value): raise RuntimeError\n"
        f"def f(model, value):\n    before = dict(model.named_parameters())\n    result = {call}\n"
        "    return result, all(p is before[n] for n, p in model.named_parameters())\n"
        "def without_a_module(): return fill(3, 4)"
    )
    model = s.put(nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3)))
    given = []

    def fill(model: nn.Module, value: Tensor) -> None:
        given.append(value)
        for tensor in model.state_dict().values():
            tensor.fill_(float(value))

    s.replace({"fill": InPlace(fill)})
    assert s.f(model, torch.tensor(5.0)) == (None, True)
    assert all(bool((value == 5).all()) for value in s.get(model).state.values())
    with pytest.raises(StudentError, match="the module to change, not a int"):
        s.without_a_module()
    assert len(given) == 1


def test_modules_go_in_and_come_out() -> None:
    s = submission(
        "import copy\n"
        "def half(conv, bn):\n"
        "    new = copy.deepcopy(conv)\n"
        "    new.weight = nn.Parameter(conv.weight.detach()[::2] * bn.running_var[::2].view(-1, 1, 1, 1))\n"
        "    new.out_channels //= 2\n"
        "    return new, bn.training, type(bn)(3, eps=bn.eps)"
    )
    conv = nn.Conv2d(2, 4, (1, 3), stride=2, padding=(0, 1), bias=False, dtype=torch.float64)
    bn = nn.BatchNorm2d(4, eps=0.25).eval()
    bn.running_var[:] = torch.tensor([2.0, 3, 4, 5])
    made, training, fresh = s.half(conv, bn)
    assert training is False
    assert made.layer.type == "Conv2d" and made.layer.settings["padding"] == (0, 1)
    assert not made.layer.settings["bias"] and list(made.state) == ["weight"]
    assert torch.equal(
        made.build().weight, conv.weight[::2] * torch.tensor([2.0, 4]).view(-1, 1, 1, 1)
    )
    assert (
        fresh.layer.type == "BatchNorm2d"
        and fresh.layer.settings["eps"] == 0.25
        and fresh.build().training
    )


def test_the_grader_can_answer_where_a_module_goes_in() -> None:
    s = submission(
        "def line(bn): return None\ndef fold(bn):\n    p, q = line(bn)\n    return p * 2 + q"
    )
    bn = nn.BatchNorm2d(2).eval()
    s.replace({"line": lambda bn: scale_shift(built(bn))})
    assert s.fold(bn).tolist() == pytest.approx([2, 2], abs=1e-4)
