"""What a model does with its tensors, operation by operation, and which layer feeds
which batch norm: one torch.fx tracer.

Names and the order of definition do not tell it: a model may define its layers in any
order, call one twice, or add a shortcut to the output of another. The tracer works in
two ways. Without an example it knows no shapes, and stops at ``if x.shape[-1] > 16``;
that is enough to fold batch norms (``wiring``), which should ask for no example.
With one, every operation is also carried out on *meta* tensors, which have a shape and
no numbers: nothing is computed, sizes are plain integers, and single channels can be
followed.

Source: Reed et al. 2022, "torch.fx: Practical Program Capture and Transformation for
Deep Learning in Python".
"""

from __future__ import annotations

import copy
import inspect
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.fx.proxy import Attribute
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.conv import _ConvNd

from course_lib.wrapped import refuse_wrapped


def skeleton(model: nn.Module) -> nn.Module:
    """A copy of ``model`` in evaluation mode whose tensors are on the meta device:
    shapes and code, no numbers.

    Parameters that are shared stay shared.

    Raises:
        ValueError: if the model is wrapped, or a lazy layer has not seen its input yet.
    """
    refuse_wrapped(model, "prune")
    for name, parameter in model.named_parameters():
        if nn.parameter.is_lazy(parameter):
            raise ValueError(
                f"{name!r} belongs to a lazy layer without a shape yet: run one batch through the"
                " model first"
            )

    def on_meta(tensor: Tensor) -> Tensor:
        meta = tensor.detach().to("meta")
        return (
            nn.Parameter(meta, tensor.requires_grad) if isinstance(tensor, nn.Parameter) else meta
        )

    return _copied(model, on_meta).eval()


def _copied(model: nn.Module, tensor: Callable[[Tensor], Tensor]) -> nn.Module:
    """A copy of ``model`` that has ``tensor(t)`` in the place of every tensor t."""
    tensors: dict[int, Any] = {}
    for module in model.modules():
        for value in (
            *module._parameters.values(),
            *module._buffers.values(),
            *vars(module).values(),
        ):
            if isinstance(value, Tensor) and id(value) not in tensors:
                tensors[id(value)] = tensor(value)
    return copy.deepcopy(model, tensors)


def copies_of_computed(model: nn.Module) -> dict[int, Any]:
    """A memo for deepcopy with the tensors that it refuses to copy: those that
    ``torch.nn.utils.prune`` and weight norm compute from others.
    """
    values = (v for module in model.modules() for v in vars(module).values())
    return {id(v): v.detach().clone() for v in values if isinstance(v, Tensor) and not v.is_leaf}


def trace(
    model: nn.Module,
    example: Tensor | None = None,
    leaf: Callable[[nn.Module], bool] = lambda module: False,
) -> fx.Graph:
    """The operations that ``model`` carries out, as a ``torch.fx.Graph``.

    With an example, control flow that depends on shapes goes the way it goes for the
    example, and arguments of ``forward`` other than the first have their default
    values. Without one all arguments are given, and none has a shape.

    Args:
        model: with an example: as :func:`skeleton` makes it (tensors on the meta
            device).
        example: what ``forward`` takes first; only its shape and dtype matter.
        leaf: for modules that are to be one node of the graph, besides those of
            ``torch.nn``.

    Returns:
        A graph. With an example ``node.meta["value"]`` is what the node computes: a
        meta tensor, or a tuple or dict of such; what is no tensor, such as a size, has
        no node: it stands as a number in the arguments of others.

    Raises:
        ValueError: if the model does not run on the example, or does what torch.fx
            cannot follow: says where it stopped.
    """
    if example is None:
        return _traced(_Tracer(leaf), model, "", {}, _REMEDY)
    if not isinstance(example, Tensor):
        raise ValueError(
            "the example should be a batch as the model takes it, a tensor; got"
            f" {type(example).__name__}"
        )
    arguments = list(inspect.signature(model.forward).parameters.items())[1:]
    defaults = {
        name: p.default for name, p in arguments if p.default is not inspect.Parameter.empty
    }
    tracer = _ShapeTracer(model, example.detach().to("meta"), leaf)
    on = f" on an example of shape {tuple(example.shape)}"
    convolves = any(isinstance(m, _ConvNd) for m in model.modules())
    return _traced(tracer, model, on, defaults, "" if convolves else _OTHER_ROOMS)


_REMEDY = (
    ". Put the code that depends on values or sizes into a function marked with torch.fx.wrap, or"
    " take the parts of the model that can be traced one by one, e.g. model.part, _ ="
    " fold_model(model.part)"
)


_OTHER_ROOMS = (
    ". Of a transformer heads, feed-forward parts and whole layers go: course_lib.pruning.heads and"
    " course_lib.pruning.layers"
)


def _traced(
    tracer: _Tracer, model: nn.Module, on: str, defaults: dict[str, Any], remedy: str = ""
) -> fx.Graph:
    try:
        with torch.no_grad():
            return tracer.trace(model, concrete_args=defaults or None)
    # a trace runs the model's code on stand-ins for tensors: it can fail in any way
    except Exception as error:
        where = f", in {tracer.place}" if tracer.place else ""
        reason = str(error).strip().partition("\n")[0]
        raise ValueError(
            f"cannot follow {type(model).__name__}{on}{where}: {reason}{remedy}"
        ) from error


class _Tracer(fx.Tracer):
    """Plain torch.fx, which remembers where it failed."""

    def __init__(self, leaf: Callable[[nn.Module], bool]) -> None:
        super().__init__()
        self.leaf = leaf
        self.place = ""  # where a trace failed, for messages

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return self.leaf(m) or super().is_leaf_module(m, module_qualified_name)

    def call_module(self, m: nn.Module, forward: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        try:
            return super().call_module(m, forward, args, kwargs)
        except Exception:
            self.place = self.place or self.path_of_module(m)  # the innermost
            raise


class _ShapeTracer(_Tracer):
    """Carries out every operation on meta tensors, too."""

    def __init__(
        self, model: nn.Module, example: Tensor, leaf: Callable[[nn.Module], bool]
    ) -> None:
        super().__init__(leaf)
        self.modules = dict(model.named_modules())
        self.example: Tensor | None = example
        self._computing = False

    def proxy(self, node: fx.Node) -> fx.Proxy:
        return _ShapeProxy(node, self)

    def create_proxy(
        self, kind: str, target: Any, args: Any, kwargs: Any, *rest: Any, **more: Any
    ) -> Any:
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
            items = [
                self.create_proxy("call_function", _item, (proxy, i), {}) for i in range(len(value))
            ]
            return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
        if isinstance(value, dict):
            return {
                key: self.create_proxy("call_function", _item, (proxy, key), {}) for key in value
            }
        if isinstance(value, Tensor):
            return proxy
        self.graph.erase_node(node)  # a number, a size, None: as it is
        return value

    def _value(self, node: fx.Node) -> Any:
        # a buffer, or a tensor made in forward: torch.fx adds nodes for these on its
        # own
        if "value" not in node.meta:
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
                    # torch would take 2 ms to find that the shape stays; but not let a
                    # wrong number of channels pass
                    if module.num_features != args[0].shape[1]:
                        raise ValueError(
                            f"it normalises {module.num_features} channels and gets"
                            f" {args[0].shape[1]}"
                        )
                    return args[0]
                return module.forward(*args, **kwargs)
            if node.op == "call_method":
                return getattr(args[0], str(node.target))(*args[1:], **kwargs)
            return node.target(*args, **kwargs)  # type: ignore[operator]
        finally:
            self._computing = before

    # While a node is computed, modules and parameters are themselves, not proxies.
    def call_module(self, m: nn.Module, forward: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        return (
            forward(*args, **kwargs)
            if self._computing
            else super().call_module(m, forward, args, kwargs)
        )

    def getattr(self, attr: str, attr_val: Any, parameter_proxy_cache: dict[str, fx.Proxy]) -> Any:
        return (
            attr_val if self._computing else super().getattr(attr, attr_val, parameter_proxy_cache)
        )


def _can_be_entered(target: Any) -> bool:
    """Whether ``target`` was marked by ``torch.fx.wrap``, to keep plain torch.fx out,
    and can be followed all the same.

    torchvision's stochastic_depth stays an operation: drawing at random is none of our
    business, and it is known.
    """
    if not inspect.isfunction(target) or target is _item or target.__name__ == "stochastic_depth":
        return False
    return target.__module__.split(".")[0] not in ("torch", "_operator")


def _item(values: Any, key: Any) -> Any:
    """One of several results of an operation."""
    return values[key]


class _ShapeProxy(fx.Proxy):
    """Stands for a tensor. What is known of it without its numbers (shape, dtype,
    device) is given as it is.
    """

    def __getattr__(self, k: str) -> Any:
        value = self.node.meta["value"]
        # an unknown name fails when it is called, as it does in the model
        known = getattr(value, k, None)
        if callable(known) or known is None:
            return Attribute(self, k)
        return Attribute(self, k) if isinstance(known, Tensor) else known

    def __len__(self) -> int:
        return len(self.node.meta["value"])

    def __setitem__(self, key: Any, value: Any) -> None:
        raise TypeError("a value is assigned to a part of a tensor, which torch.fx cannot follow")

    def __iter__(self) -> Any:
        return iter([self.__getitem__(i) for i in range(len(self))])


# ---- who feeds whom

LAYERS = (
    nn.Conv1d,
    nn.Conv2d,
    nn.Conv3d,
    nn.ConvTranspose1d,
    nn.ConvTranspose2d,
    nn.ConvTranspose3d,
    nn.Linear,
)
"""The layers with an output channel per batch norm channel: those that a batch norm can
stand behind."""


def batch_norms(model: nn.Module) -> dict[str, _BatchNorm]:
    """Every batch norm of ``model`` by its (first) name, in the order of
    ``model.named_modules()``.
    """
    refuse_wrapped(model, "parallel", "compile", "prune")
    return {
        name: module for name, module in model.named_modules() if isinstance(module, _BatchNorm)
    }


class Wiring:
    """Who feeds whom in a traced model."""

    def __init__(self, model: nn.Module, graph: fx.Graph) -> None:
        self.model = model
        self.calls: dict[str, list[fx.Node]] = defaultdict(list)  # module name -> every call of it
        self.read: set[str] = set()  # names of modules whose tensors are used without calling them
        for node in graph.nodes:
            if node.op == "call_module":
                self.calls[str(node.target)].append(node)
            elif node.op == "get_attr":
                self.read.add(str(node.target).rpartition(".")[0])
        # id of a parameter -> the modules that have it
        self.owners: dict[int, list[str]] = defaultdict(list)
        for name, module in model.named_modules():
            for parameter in module.parameters(recurse=False):
                self.owners[id(parameter)].append(name)

    def layer_before(self, name: str) -> tuple[str, str]:
        """The name of the one layer that feeds batch norm ``name`` and nothing else, or
        "" and why there is none.
        """
        calls = self.calls[name]
        if not calls:
            return "", "the traced forward pass does not call it"
        inputs = [call.all_input_nodes[0] for call in calls]
        for node in inputs:
            if not (
                node.op == "call_module"
                and isinstance(self.model.get_submodule(str(node.target)), LAYERS)
            ):
                return (
                    "",
                    f"its input comes from {self._say(node)}, not from a layer"
                    + self._behind(calls),
                )
        layers = list(dict.fromkeys(str(node.target) for node in inputs))
        if len(layers) > 1:
            return (
                "",
                f"it is shared by {' and '.join(layers)}: each would need a batch norm of its own",
            )
        (layer,) = layers
        others = [user for call in self.calls[layer] for user in call.users if user not in calls]
        if others:
            twice = (
                f"{layer} is called {len(self.calls[layer])} times, and "
                if len(self.calls[layer]) > 1
                else ""
            )
            return "", f"{twice}the output of {layer} goes to {self._say(others[0])} too"
        for module in (layer, name):
            if module in self.read:
                return "", f"the forward pass reads tensors of {module} without calling it"
        tied = [
            o
            for p in self.model.get_submodule(layer).parameters()
            for o in self.owners[id(p)]
            if o != layer
        ]
        if tied:
            return "", f"{layer} shares a weight with {tied[0]}, and folding would part them"
        return layer, ""

    def _behind(self, calls: list[fx.Node]) -> str:
        """One more word where a batch norm stands *before* a layer: that is the other
        direction.
        """
        for node in (user for call in calls for user in call.users if user.op == "call_module"):
            if isinstance(self.model.get_submodule(str(node.target)), LAYERS):
                return (
                    f". It stands before {node.target}, but is not folded forwards: where a layer"
                    " pads its input with zeros, the shift would be missing"
                )
        return ""

    def _say(self, node: fx.Node) -> str:
        if node.op == "call_module":
            return f"{node.target} ({type(self.model.get_submodule(str(node.target))).__name__})"
        if node.op == "placeholder":
            return f"the model's input {node.target!r}"
        if node.op == "output":
            return "the model's output"
        return (
            f"{getattr(node.target, '__name__', node.target)}()"
            if node.op != "get_attr"
            else f"{node.target}"
        )


def wiring(model: nn.Module) -> Wiring:
    """Who feeds whom in ``model``, which is not changed.

    The forward pass is followed as it goes now, with its flags as they are and with
    every optional argument given.

    Raises:
        TypeError: if ``model`` is not a module.
        ValueError: if torch.fx cannot trace it: says in which submodule it stopped, and
            what can be done.
    """
    if not isinstance(model, nn.Module):
        raise TypeError(f"expected a module, got {type(model).__name__}")
    refuse_wrapped(model, "prune")
    if "forward" in vars(model):
        raise ValueError(
            f"this {type(model).__name__} object has its own forward, set on the object, and"
            " torch.fx traces that of the class: remove it (del model.forward) first"
        )
    # A trace may leave something behind: constants of torch.fx, what a forward pass
    # stores on self. So it is done on a copy, with the tensors of the original.
    model = _copied(model, lambda tensor: tensor)
    return Wiring(
        model, trace(model, leaf=lambda module: isinstance(module, (*LAYERS, _BatchNorm)))
    )
