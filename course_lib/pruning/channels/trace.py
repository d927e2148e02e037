"""What a model does with its tensors, operation by operation: torch.fx, with the shapes of an example.

Plain ``torch.fx.symbolic_trace`` knows no shapes, so it stops at ``if x.shape[-1] > 16``. Here every operation is also
carried out on *meta* tensors, which have a shape and no numbers: nothing is computed, and sizes are plain integers. The
price is an example, which folding a batch norm must not ask for: :mod:`course_lib.pruning.channels.wiring` makes do with plain torch.fx.

Source: Reed et al. 2022, "torch.fx: Practical Program Capture and Transformation for Deep Learning in Python".
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.fx.proxy import Attribute
from torch.nn.modules.batchnorm import _BatchNorm


def skeleton(model: nn.Module) -> nn.Module:
    """A copy of ``model`` in evaluation mode whose tensors are on the meta device: shapes and code, no numbers.

    Parameters that are shared stay shared.

    Raises:
        ValueError: if a lazy layer has not seen its input yet.
    """
    memo: dict[int, Any] = {}
    for name, parameter in model.named_parameters():
        if nn.parameter.is_lazy(parameter):
            raise ValueError(
                f"{name!r} belongs to a lazy layer without a shape yet: run one batch through the model first"
            )
        memo[id(parameter)] = nn.Parameter(parameter.detach().to("meta"), requires_grad=parameter.requires_grad)
    for module in model.modules():
        for value in (*module._buffers.values(), *vars(module).values()):
            if isinstance(value, Tensor):
                memo.setdefault(id(value), value.detach().to("meta"))
    return copy.deepcopy(model, memo).eval()


def trace(model: nn.Module, example: Tensor, leaf: Callable[[nn.Module], bool] = lambda module: False) -> fx.Graph:
    """The operations that ``model`` carries out on ``example``, as a ``torch.fx.Graph``.

    Control flow that depends on shapes goes the way it goes for the example. Arguments of ``forward`` other than the
    first have their default values.

    Args:
        model: as :func:`skeleton` makes it (tensors on the meta device).
        example: what ``forward`` takes first; only its shape and dtype matter.
        leaf: for modules that are to be one node of the graph, besides those of ``torch.nn``.

    Returns:
        A graph. ``node.meta["value"]`` is what the node computes: a meta tensor, or a tuple or dict of such. What is no
        tensor, such as a size, has no node: it stands as a number in the arguments of others.

    Raises:
        ValueError: if the model does not run on the example, or does what torch.fx cannot follow.
    """
    if not isinstance(example, Tensor):
        raise ValueError(f"the example should be a batch as the model takes it, a tensor; got {type(example).__name__}")
    tracer = _ShapeTracer(model, example.detach().to("meta"), leaf)
    defaults = {
        name: parameter.default
        for name, parameter in list(inspect.signature(model.forward).parameters.items())[1:]
        if parameter.default is not inspect.Parameter.empty
    }
    try:
        with torch.no_grad():
            return tracer.trace(model, concrete_args=defaults or None)
    except Exception as error:
        where = f", in {tracer.place}" if tracer.place else ""
        raise ValueError(
            f"cannot follow {type(model).__name__} on an example of shape {tuple(example.shape)}{where}: {error}"
        ) from error


class _ShapeTracer(fx.Tracer):
    def __init__(self, model: nn.Module, example: Tensor, leaf: Callable[[nn.Module], bool]) -> None:
        super().__init__()
        self.modules = dict(model.named_modules())
        self.example: Tensor | None = example
        self.leaf = leaf
        self.place = ""  # what is being computed, for messages
        self._computing = False

    def proxy(self, node: fx.Node) -> fx.Proxy:
        return _ShapeProxy(node, self)

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return self.leaf(m) or super().is_leaf_module(m, module_qualified_name)

    def create_proxy(self, kind: str, target: Any, args: Any, kwargs: Any, *rest: Any, **more: Any) -> Any:
        if kind == "call_function" and _can_be_entered(target):
            return target(*args, **kwargs)
        proxy = super().create_proxy(kind, target, args, kwargs, *rest, **more)
        node = proxy.node
        path = next(reversed(self.module_stack), "")
        node.meta["module"] = path
        what = getattr(target, "__name__", str(target))
        self.place = target if kind == "call_module" else f"{path}: {what}" if path else what
        value = node.meta["value"] = self._compute(node)
        if isinstance(value, tuple | list) and any(isinstance(v, Tensor) for v in value):
            items = [self.create_proxy("call_function", _item, (proxy, i), {}) for i in range(len(value))]
            return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
        if isinstance(value, dict):
            return {key: self.create_proxy("call_function", _item, (proxy, key), {}) for key in value}
        if isinstance(value, Tensor):
            return proxy
        self.graph.erase_node(node)  # a number, a size, None: as it is
        return value

    def _value(self, node: fx.Node) -> Any:
        if "value" not in node.meta:  # a buffer, or a tensor made in forward: torch.fx adds nodes for these on its own
            node.meta["value"] = self._compute(node)
        return node.meta["value"]

    def _compute(self, node: fx.Node) -> Any:
        """What ``node`` gives, from what its arguments gave."""

        def tensors(argument: Any) -> Any:
            return argument.to("meta") if isinstance(argument, Tensor) else argument

        given: Any = fx.node.map_arg((node.args, dict(node.kwargs)), self._value)
        args, kwargs = fx.node.map_aggregate(given, tensors)
        if node.op == "placeholder":
            if self.example is None:
                return args[0] if args else None
            value, self.example = self.example, None
            return value
        before, self._computing = self._computing, True
        try:
            if node.op == "get_attr":
                owner, _, name = str(node.target).rpartition(".")
                return tensors(getattr(self.modules[owner], name))
            if node.op == "call_module":
                module = self.modules[str(node.target)]
                if isinstance(module, _BatchNorm) and args and args[0].ndim > 1:
                    # torch would take 2 ms to find that the shape stays; but not let a wrong number of channels pass
                    if module.num_features != args[0].shape[1]:
                        raise ValueError(f"it normalises {module.num_features} channels and gets {args[0].shape[1]}")
                    return args[0]
                return module.forward(*args, **kwargs)
            if node.op == "call_method":
                return getattr(args[0], str(node.target))(*args[1:], **kwargs)
            return node.target(*args, **kwargs)  # type: ignore[operator]
        finally:
            self._computing = before

    # While a node is computed, modules and parameters are themselves, not proxies.
    def call_module(self, m: nn.Module, forward: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        return forward(*args, **kwargs) if self._computing else super().call_module(m, forward, args, kwargs)

    def getattr(self, attr: str, attr_val: Any, parameter_proxy_cache: dict[str, fx.Proxy]) -> Any:
        return attr_val if self._computing else super().getattr(attr, attr_val, parameter_proxy_cache)


def _can_be_entered(target: Any) -> bool:
    """Whether ``target`` was marked by ``torch.fx.wrap``, to keep plain torch.fx out, and can be followed all the same.

    torchvision's stochastic_depth stays an operation: drawing at random is none of our business, and it is known.
    """
    if not inspect.isfunction(target) or target is _item or target.__name__ == "stochastic_depth":
        return False
    return target.__module__.split(".")[0] not in ("torch", "_operator")


def _item(values: Any, key: Any) -> Any:
    """One of several results of an operation."""
    return values[key]


class _ShapeProxy(fx.Proxy):
    """Stands for a tensor. What is known of it without its numbers (shape, dtype, device) is given as it is."""

    def __getattr__(self, k: str) -> Any:
        value = self.node.meta["value"]
        known = getattr(value, k, None)  # an unknown name fails when it is called, as it does in the model
        if callable(known) or known is None:
            return Attribute(self, k)
        return Attribute(self, k) if isinstance(known, Tensor) else known

    def __len__(self) -> int:
        return len(self.node.meta["value"])

    def __setitem__(self, key: Any, value: Any) -> None:
        raise TypeError("a value is assigned to a part of a tensor, which torch.fx cannot follow")

    def __iter__(self) -> Any:
        return iter([self.__getitem__(i) for i in range(len(self))])
