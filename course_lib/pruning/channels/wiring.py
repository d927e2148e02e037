"""Wiring: which module feeds which, found by tracing the forward pass with torch.fx.

Names and the order of definition do not tell it: a model may define its layers in any order, call one twice, or add a
shortcut to the output of another. Who feeds whom needs no shapes, so plain torch.fx does, and folding asks for no example;
what follows single channels needs them (:mod:`course_lib.pruning.channels.trace`).

Source: Reed et al. 2022, "torch.fx: Practical Program Capture and Transformation for Deep Learning in Python".
"""

from __future__ import annotations

import copy
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import torch.fx
from torch import Tensor, nn
from torch.fx import Graph, Node
from torch.nn.modules.batchnorm import _BatchNorm

LAYERS = (nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d, nn.Linear)
"""The layers with an output channel per batch norm channel: those that a batch norm can stand behind."""


def batch_norms(model: nn.Module) -> dict[str, _BatchNorm]:
    """Every batch norm of ``model`` by its (first) name, in the order of ``model.named_modules()``."""
    return {name: module for name, module in model.named_modules() if isinstance(module, _BatchNorm)}


class Wiring:
    """Who feeds whom in a traced model."""

    def __init__(self, model: nn.Module, graph: Graph) -> None:
        self.model = model
        self.calls: dict[str, list[Node]] = defaultdict(list)  # module name -> every call of it
        self.read: set[str] = set()  # names of modules whose tensors are used without calling them
        for node in graph.nodes:
            if node.op == "call_module":
                self.calls[str(node.target)].append(node)
            elif node.op == "get_attr":
                self.read.add(str(node.target).rpartition(".")[0])
        self.owners: dict[int, list[str]] = defaultdict(list)  # id of a parameter -> the modules that have it
        for name, module in model.named_modules():
            for parameter in module.parameters(recurse=False):
                self.owners[id(parameter)].append(name)

    def layer_before(self, name: str) -> tuple[str, str]:
        """The name of the one layer that feeds batch norm ``name`` and nothing else, or "" and why there is none."""
        calls = self.calls[name]
        if not calls:
            return "", "the traced forward pass does not call it"
        inputs = [call.all_input_nodes[0] for call in calls]
        for node in inputs:
            if not (node.op == "call_module" and isinstance(self.model.get_submodule(str(node.target)), LAYERS)):
                return "", f"its input comes from {self._say(node)}, not from a layer" + self._behind(calls)
        layers = list(dict.fromkeys(str(node.target) for node in inputs))
        if len(layers) > 1:
            return "", f"it is shared by {' and '.join(layers)}: each would need a batch norm of its own"
        (layer,) = layers
        others = [user for call in self.calls[layer] for user in call.users if user not in calls]
        if others:
            twice = f"{layer} is called {len(self.calls[layer])} times, and " if len(self.calls[layer]) > 1 else ""
            return "", f"{twice}the output of {layer} goes to {self._say(others[0])} too"
        for module in (layer, name):
            if module in self.read:
                return "", f"the forward pass reads tensors of {module} without calling it"
        tied = [o for p in self.model.get_submodule(layer).parameters() for o in self.owners[id(p)] if o != layer]
        if tied:
            return "", f"{layer} shares a weight with {tied[0]}, and folding would part them"
        return layer, ""

    def _behind(self, calls: list[Node]) -> str:
        """One more word where a batch norm stands *before* a layer: that is the other direction."""
        for node in (user for call in calls for user in call.users if user.op == "call_module"):
            if isinstance(self.model.get_submodule(str(node.target)), LAYERS):
                return (
                    f". It stands before {node.target}, but is not folded forwards: where a layer pads its input with "
                    "zeros, the shift would be missing"
                )
        return ""

    def _say(self, node: Node) -> str:
        if node.op == "call_module":
            return f"{node.target} ({type(self.model.get_submodule(str(node.target))).__name__})"
        if node.op == "placeholder":
            return f"the model's input {node.target!r}"
        if node.op == "output":
            return "the model's output"
        return f"{getattr(node.target, '__name__', node.target)}()" if node.op != "get_attr" else f"{node.target}"


class _Tracer(torch.fx.Tracer):
    """Stops at layers and batch norms, also at subclasses, and remembers in which submodule a trace failed."""

    failed_in = ""

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return isinstance(m, (*LAYERS, _BatchNorm)) or super().is_leaf_module(m, module_qualified_name)

    def call_module(self, m: nn.Module, forward: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        try:
            return super().call_module(m, forward, args, kwargs)
        except Exception:
            self.failed_in = self.failed_in or self.path_of_module(m)  # the innermost
            raise


def traced(model: nn.Module) -> Wiring:
    """The wiring of ``model``, which is not changed.

    The forward pass is followed as it goes now, with its flags as they are and with every optional argument given.

    Raises:
        TypeError: if ``model`` is not a module.
        ValueError: if torch.fx cannot trace it: says in which submodule it stopped, and what can be done.
    """
    if not isinstance(model, nn.Module):
        raise TypeError(f"expected a module, got {type(model).__name__}")
    if "forward" in vars(model):
        raise ValueError(
            f"this {type(model).__name__} object has its own forward, set on the object, and torch.fx traces that of the "
            "class: remove it (del model.forward) first"
        )
    # A trace may leave something behind: constants of torch.fx, what a forward pass stores on self. So it is done on a
    # copy, with the tensors of the original.
    tensors: dict[int, Any] = {id(t): t for t in (*model.parameters(), *model.buffers())}
    tensors |= {id(v): v for module in model.modules() for v in vars(module).values() if isinstance(v, Tensor)}
    model = copy.deepcopy(model, tensors)
    tracer = _Tracer()
    try:
        return Wiring(model, tracer.trace(model))
    except Exception as error:  # a trace runs the model's code on stand-ins for tensors: it can fail in any way
        where = f"in its submodule {tracer.failed_in!r} " if tracer.failed_in else ""
        reason = str(error).strip().partition("\n")[0]
        raise ValueError(
            f"torch.fx cannot trace this {type(model).__name__}: {where}it stopped with {type(error).__name__}: "
            f"{reason}. Put the code that depends on values or sizes into a function marked with torch.fx.wrap, or "
            "take the parts of the model that can be traced one by one, e.g. model.part, _ = fold_model(model.part)"
        ) from error
