"""What a model does with its tensors, operation by operation: a graph of torch.fx.

With an example every operation is also carried out on *meta* tensors, which have shapes
and no numbers.

Source: Reed et al. 2022, "torch.fx: Practical Program Capture and Transformation for
Deep Learning in Python".
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.conv import _ConvNd

from course_lib.wrapped import refuse_wrapped

Convert = Callable[[Tensor], Tensor]


def batch_norms(model: nn.Module) -> dict[str, _BatchNorm]:
    """Every batch norm of ``model`` by its (first) name."""
    refuse_wrapped(model, "parallel", "compile", "prune")
    return {name: norm for name, norm in model.named_modules() if isinstance(norm, _BatchNorm)}


class Trace(fx.Interpreter):
    """The operations of ``module``, a copy of ``model`` in evaluation mode.

    Layers of ``torch.nn``, and classes derived from a convolution, linear layer or batch
    norm, are one node each. Without an example every optional argument counts as given.

    Args:
        example: what ``forward`` takes first; only its shape and dtype matter. Then
            ``node.meta["value"]`` is what a node computes, with tensors on the meta
            device, and other arguments of ``forward`` have their default values.

    Raises:
        ValueError: if torch.fx cannot follow it, naming the submodule where it stopped.
    """

    def __init__(self, model: nn.Module, example: Tensor | None = None) -> None:
        refuse_wrapped(model)
        if "forward" in vars(model):
            raise ValueError(
                f"this {type(model).__name__} object has its own forward, set on the object, and"
                " torch.fx traces that of the class: remove it (del model.forward) first"
            )
        if not isinstance(example, Tensor | None):
            raise ValueError(f"example should be a tensor, a batch; got {type(example).__name__}")
        twin = copied(model, lambda t: t.detach() if isinstance(t, nn.Parameter) else t.clone())
        arguments = list(inspect.signature(model.forward).parameters.items())[1:]
        defaults = {n: p.default for n, p in arguments if p.default is not inspect.Parameter.empty}
        tracer = _Tracer()
        try:
            with torch.no_grad(), computing_as(twin.eval(), twin, lambda tensor: tensor):
                graph = tracer.trace(twin, None if example is None else defaults or None)
                super().__init__(twin, garbage_collect_values=False, graph=graph)
                if example is not None:
                    tracer.place = f"on an example of shape {tuple(example.shape)}"
                    with computing_as(twin, twin, lambda tensor: tensor.to("meta")):
                        self.run(example.detach().to("meta"))
        except Exception as error:  # of the model's own code, on stand-ins for tensors
            reason = str(error).strip().partition("\n")[0]
            raise ValueError(
                f"cannot follow {type(model).__name__}, {tracer.place}: {reason}. Put code that"
                " depends on values or sizes into a function marked with torch.fx.wrap, or pass the"
                " parts that can be traced, e.g. fold_model(model.part). Heads and layers of a"
                " transformer are removed by course_lib.pruning.heads and course_lib.pruning.layers"
            ) from error

    def run_node(self, n: fx.Node) -> Any:
        value = super().run_node(n)
        if isinstance(value, Tensor):  # a tensor that forward makes may be on another device
            value = value.to("meta")
        n.meta["value"] = value
        return value

    def call_module(self, target: Any, args: Any, kwargs: Any) -> Any:
        if isinstance(self.fetch_attr(target), _BatchNorm):
            return args[0]  # torch would take 2 ms to find that the shape stays
        return super().call_module(target, args, kwargs)

    def carry_out(self, node: fx.Node, value: Callable[[fx.Node], Any]) -> Any:
        """What the operation of ``node`` gives on other values: ``value`` of each node
        among its arguments.
        """
        args: Any = fx.node.map_arg(node.args, value)
        return getattr(self, node.op)(node.target, args, fx.node.map_arg(node.kwargs, value))


def copied(model: nn.Module, convert: Convert) -> nn.Module:
    """A copy of ``model`` with ``convert(t)`` in place of every tensor t. Shared ones stay
    shared.
    """
    memo: dict[int, Any] = {}
    for module in model.modules():
        own = vars(module).values()
        for value in (*module._parameters.values(), *module._buffers.values(), *own):
            if isinstance(value, Tensor) and id(value) not in memo:
                new: Any = convert(value)
                parameter = isinstance(value, nn.Parameter)
                memo[id(value)] = nn.Parameter(new, value.requires_grad) if parameter else new
            elif isinstance(value, dict) and not value:  # most are, of hooks: not one by one
                memo[id(value)] = type(value)()
    return copy.deepcopy(model, memo)


@contextmanager
def computing_as(twin: nn.Module, model: nn.Module, convert: Convert) -> Iterator[None]:
    """Inside the block ``twin``, a copy, has the tensors and numbers of ``model``. Afterwards
    it is as before, without new hooks and what ``forward`` kept on it.
    """
    before = [(module, dict(vars(module))) for module in twin.modules()]
    for (module, own), real in zip(before, model.modules(), strict=True):
        vars(module).update({k: v for k, v in vars(real).items() if type(v) is int})
        for kind in ("_parameters", "_buffers"):
            vars(module)[kind] = Converted(vars(real)[kind], convert)
        for kind in ("_forward_hooks", "_forward_pre_hooks"):
            vars(module)[kind] = own[kind].copy()
    try:
        yield
    finally:
        for module, own in before:
            vars(module).clear()
            vars(module).update(own)


class Converted(dict[str, Any]):
    """The parameters or buffers of a module, or ``rows`` of them, converted where they are
    read: no second copy of all is kept.
    """

    rows: Tensor | None = None

    def __init__(self, tensors: Mapping[str, Any], convert: Convert) -> None:
        super().__init__(tensors)
        self.convert = convert

    def __getitem__(self, name: str) -> Any:
        tensor = super().__getitem__(name)
        if tensor is None:
            return None
        return self.convert(tensor if self.rows is None else tensor.index_select(0, self.rows))


class _Tracer(fx.Tracer):
    """Plain torch.fx, which remembers the submodule that it went to last."""

    place = "in its forward"

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        self.place = f"in or after {module_qualified_name!r}"
        layer = isinstance(m, _ConvNd | nn.Linear | _BatchNorm)
        return layer or super().is_leaf_module(m, module_qualified_name)
