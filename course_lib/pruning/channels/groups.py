"""Which channels of a model belong together: found by following every channel through
the operations of the model.

Each filter of a convolution and each unit of a linear layer makes one channel. It gets
a label, and the label is carried along: batch norm and ReLU hand it on, flatten repeats
it H·W times, concatenation puts labels side by side, and where two tensors are added,
the labels at the same place are *tied*: neither channel can go without the other. What
reads a label in a way that is not known *pins* it. Labels that are tied, directly or
through others, are one channel of the network as far as removal is concerned; layers
that make the same ones are a :class:`Group`.

Some operations need more: a grouped convolution loses whole groups or equally many
channels of each, and what is cut into equal parts must stay divisible. Groups of
channels are chosen so that this holds: their *shares* are tied as well.

Source: Fang et al. 2023, "DepGraph: Towards Any Structural Pruning", which finds the
same groups from autograd's graph; here they come from the model's code, so that a
refusal can name the operation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, fx, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.conv import _ConvNd, _ConvTransposeNd
from torch.nn.modules.instancenorm import _InstanceNorm

from course_lib.checks import check_mask
from course_lib.pruning.channels.trace import _item, skeleton, trace


@dataclass(frozen=True)
class Group:
    """Channels that are removed together, and the layers they run through.

    ``channels`` of them; each of the ``producers`` (convolutions, linear layers) makes
    them all, or some of them: its channel c is channel ``index[producer][c]`` of the
    group. Several channels of one producer are one channel of the group where they can
    only be removed together: the units that are viewed as one map, or the channels of
    one group of a grouped convolution. ``followers`` have something for each channel as
    well and are cut along (batch norms, depthwise convolutions, parameters with one
    number per channel); ``consumers`` read them (their input channels are cut).
    ``pinned`` says why the channels cannot be removed, and is None where they can.
    """

    channels: int
    producers: tuple[str, ...]
    followers: tuple[str, ...]
    consumers: tuple[str, ...]
    pinned: str | None = None
    index: Mapping[str, Tensor] = field(default_factory=dict, repr=False, compare=False)

    def masks(self, keep: Tensor) -> dict[str, Tensor]:
        """One mask for the group as masks for each of its producers, as
        ``remove_filters`` takes them.

        Args:
            keep: bool (channels,), True = kept.

        Raises:
            ValueError: if it has another shape or type.
        """
        check_mask(keep, f"the mask of the group of {', '.join(self.producers)}", (self.channels,))
        return {name: keep[index.to(keep.device)] for name, index in self.index.items()}


def channel_groups(model: nn.Module, example: Tensor) -> list[Group]:
    """Which layers' channels are tied together, in the order in which the model makes
    them.

    Args:
        model: any module that torch.fx can follow. Not changed, and nothing is computed
            with its weights.
        example: a batch as the model takes it; only its shape and dtype matter.

    Returns:
        One group for every set of layers that make the same channels: a single
        convolution in a plain chain, all that end in one stream of additions in a
        residual network. Groups that cannot be removed (the logits, for one) are there
        too and say why in ``pinned``.

    Raises:
        ValueError: if the model cannot be followed, naming the place.
    """
    return Channels(skeleton(model), example).groups()


# --------------------------------------------------------------- what an operation does
MAKERS = ("conv", "grouped", "linear")  # kinds of layers that make new channels
# for each rule of Channels the functions, methods and modules that it is for, in lower case
# and without underscores: max_pool2d, F.max_pool2d and nn.MaxPool2d are one name
_OPERATIONS = {
    "identity": "identity dropout dropout1d dropout2d dropout3d featuredropout alphadropout"
    " stochasticdepth contiguous clone detach to float double half bfloat16 typeas",
    "pointwise": "relu relu6 leakyrelu rrelu elu selu celu gelu silu mish hardtanh hardswish"
    " hardsigmoid sigmoid logsigmoid tanh softplus softsign tanhshrink softshrink hardshrink"
    " threshold clamp clip clampmin clampmax abs neg exp log log1p sqrt rsqrt square sin cos erf"
    " pow sign reciprocal add sub mul div truediv truedivide multiply subtract divide maximum"
    " minimum iadd isub imul itruediv",
    "spatial": "maxpool1d maxpool2d maxpool3d avgpool1d avgpool2d avgpool3d adaptiveavgpool1d"
    " adaptiveavgpool2d adaptiveavgpool3d adaptivemaxpool1d adaptivemaxpool2d adaptivemaxpool3d"
    " interpolate upsample upsamplingnearest2d upsamplingbilinear2d",
    "moving": "view reshape flatten unflatten permute transpose swapaxes swapdims movedim moveaxis"
    " t squeeze unsqueeze expand repeat tile roll flip narrow select chunk split tensorsplit"
    " unbind getitem cat concat concatenate stack pixelshuffle pixelunshuffle channelshuffle"
    " expandas",
    "reducing": "mean sum amax amin",
    "pad": "pad zeropad1d zeropad2d zeropad3d constantpad1d constantpad2d constantpad3d"
    " reflectionpad1d reflectionpad2d reflectionpad3d replicationpad1d replicationpad2d"
    " replicationpad3d circularpad1d circularpad2d circularpad3d",
}
_RULES = {name: rule for rule, names in _OPERATIONS.items() for name in names.split()}
# packages whose functions are known by name
_PACKAGES = frozenset(("torch", "_operator", "builtins", "torchvision"))


def layer_kind(module: nn.Module) -> str | None:
    """What a layer with weights does to channels: "conv", "grouped", "depthwise",
    "linear", "norm", "prelu", or None. (A parameter with one number per channel is
    called "parameter" in a :class:`Call`.)

    A subclass counts as the layer it is derived from as long as it computes the same
    way.
    """
    if not type(module).forward.__module__.startswith("torch.nn.modules."):
        return None
    if isinstance(module, _ConvNd):
        if module.groups == 1:
            return "conv"
        transposed = isinstance(module, _ConvTransposeNd)
        each = module.groups == module.in_channels
        return (
            "depthwise"
            if each and (not transposed or module.groups == module.out_channels)
            else "grouped"
        )
    if isinstance(module, nn.Linear):
        return "linear"
    if isinstance(module, _BatchNorm | _InstanceNorm):
        return "norm"
    return "prelu" if isinstance(module, nn.PReLU) and module.num_parameters > 1 else None


def operation(node: fx.Node, module: nn.Module | None) -> str:
    """What ``node`` does to channels, as far as it is known: one word that
    :class:`Channels` has a rule for.
    """
    if node.op in ("placeholder", "get_attr", "output"):
        return node.op
    if node.target is _item:
        return "item"
    if module is not None:
        if layer_kind(module):
            return "layer"
        if isinstance(module, nn.PReLU):  # one slope for all channels; F.prelu may have many
            return "pointwise"
        package, name = type(module).__module__, type(module).__name__
        known = package.startswith("torch.nn")
    else:
        package = getattr(node.target, "__module__", None) or "torch"
        name = function_name(node)
        known = node.op != "call_function" or package.split(".")[0] in _PACKAGES
    return _RULES.get(name.lower().replace("_", ""), "unknown") if known else "unknown"


def function_name(node: fx.Node) -> str:
    """The name of a function or method, without the underscore of those that work in
    place.
    """
    name = (
        node.target
        if isinstance(node.target, str)
        else getattr(node.target, "__name__", str(node.target))
    )
    return name.rstrip("_") or name


def in_place(node: fx.Node, module: nn.Module | None) -> bool:
    """Whether ``node`` overwrites its first argument, so that this, too, is now what
    the node gives.
    """
    if module is not None:
        return bool(getattr(module, "inplace", False))
    if node.kwargs.get("inplace") is True:
        return True
    name = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", "")
    return (
        name.endswith("_")
        and not name.endswith("__")
        or name in ("iadd", "isub", "imul", "itruediv")
    )


def describe(node: fx.Node, module: nn.Module | None) -> str:
    """``node`` in words for a message: which operation, and where in the model."""
    if module is not None:
        return f"{node.target!r} ({type(module).__name__})"
    path = node.meta.get("module", "")
    return (
        f"{function_name(node)} in {path!r}"
        if path
        else f"{function_name(node)} in the model's forward"
    )


# ---------------------------------------------------------------------- compact tensors
# A number per channel of a tensor (B, C, H, W) is kept as (1, C, 1, 1): size 1 wherever
# it does not vary.
def compress(full: Tensor) -> Tensor:
    """``full`` with every dimension along which nothing varies cut to size 1."""
    for d in range(full.ndim):
        if full.shape[d] > 1:
            first = full.narrow(d, 0, 1)
            if full.stride(d) == 0 or bool((full == first).all()):
                full = first
    return full


def cut_like(full: Tensor, compact: Tensor) -> Tensor:
    """``full`` cut to size 1 wherever ``compact`` is."""
    for d, size in enumerate(compact.shape):
        if size == 1:
            full = full.narrow(d, 0, 1)
    return full


def varying(compact: Tensor) -> list[int]:
    """The dimensions along which a compact tensor varies."""
    return [d for d, size in enumerate(compact.shape) if size > 1]


def move(node: fx.Node, module: nn.Module | None, state: Mapping[fx.Node, Any]) -> Any:
    """Carry out an operation that only moves numbers on what ``state`` has for its
    arguments, in full size.
    """
    sizes = {n: list(n.meta["value"].shape) for n in node.all_input_nodes}
    if function_name(node) in ("cat", "concat", "concatenate") and node.op == "call_function":
        # concatenation along channels need not copy H x W equal numbers for each
        nodes = node.all_input_nodes
        ndim = len(sizes[nodes[0]])
        along = int(node.kwargs.get("dim", node.args[1] if len(node.args) > 1 else 0)) % ndim  # type: ignore[arg-type]
        for d in range(ndim):
            if d != along and all(state[n].shape[d] == 1 for n in nodes):
                for n in nodes:
                    sizes[n][d] = 1
    if node.target == "view" and not node.kwargs:
        given: Any = fx.node.map_arg(node.args, lambda n: state[n].expand(sizes[n]))
        if isinstance(given[1], torch.dtype):
            raise RuntimeError("the same bits as another type are no labels")
        return given[0].reshape(*given[1:])  # an expanded tensor has fewer views
    return run(node, module, lambda n: state[n].expand(sizes[n]))


def run(node: fx.Node, module: nn.Module | None, value: Callable[[fx.Node], Any]) -> Any:
    """Carry out the operation of ``node`` on other values than it had: ``value`` of
    each node among its arguments.
    """
    given: Any = fx.node.map_arg((node.args, dict(node.kwargs)), value)
    args, kwargs = given
    if module is not None:
        return module.forward(*args, **kwargs)
    if node.op == "call_method":
        return getattr(args[0], str(node.target))(*args[1:], **kwargs)
    function: Any = node.target
    return function(*args, **kwargs)


# ------------------------------------------------------------------------- the channels
@dataclass(frozen=True)
class Call:
    """One call of a layer with weights: the labels of the channels it reads (C,) and of
    those it makes (M,).
    """

    name: str
    kind: str
    node: fx.Node
    inputs: Tensor
    outputs: Tensor


class Channels:
    """The labels of all channels of a model, and which of them are tied or pinned.

    Args:
        model: on the meta device, as ``trace.skeleton``
            makes it.
        example: a batch as the model takes it.
        labels: layer name -> the labels (M,) of the channels it makes, and "" -> those
            of the input. Without: numbered from 1. Label 0 is for what is no channel of
            any layer.
    """

    def __init__(
        self, model: nn.Module, example: Tensor, labels: Mapping[str, Tensor] | None = None
    ) -> None:
        self.modules = dict(model.named_modules())
        self.calls: list[Call] = []
        self.state: dict[fx.Node, Any] = {}  # node -> compact labels, or a tuple of such
        self.ties: list[tuple[Tensor, Tensor, str]] = []
        self.shares: list[tuple[Tensor, Tensor, str]] = []  # ties that only a choice needs
        self.pins: list[tuple[Tensor, str]] = []
        self.labels: dict[str, Tensor] = dict(labels or {})
        self.unread: dict[str, str] = {}  # a layer that cannot be followed -> why
        self.count = 1
        self.graph = trace(model, example, leaf=lambda m: layer_kind(m) is not None)
        for node in self.graph.nodes:
            module = self.module(node)
            self.state[node] = self._follow(node, module)
            if node.all_input_nodes and in_place(node, module):
                self.state[node.all_input_nodes[0]] = self.state[node]
        self._tie_shared_weights()

    def module(self, node: fx.Node) -> nn.Module | None:
        return self.modules[str(node.target)] if node.op == "call_module" else None

    # -------------------------------------------------------------------- one rule each
    def _follow(self, node: fx.Node, module: nn.Module | None) -> Any:
        word = operation(node, module)
        tensors = node.all_input_nodes
        if word == "placeholder":
            value = node.meta["value"]
            if node is not next(iter(self.graph.nodes)) or value.ndim < 2:
                return self._fixed(node)
            made = self._made("", value.shape[1])
            self.pins.append((made, "they are the channels of the model's input"))
            return _along(made, 1, value.ndim)
        if word == "get_attr":
            return self._parameter(node)
        if word == "output":
            for n in tensors:
                self._pin(n, "they are the model's output")
            return None
        if word == "item":
            return self.state[tensors[0]][node.args[1]]
        if not isinstance(node.meta["value"], Tensor | tuple | list):
            return self._unknown(node, module)
        rules = {
            "identity": lambda: self.state[tensors[0]],
            "layer": lambda: self._layer(node, module),
            "pointwise": lambda: self._pointwise(node, module),
            "spatial": lambda: self._spatial(node, module),
            "pad": lambda: self._pad(node, module),
            "moving": lambda: self._moving(node, module),
            "reducing": lambda: self._reducing(node, module),
        }
        followed = rules[word]() if word in rules else None
        return self._unknown(node, module) if followed is None else followed

    def _layer(self, node: fx.Node, module: nn.Module | None) -> Tensor | None:
        assert module is not None
        kind, name = layer_kind(module), str(node.target)
        assert kind is not None
        ndim = node.all_input_nodes[0].meta["value"].ndim
        dim = ndim - 1 if kind == "linear" else 1
        batched = 2 + (len(module.kernel_size) if isinstance(module, _ConvNd) else 0)
        if ndim < batched or isinstance(module, _ConvNd) and ndim > batched:
            self.unread[name] = f"it reads a tensor of {ndim} dimensions, without a batch"
            return None
        inputs = self._read(node, dim, describe(node, module))  # (C,)
        size = len(inputs)
        if kind in MAKERS:
            outputs = self._made(name, node.meta["value"].shape[dim])
        elif kind == "depthwise":
            outputs = inputs.repeat_interleave(node.meta["value"].shape[1] // size)
            if name in self.labels:  # only one channel left: an ordinary convolution now
                outputs = self.labels[name]
        else:
            outputs = inputs
        self.calls.append(Call(name, kind, node, inputs, outputs))
        if kind == "grouped":
            assert isinstance(module, _ConvNd)
            self._share_groups(
                inputs.view(module.groups, -1), outputs.view(module.groups, -1), name
            )
        tensors = [t for t in ("weight", "bias") if getattr(module, t, None) is not None]
        if any(t not in module._parameters for t in tensors):
            reason = (
                f"the weights of {name!r} are computed from others (torch.nn.utils.prune, a"
                " parametrization): make them plain first, with prune.remove or"
                " parametrize.remove_parametrizations"
            )
            self.pins += [(inputs, reason), (outputs, reason)]
        return _along(outputs, dim, ndim)

    def _read(self, node: fx.Node, dim: int, where: str) -> Tensor:
        """One label (C,) per channel that a layer reads along ``dim``. Channels that vary
        along other dimensions as well (a linear layer's units, viewed as maps) are tied
        within each map.
        """
        (source, *_), sizes = node.all_input_nodes, node.all_input_nodes[0].meta["value"].shape
        x = self.state[source]
        others = [d for d in varying(x) if d != dim]
        if others and dim not in varying(x):  # it mixes what it reads, channel by channel
            self._pin(source, f"{where} reads another dimension than theirs")
            return torch.zeros(sizes[dim], dtype=torch.long)
        shape = [sizes[d] if d == dim or d in others else 1 for d in range(x.ndim)]
        places = x.expand(shape).movedim(dim, 0).flatten(1).long()  # (C, places)
        self._tie(places[:, :1].expand_as(places), places, where)
        return places[:, 0]

    def _share_groups(self, reads: Tensor, makes: Tensor, name: str) -> None:
        """Labels (groups, channels of each): groups go whole where they are many, else
        equally many channels of each.
        """
        where = f"the groups of {name!r}"
        if len(reads) > max(reads.shape[1], makes.shape[1]):
            whole = torch.cat([reads, makes], 1)
            self.shares.append((whole[:, :1].expand_as(whole), whole, where))
        else:
            self.shares += [(part[:1].expand_as(part), part, where) for part in (reads, makes)]

    def _parameter(self, node: fx.Node) -> Any:
        """A parameter or buffer with one number per channel is cut along with what it
        meets.
        """
        path, _, name = str(node.target).rpartition(".")
        owner, value = self.modules[path], node.meta["value"]
        dims = [d for d, size in enumerate(value.shape) if size > 1]
        if len(dims) != 1 or name not in owner._parameters and name not in owner._buffers:
            return self._fixed(node)
        made = self._made(str(node.target), value.shape[dims[0]])
        self.calls.append(Call(str(node.target), "parameter", node, made, made))
        return _along(made, dims[0], value.ndim)

    def _pointwise(self, node: fx.Node, module: nn.Module | None) -> Tensor | None:
        """Labels at the same place are tied, as in an addition; a tensor of size 1
        there is broadcast, and ties none.
        """
        ndim, where = node.meta["value"].ndim, describe(node, module)
        parts = []  # labels and sizes, with as many dimensions as the result
        for n in node.all_input_nodes:
            missing = (1,) * (ndim - n.meta["value"].ndim)
            parts.append(
                (
                    self.state[n].view(*missing, *self.state[n].shape),
                    (*missing, *n.meta["value"].shape),
                )
            )
        varied = [labels for labels, _ in parts if varying(labels)] or [parts[0][0]]
        own = {label for c in self.calls if c.kind == "parameter" for label in c.outputs.tolist()}
        # a parameter follows what it meets, if there is anything else
        result = min(varied, key=lambda labels: own.issuperset(labels.flatten().tolist()))
        along = varying(result)
        for other, sizes in parts:
            if other is result:
                continue
            if varying(other) not in ([], along):
                if set(varying(other)) & set(along) or any(sizes[d] > 1 for d in along):
                    return None
                labels = other.flatten().long()  # along another dimension, as for positions
                self.pins.append((labels[labels > 0], f"{where} spreads them over others"))
                continue
            if along and not varying(other) and all(sizes[d] == 1 for d in along):
                continue
            if (
                not along
                and any(self.state[n].any() for n in node.all_input_nodes)
                and not other.any()
            ):
                continue
            a, b = torch.broadcast_tensors(result, other)
            self._tie(a, b, where)
        return result

    def _tie(self, a: Tensor, b: Tensor, where: str) -> None:
        a, b = a.flatten().long(), b.flatten().long()
        if torch.equal(a, b):
            return
        reason = f"in {where} they meet a tensor of fixed size"
        both = (a > 0) & (b > 0)
        for one in (a[(b == 0) & (a > 0)], b[(a == 0) & (b > 0)]):
            if len(one):
                self.pins.append((one, reason))
        self.ties.append((a[both], b[both], where))

    def _spatial(self, node: fx.Node, module: nn.Module | None) -> Tensor | None:
        (x,) = node.all_input_nodes
        value, before = node.meta["value"], x.meta["value"]
        if (
            not isinstance(value, Tensor)
            or value.ndim != before.ndim
            or value.shape[:2] != before.shape[:2]
        ):
            return None
        return self.state[x] if all(d == 1 for d in varying(self.state[x])) else None

    def _pad(self, node: fx.Node, module: nn.Module | None) -> Tensor | None:
        x = node.all_input_nodes[0]
        labels, sizes = self.state[x], x.meta["value"].shape
        grown = [d for d, size in enumerate(node.meta["value"].shape) if size != sizes[d]]
        if not set(grown) & set(varying(labels)) and grown != [1]:
            return labels
        if module is not None or node.args[2:3] not in ((), ("constant",)) or "mode" in node.kwargs:
            return None
        return F.pad(labels.expand(sizes), node.args[1])[:1] if grown == [1] else None  # type: ignore[arg-type]

    def _moving(self, node: fx.Node, module: nn.Module | None) -> Any:
        many = node.args and isinstance(node.args[0], list | tuple)
        x, name = node.all_input_nodes[0], function_name(node)
        if len(node.all_input_nodes) > 1 and not many and name != "expand_as":
            return None  # an index that is itself a tensor
        try:
            moved = move(node, module, self.state)
        except RuntimeError:
            return None
        if isinstance(moved, Tensor):
            labels = compress(moved)
            before = self.state[x] if isinstance(self.state[x], Tensor) else labels
            rows = None
            if isinstance(module, nn.ChannelShuffle) or name == "channel_shuffle":
                rows = int(module.groups if module is not None else node.args[1])  # type: ignore[arg-type]
            elif not many and len(varying(before)) == 2 and len(varying(labels)) == 1:
                rows = min(before.shape[d] for d in varying(before))
                before = before.squeeze().T if before.squeeze().shape[0] > rows else before
            if rows is not None and len(varying(before)):
                part = before.flatten().long().view(rows, -1)
                self.shares.append((part[:1].expand_as(part), part, describe(node, module)))
            return labels
        parts = tuple(compress(m) for m in moved)
        if name in ("chunk", "split", "tensor_split") and len({p.shape for p in parts}) == 1:
            for part in parts[1:] if varying(parts[0]) == varying(self.state[x]) else ():
                a, b = parts[0].flatten().long(), part.flatten().long()
                self.shares.append((a, b, describe(node, module)))
        return parts

    def _reducing(self, node: fx.Node, module: nn.Module | None) -> Tensor | None:
        x, *others = node.all_input_nodes
        dims = node.kwargs.get("dim", node.args[1] if len(node.args) > 1 else None)
        if others or dims is None:
            return None
        ndim = x.meta["value"].ndim
        reduced = [int(d) % ndim for d in (dims if isinstance(dims, list | tuple) else [dims])]  # type: ignore[arg-type]
        if set(reduced) & set(varying(self.state[x])):
            return None
        kept = node.meta["value"].ndim == ndim
        return self.state[x] if kept else self.state[x].squeeze(reduced)

    def _unknown(self, node: fx.Node, module: nn.Module | None) -> Any:
        what = describe(node, module)
        why = f"{what} reads them, and how it would work with fewer channels is not known"
        for n in node.all_input_nodes:
            self._pin(n, why)
        return self._fixed(node)

    def _fixed(self, node: fx.Node) -> Any:
        def nothing(value: Any) -> Any:
            if isinstance(value, Tensor):
                return torch.zeros((1,) * value.ndim, dtype=torch.float64)
            return [nothing(v) for v in value] if isinstance(value, tuple | list) else None

        return nothing(node.meta["value"])

    # --------------------------------------------------------------------------- labels
    def _made(self, name: str, size: int) -> Tensor:
        if name not in self.labels:
            self.labels[name] = torch.arange(self.count, self.count + size)
            self.count += size
        labels = self.labels[name]
        if len(labels) != size:
            raise ValueError(
                f"{name!r} makes {size} channels, not the {len(labels)} that it should"
            )
        return labels

    def _pin(self, node: fx.Node, reason: str) -> None:
        def all_of(labels: Any) -> None:
            if isinstance(labels, Tensor):
                labels = labels.flatten().long()
                if labels.any():
                    self.pins.append((labels[labels > 0], reason))
            elif labels is not None:
                for part in labels:
                    all_of(part)

        all_of(self.state[node])

    def _tie_shared_weights(self) -> None:
        """A layer that is called twice, and layers that share their weights, can be cut
        in one way only.
        """
        first: dict[int, Call] = {}
        for call in self.calls:
            weight = tensor_of(self.modules[""], call)
            if weight is None:
                continue
            other = first.setdefault(id(weight), call)
            if other is not call:
                for a, b in ((other.inputs, call.inputs), (other.outputs, call.outputs)):
                    self._tie(a, b, f"the weights that {other.name!r} shares with {call.name!r}")

    # -------------------------------------------------------------------------- results
    def roots(self, shares: bool = False) -> np.ndarray[Any, Any]:
        """Label -> one label that stands for all those tied to it; with ``shares`` also
        for those that are best removed together.
        """
        return self._united([*self.ties, *self.shares] if shares else self.ties)

    def _united(self, ties: Iterable[tuple[Tensor, Tensor, str]]) -> np.ndarray[Any, Any]:
        """Label -> the smallest label that it is tied to, directly or through others."""
        root = np.arange(self.count)
        pairs = [(a.flatten().numpy(), b.flatten().numpy()) for a, b, _ in ties]
        if not pairs:
            return root
        a, b = (np.concatenate(side) for side in zip(*pairs, strict=True))
        a, b = a[(a > 0) & (b > 0)], b[(a > 0) & (b > 0)]
        # hang the larger of two roots below the smaller, then shorten the ways, till
        # all ties are inside
        while True:
            root_a, root_b = root[a], root[b]
            if (root_a == root_b).all():
                return root
            smaller = np.minimum(root_a, root_b)
            np.minimum.at(root, root_a, smaller)
            np.minimum.at(root, root_b, smaller)
            while (root[root] != root).any():
                root = root[root]

    def pinned(self, roots: np.ndarray[Any, Any]) -> dict[int, str]:
        """Root -> why its channel cannot be removed."""
        reasons: dict[int, str] = {}
        for labels, reason in self.pins:
            for root in np.unique(roots[labels.numpy()]).tolist():
                reasons.setdefault(root, reason)
        return reasons

    def groups(self) -> list[Group]:
        roots = self.roots(shares=True)
        reasons = self.pinned(roots)
        made: dict[str, Tensor] = {}  # producer -> its channels
        for call in self.calls:
            if call.kind in MAKERS:
                made.setdefault(call.name, call.outputs)
        own = [(labels[:1].expand_as(labels), labels, "") for labels in made.values()]
        team_of = self._united([*self.ties, *self.shares, *own])
        teams: dict[int, list[str]] = {}  # producers that share a root
        for name, labels in made.items():
            teams.setdefault(int(team_of[labels[0]]), []).append(name)
        made = {name: torch.from_numpy(roots[labels.numpy()]) for name, labels in made.items()}
        return [self._group(team, made, roots, reasons) for team in teams.values()]

    def _group(
        self,
        team: list[str],
        made: Mapping[str, Tensor],
        roots: np.ndarray[Any, Any],
        reasons: Mapping[int, str],
    ) -> Group:
        position: dict[int, int] = {}
        for name in team:
            for root in made[name].tolist():
                position.setdefault(root, len(position))
        mine = np.zeros(self.count, bool)
        mine[list(position)] = True
        followers: dict[str, None] = {}
        consumers: dict[str, None] = {}
        for call in self.calls:
            if call.kind in MAKERS:
                if mine[roots[call.inputs.numpy()]].any():
                    consumers[call.name] = None
            elif mine[roots[call.outputs.numpy()]].any():
                followers[call.name] = None
        index = {name: torch.tensor([position[r] for r in made[name].tolist()]) for name in team}
        reason = next((reasons[r] for r in position if r in reasons), None)
        if reason is None and len(position) == 1 < len(made[team[0]]):
            shares = (w for a, _, w in self.shares if mine[roots[a.flatten().numpy()]].any())
            places = " and ".join(list(dict.fromkeys(shares))[:2])
            reason = f"they can only be removed all together, because of {places}"
        return Group(len(position), tuple(team), tuple(followers), tuple(consumers), reason, index)


def tensor_of(model: nn.Module, call: Call) -> Tensor | None:
    """The weight of the layer that is called, or the parameter itself."""
    path, _, name = call.name.rpartition(".")
    if call.kind == "parameter":
        return getattr(model.get_submodule(path), name)
    return model.get_submodule(call.name).weight  # type: ignore[return-value]


def _along(labels: Tensor, dim: int, ndim: int) -> Tensor:
    """A vector (C,) as a compact tensor of ``ndim`` dimensions that varies along
    ``dim``.
    """
    return labels.double().view([-1 if d == dim else 1 for d in range(ndim)])
