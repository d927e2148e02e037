"""What a model does with its tensors, operation by operation: a graph of torch.fx.

Names and the order of definition do not tell it: a model may define its layers in any
order, call one twice, or add a shortcut to the output of another. With an example every
operation is also carried out on *meta* tensors, which have shapes and no numbers.

Source: Reed et al. 2022, "torch.fx: Practical Program Capture and Transformation for
Deep Learning in Python".
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.conv import _ConvNd

from course_lib.wrapped import refuse_wrapped


def batch_norms(model: nn.Module) -> dict[str, _BatchNorm]:
    """Every batch norm of ``model`` by its (first) name, in the order of
    ``model.named_modules()``.
    """
    refuse_wrapped(model, "parallel", "compile", "prune")
    return {
        name: module for name, module in model.named_modules() if isinstance(module, _BatchNorm)
    }


def trace(model: nn.Module, example: Tensor | None = None) -> tuple[nn.Module, fx.Graph]:
    """A copy of ``model`` in evaluation mode on the meta device, and the operations that
    it carries out.

    Layers of ``torch.nn``, and classes derived from a convolution, linear layer or batch
    norm, are one node each. Without an example every optional argument counts as given.

    Args:
        example: what ``forward`` takes first; only its shape and dtype matter. Then
            ``node.meta["value"]`` is what a node computes, with tensors on the meta
            device, and other arguments of ``forward`` have their default values.

    Raises:
        TypeError: if ``model`` is not a module.
        ValueError: if torch.fx cannot follow it, naming the submodule where it stopped.
    """
    if not isinstance(model, nn.Module):
        raise TypeError(f"model should be a module, got {type(model).__name__}")
    if example is not None and not isinstance(example, Tensor):
        raise ValueError(f"example should be a tensor, a batch; got {type(example).__name__}")
    refuse_wrapped(model)
    if "forward" in vars(model):
        raise ValueError(
            f"this {type(model).__name__} object has its own forward, set on the object, and"
            " torch.fx traces that of the class: remove it (del model.forward) first"
        )
    skeleton = copied(model, lambda tensor: tensor.detach().to("meta")).eval()
    tracer = _Tracer()
    arguments = list(inspect.signature(model.forward).parameters.items())[1:]
    defaults = {n: p.default for n, p in arguments if p.default is not inspect.Parameter.empty}
    try:
        with torch.no_grad():
            graph = tracer.trace(skeleton, defaults if defaults and example is not None else None)
            if example is not None:
                tracer.place = f"an example of shape {tuple(example.shape)}"
                _Shapes(skeleton, garbage_collect_values=False, graph=graph).run(
                    example.detach().to("meta")
                )
    # a trace runs the model's code on stand-ins for tensors: it can fail in any way
    except Exception as error:
        where = f", in {tracer.place}" if tracer.place else ""
        reason = str(error).strip().partition("\n")[0]
        raise ValueError(
            f"cannot follow {type(model).__name__}{where}: {reason}. Put code that depends on"
            " values or sizes into a function marked with torch.fx.wrap, or pass the parts that can"
            " be traced, e.g. fold_model(model.part). Heads and layers of a transformer are removed"
            " by course_lib.pruning.heads and course_lib.pruning.layers"
        ) from error
    return skeleton, graph


def carry_out(node: fx.Node, module: nn.Module | None, value: Callable[[fx.Node], Any]) -> Any:
    """What the operation of ``node`` gives on other values: ``value`` of each node among
    its arguments.
    """
    args: Any = fx.node.map_arg(node.args, value)
    kwargs: Any = fx.node.map_arg(dict(node.kwargs), value)
    if module is not None:
        return module.forward(*args, **kwargs)
    if node.op == "call_method":
        return getattr(args[0], str(node.target))(*args[1:], **kwargs)
    function: Any = node.target
    return function(*args, **kwargs)


def copied(model: nn.Module, convert: Callable[[Tensor], Tensor]) -> nn.Module:
    """A copy of ``model`` with ``convert(t)`` in place of every tensor t. Shared ones stay
    shared.
    """
    memo: dict[int, Any] = {}
    for module in model.modules():
        own = vars(module).values()
        for tensor in (*module._parameters.values(), *module._buffers.values(), *own):
            if isinstance(tensor, Tensor) and id(tensor) not in memo:
                new: Any = convert(tensor)
                parameter = isinstance(tensor, nn.Parameter)
                memo[id(tensor)] = nn.Parameter(new, tensor.requires_grad) if parameter else new
    return copy.deepcopy(model, memo)


class _Tracer(fx.Tracer):
    """Plain torch.fx, which remembers the innermost module where it failed."""

    place = ""

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        layer = isinstance(m, _ConvNd | nn.Linear | _BatchNorm)
        return layer or super().is_leaf_module(m, module_qualified_name)

    def call_module(self, m: nn.Module, forward: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        try:
            return super().call_module(m, forward, args, kwargs)
        except Exception:
            self.place = self.place or self.path_of_module(m)
            raise


class _Shapes(fx.Interpreter):
    """Notes in ``node.meta["value"]`` what each node computes on the meta device."""

    def run_node(self, n: fx.Node) -> Any:
        value = super().run_node(n)
        if isinstance(value, Tensor):  # a tensor that forward makes may be on another device
            value = value.to("meta")
        n.meta["value"] = value
        return value

    def call_module(self, target: Any, args: Any, kwargs: Any) -> Any:
        module = self.fetch_attr(target)
        if isinstance(module, _BatchNorm) and args and args[0].ndim > 1:
            # torch would take 2 ms to find that the shape stays
            if module.num_features != args[0].shape[1]:
                raise ValueError(
                    f"{target!r} normalises {module.num_features} channels and gets"
                    f" {args[0].shape[1]}"
                )
            return args[0]
        return super().call_module(target, args, kwargs)
