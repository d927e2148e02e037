"""Which channels of a model belong together: found by following every channel through
the operations of the model.

Each filter of a convolution and each unit of a linear layer makes one channel. It gets
a label, and the label is carried along: batch norm and ReLU hand it on, flatten repeats
it H·W times, concatenation puts labels side by side, and where two tensors are added,
the labels at the same place are *tied*: neither channel can be removed without the
other. An operation that is not in the table below *pins* the labels that it reads.

A grouped convolution loses whole groups or equally many channels of each, and a tensor
that is cut into equal parts must stay divisible. Groups of channels are chosen so that
this holds: their *shares* are tied as well.

Source: Fang et al. 2023, "DepGraph: Towards Any Structural Pruning", which finds the
same groups from autograd's graph; here they come from the model's code, so that a
refusal can name the operation.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, fx, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.conv import _ConvNd, _ConvTransposeNd
from torch.nn.modules.instancenorm import _InstanceNorm

from course_lib.checks import check_mask
from course_lib.pruning.channels.trace import carry_out, trace

Tie = tuple[Tensor, Tensor, str]  # labels, those that they are tied to, and where


@dataclass(frozen=True)
class Group:
    """Channels that are removed together, and the layers they run through.

    Each of the ``producers`` (convolutions, linear layers) makes all ``channels``, or some
    of them: its channel c is channel ``index[producer][c]`` of the group. Several channels
    of a producer are one of the group where they can only be removed together.
    ``followers`` (batch norms, depthwise convolutions) are cut along; ``consumers`` lose
    input channels. ``pinned`` says why the channels cannot be removed, or is None.
    """

    channels: int
    producers: tuple[str, ...]
    followers: tuple[str, ...]
    consumers: tuple[str, ...]
    pinned: str | None = None
    index: Mapping[str, Tensor] = field(default_factory=dict, repr=False, compare=False)

    def masks(self, keep: Tensor) -> dict[str, Tensor]:
        """A mask of the group, bool (channels,), as masks of its producers, which
        ``remove_filters`` takes.
        """
        check_mask(keep, f"the mask of the group of {', '.join(self.producers)}", (self.channels,))
        return {name: keep[index.to(keep.device)] for name, index in self.index.items()}


def channel_groups(model: nn.Module, example: Tensor) -> list[Group]:
    """Which layers' channels are tied together, in the order in which the model makes
    them. Groups that cannot be removed (the logits, for one) are there too.

    Args:
        model: any module that torch.fx can follow. Not changed, and nothing is computed
            with its weights.
        example: a batch as the model takes it; only its shape and dtype matter.

    Raises:
        ValueError: if the model cannot be followed, naming the place.
    """
    return Channels(model, example).groups()


# --------------------------------------------------------------- what an operation does
MAKERS = ("conv", "grouped", "linear")  # kinds of layers that make new channels
# for each rule of Channels the functions, methods and modules that it is for, in lower case
# and without underscores: max_pool2d, F.max_pool2d and nn.MaxPool2d are one name
_OPERATIONS = {
    "same": "identity dropout dropout1d dropout2d dropout3d featuredropout alphadropout"
    " stochasticdepth contiguous clone detach to float double half bfloat16 typeas"
    " relu relu6 leakyrelu rrelu elu selu celu gelu silu mish hardtanh hardswish"
    " hardsigmoid sigmoid logsigmoid tanh softplus softsign tanhshrink softshrink hardshrink"
    " threshold clamp clip clampmin clampmax abs neg exp log log1p sqrt rsqrt square sin cos erf"
    " pow sign reciprocal add sub mul div truediv truedivide multiply subtract divide maximum"
    " minimum iadd isub imul itruediv",
    "spatial": "maxpool1d maxpool2d maxpool3d avgpool1d avgpool2d avgpool3d adaptiveavgpool1d"
    " adaptiveavgpool2d adaptiveavgpool3d adaptivemaxpool1d adaptivemaxpool2d adaptivemaxpool3d"
    " interpolate upsample upsamplingnearest2d upsamplingbilinear2d pad zeropad1d zeropad2d"
    " zeropad3d constantpad1d constantpad2d constantpad3d reflectionpad1d reflectionpad2d"
    " reflectionpad3d replicationpad1d replicationpad2d replicationpad3d circularpad1d"
    " circularpad2d circularpad3d",
    "moving": "view reshape flatten unflatten permute transpose swapaxes t squeeze unsqueeze"
    " expand repeat flip narrow select chunk split tensorsplit unbind getitem cat concat"
    " concatenate stack channelshuffle expandas",
    "reducing": "mean sum amax amin",
}
_RULES = {name: rule for rule, names in _OPERATIONS.items() for name in names.split()}
# packages whose functions are known by name
_PACKAGES = frozenset(("torch", "_operator", "builtins", "torchvision"))


def layer_kind(module: nn.Module) -> str | None:
    """What a layer with weights does to channels: "conv", "grouped", "depthwise",
    "linear", "norm", "prelu", or None. A subclass counts as the layer it is derived from
    as long as it computes the same way.
    """
    if not type(module).forward.__module__.startswith("torch.nn.modules."):
        return None
    if isinstance(module, _ConvNd):
        if module.groups == 1:
            return "conv"
        if isinstance(module, _ConvTransposeNd):
            return None
        return "depthwise" if module.groups == module.in_channels else "grouped"
    if isinstance(module, _BatchNorm | _InstanceNorm):
        return "norm"
    slopes = isinstance(module, nn.PReLU) and module.num_parameters > 1
    return "linear" if isinstance(module, nn.Linear) else "prelu" if slopes else None


# ---------------------------------------------------------------------- compact tensors
# The labels of a tensor (B, C, H, W) are kept as (1, C, 1, 1): size 1 wherever they do
# not vary.
def _compress(full: Tensor) -> Tensor:
    """``full`` with every dimension along which nothing varies cut to size 1."""
    for d in range(full.ndim):
        if full.shape[d] > 1:
            first = full.narrow(d, 0, 1)
            if full.stride(d) == 0 or bool((full == first).all()):
                full = first
    return full


def _varying(compact: Tensor) -> list[int]:
    """The dimensions along which a compact tensor varies."""
    return [d for d, size in enumerate(compact.shape) if size > 1]


def _blank(value: Any) -> Any:
    """Labels 0 in the form of ``value``; None if it holds no tensor."""
    if isinstance(value, Tensor):
        return torch.zeros((1,) * value.ndim, dtype=torch.long)
    value = tuple(value.values()) if isinstance(value, dict) else value
    if not isinstance(value, tuple | list) or not any(isinstance(v, Tensor) for v in value):
        return None
    return tuple(_blank(v) for v in value)


# ------------------------------------------------------------------------- the channels
def function_name(node: fx.Node) -> str:
    """The name of a function or method, without the underscore of those that work in
    place.
    """
    target: Any = node.target
    name = target if isinstance(target, str) else getattr(target, "__name__", str(target))
    return name.rstrip("_") or name


@dataclass(frozen=True)
class Call:
    """A layer with weights: the labels of the channels it reads (C,) and of those it makes
    (M,).
    """

    kind: str
    node: fx.Node
    inputs: Tensor
    outputs: Tensor


class Channels:
    """The labels of all channels of a model, and which of them are tied or pinned. Label 0
    is for what is no channel of any layer.
    """

    def __init__(self, model: nn.Module, example: Tensor) -> None:
        skeleton, graph = trace(model, example)
        self.modules = dict(skeleton.named_modules())
        self.calls: dict[str, Call] = {}
        self.times: Counter[str] = Counter()  # how often a layer is called
        self.state: dict[fx.Node, Any] = {}  # node -> compact labels, or a tuple of such
        self.ties: list[Tie] = []
        self.shares: list[Tie] = []  # ties that only a choice needs
        self.pins: list[tuple[Tensor, str]] = []
        self.unread: dict[str, str] = {}  # a layer that cannot be followed -> why
        self.read: dict[str, str] = {}  # a layer whose tensors are read -> the tensor
        self.borders = False  # whether zeros may be put round maps, other than in layers
        self.count = 1
        for node in graph.nodes:
            self.state[node] = self._follow(node, node is next(iter(graph.nodes)))
        owners: dict[int, str] = {}
        for name, call in self.calls.items():
            for parameter in self.modules[name].parameters():
                other = owners.setdefault(id(parameter), name)
                if other != name:
                    reason = f"{other!r} and {name!r} share weights"
                    self._pin_call(self.calls[other], reason)
                    self._pin_call(call, reason)
            if name in self.read:
                what = f"the forward pass reads {self.read[name]!r} without calling {name!r}"
                self._pin_call(call, what)

    def describe(self, node: fx.Node) -> str:
        """``node`` in words for a message: which operation, and where in the model."""
        if node.op == "call_module":
            return f"{node.target!r} ({type(self.modules[str(node.target)]).__name__})"
        path = next(reversed(node.meta.get("nn_module_stack") or {"": None}))
        where = repr(path) if path else "the model's forward"
        return f"{function_name(node)} in {where}"

    # -------------------------------------------------------------------- one rule each
    def _follow(self, node: fx.Node, first: bool) -> Any:
        value: Any = node.meta.get("value")
        blank = _blank(value)
        if node.op == "placeholder" and first and value.ndim > 1:
            made = self._new_labels(value.shape[1])
            self.pins.append((made, "they are the channels of the model's input"))
            return made.view([-1 if d == 1 else 1 for d in range(value.ndim)])
        path = str(node.target).rpartition(".")[0]
        if node.op == "get_attr" and any(
            _blank(u.meta.get("value")) is not None for u in node.users
        ):
            self.read[path] = str(node.target)
        read = [n for n in node.all_input_nodes if self.state[n] is not None]
        if node.op == "output":
            self._pin(read, "they are the model's output")
        if blank is None or not read or node.op == "output":  # a size, or made from sizes
            return blank
        module = self.modules[str(node.target)] if node.op == "call_module" else None
        if module is not None and layer_kind(module):
            followed = self._layer(node, module)
        else:
            rules = {"same": self._same, "moving": self._moving, "reducing": self._reducing}
            rule = self._rule(node, module) or ""
            followed = rules.get(rule.replace("spatial", "same"), lambda *_: None)(node, module)
        if followed is None:
            what = self.describe(node)
            why = f"{what} reads them, and how it would work with fewer channels is not known"
            self._pin(read, why)
        return blank if followed is None else followed

    def _rule(self, node: fx.Node, module: nn.Module | None) -> str | None:
        if isinstance(module, nn.PReLU):  # one slope for all channels; F.prelu may have many
            return "same"
        name = function_name(node) if module is None else type(module).__name__
        package = type(module).__module__ if module else getattr(node.target, "__module__", None)
        if node.op == "call_method" or (package or "torch").split(".")[0] in _PACKAGES:
            return _RULES.get(name.lower().replace("_", ""))
        return "spatial" if module is None and self._is_channelwise(node) else None

    def _is_channelwise(self, node: fx.Node) -> bool:
        """Whether a function that the user marked with ``torch.fx.wrap`` works on each
        channel alone: it is run with half of the channels.
        """
        shape = node.all_input_nodes[0].meta["value"].shape
        x = torch.rand(shape, generator=torch.Generator().manual_seed(0), device="cpu")
        try:
            whole = carry_out(node, None, lambda _: x.clone())
            half = carry_out(node, None, lambda _: x[:, ::2])
            return len(node.all_input_nodes) == 1 < shape[1] and torch.equal(whole[:, ::2], half)
        except Exception:  # user code, on what it was not written for
            return False

    def _layer(self, node: fx.Node, module: nn.Module) -> Tensor | None:
        kind, name, value = str(layer_kind(module)), str(node.target), node.meta["value"]
        source = node.all_input_nodes[0]
        labels, sizes = self.state[source], source.meta["value"].shape
        dim = value.ndim - 1 if kind == "linear" else 1
        if value.ndim < 2 + (len(module.kernel_size) if isinstance(module, _ConvNd) else 0):
            self.unread[name] = f"it reads a tensor of {value.ndim} dimensions, without a batch"
            return None
        if set(_varying(labels)) - {dim}:
            self.unread[name] = f"{self.describe(node)} reads another dimension than theirs"
            self._pin([source], self.unread[name])
            labels = _blank(value)
        inputs = labels.flatten().expand(sizes[dim])  # (C,)
        outputs = inputs.repeat_interleave(value.shape[dim] // sizes[dim])  # more if depthwise
        self.times[name] += 1
        if name in self.calls:
            self._tie(inputs, self.calls[name].inputs, f"the calls of {name!r}")
            outputs = self.calls[name].outputs
        elif kind in MAKERS:
            outputs = self._new_labels(value.shape[dim])
        call = self.calls.setdefault(name, Call(kind, node, inputs, outputs))
        if kind == "grouped":
            assert isinstance(module, _ConvNd)
            self._share_groups(
                inputs.view(module.groups, -1), outputs.view(module.groups, -1), name
            )
        tensors = [t for t in ("weight", "bias") if getattr(module, t, None) is not None]
        if any(t not in module._parameters for t in tensors):
            computed = f"the weights of {name!r} are computed from others: make them plain first"
            self._pin_call(call, f"{computed}, with parametrize.remove_parametrizations")
        return outputs.view([-1 if d == dim else 1 for d in range(value.ndim)])

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

    def _same(self, node: fx.Node, module: nn.Module | None) -> Tensor | None:
        """Each channel alone. Labels at the same place are tied, as in an addition; a
        tensor of size 1 there is broadcast, and ties none.
        """
        value = node.meta["value"]
        inputs = [n for n in node.all_input_nodes if isinstance(self.state[n], Tensor)]
        if not inputs or not isinstance(value, Tensor):
            return None
        parts = []  # labels and sizes, with as many dimensions as the result
        for n in inputs:
            missing = (1,) * (value.ndim - self.state[n].ndim)
            labels = self.state[n].view(*missing, *self.state[n].shape)
            parts.append((labels, (*missing, *n.meta["value"].shape)))
        varied = [labels for labels, _ in parts if _varying(labels)] or [parts[0][0]]
        result = varied[0]
        along = _varying(result)
        if any(value.shape[d] != result.shape[d] for d in along):
            return None
        if self._rule(node, module) == "spatial":
            if along not in ([], [1]):
                return None
            what = function_name(node) if module is None else type(module).__name__
            self.borders |= "adaptive" not in what.lower() and "max" not in what.lower()
        for labels, sizes in parts:
            if labels is result:
                continue
            if _varying(labels) == along:
                self._tie(result, labels, self.describe(node))
            elif _varying(labels) or any(sizes[d] > 1 for d in along):
                return None
        return result

    def _tie(self, a: Tensor, b: Tensor, where: str) -> None:
        a, b = a.flatten(), b.flatten()
        both = (a > 0) & (b > 0)
        self.ties.append((a[both], b[both], where))
        for one in (a[(b == 0) & (a > 0)], b[(a == 0) & (b > 0)]):
            self.pins.append((one, f"in {where} they meet a tensor of fixed size"))

    def _moving(self, node: fx.Node, module: nn.Module | None) -> Any:
        """Labels are moved by the operation itself."""
        many = bool(node.args) and isinstance(node.args[0], list | tuple)
        x, name = node.all_input_nodes[0], function_name(node)
        if name == "getitem" and isinstance(self.state[x], tuple):  # one of several results
            return self.state[x][node.args[1]]
        tensors = [n for n in node.all_input_nodes if isinstance(self.state[n], Tensor)]
        if x not in tensors or (len(tensors) > 1 and not many and name != "expand_as"):
            return None  # several results at once, or an index that is itself a tensor
        sizes = {n: list(n.meta["value"].shape) for n in tensors}
        if name in ("cat", "concat", "concatenate"):  # H x W equal numbers need not be copied
            along = int(node.kwargs.get("dim", node.args[1] if len(node.args) > 1 else 0))  # type: ignore[arg-type]
            for n in tensors:
                size = sizes[n][along]
                sizes[n] = list(self.state[n].shape)
                sizes[n][along] = size

        def labels_of(n: fx.Node) -> Any:
            return self.state[n].expand(sizes[n]) if n in sizes else n.meta["value"]

        try:
            if name == "view" and not node.kwargs:  # an expanded tensor has fewer views
                given: Any = fx.node.map_arg(node.args, labels_of)
                moved = given[0].reshape(*given[1:])
            else:
                moved = carry_out(node, module, labels_of)
        except (RuntimeError, TypeError):
            return None
        if isinstance(moved, Tensor):
            labels, before = _compress(moved), self.state[x]
            rows = None  # into how many equal parts the channels are viewed
            if isinstance(module, nn.ChannelShuffle) or name == "channel_shuffle":
                rows = int(module.groups if module is not None else node.args[1])  # type: ignore[arg-type]
            elif not many and len(_varying(before)) == 2 and len(_varying(labels)) == 1:
                rows = min(before.shape[d] for d in _varying(before))
                before = before.squeeze().T if before.squeeze().shape[0] > rows else before
            if rows is not None and _varying(before):
                part = before.flatten().view(rows, -1)
                self.shares.append((part[:1].expand_as(part), part, self.describe(node)))
            return labels
        parts = tuple(_compress(m) for m in moved)
        if name in ("chunk", "split", "tensor_split") and len({p.shape for p in parts}) == 1:
            for part in parts[1:] if _varying(parts[0]) == _varying(self.state[x]) else ():
                a, b = parts[0].flatten(), part.flatten()
                self.shares.append((a, b, self.describe(node)))
        return parts

    def _reducing(self, node: fx.Node, module: nn.Module | None) -> Tensor | None:
        x, *others = node.all_input_nodes
        dims = node.kwargs.get("dim", node.args[1] if len(node.args) > 1 else None)
        if others or dims is None:
            return None
        ndim = x.meta["value"].ndim
        reduced = [int(d) % ndim for d in (dims if isinstance(dims, list | tuple) else [dims])]  # type: ignore[arg-type]
        if set(reduced) & set(_varying(self.state[x])):
            return None
        kept = node.meta["value"].ndim == ndim
        return self.state[x] if kept else self.state[x].squeeze(reduced)

    # --------------------------------------------------------------------------- labels
    def _new_labels(self, size: int) -> Tensor:
        self.count += size
        return torch.arange(self.count - size, self.count)

    def _pin(self, nodes: Iterable[fx.Node], reason: str) -> None:
        for state in (self.state[n] for n in nodes):
            for labels in state if isinstance(state, tuple) else [state]:
                if isinstance(labels, Tensor) and labels.any():
                    self.pins.append((labels[labels > 0], reason))

    def _pin_call(self, call: Call, reason: str) -> None:
        self.pins += [(x[x > 0], reason) for x in (call.inputs, call.outputs)]

    # -------------------------------------------------------------------------- results
    def roots(self, ties: Iterable[Tie]) -> np.ndarray[Any, Any]:
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
        roots = self.roots([*self.ties, *self.shares])
        reasons = self.pinned(roots)
        made = {n: c.outputs for n, c in self.calls.items() if c.kind in MAKERS}
        own = [(labels[:1].expand_as(labels), labels, "") for labels in made.values()]
        team_of = self.roots([*self.ties, *self.shares, *own])
        teams: dict[int, list[str]] = {}  # producers that share a root
        for name, labels in made.items():
            teams.setdefault(int(team_of[labels[0]]), []).append(name)
        groups = []
        for team in teams.values():
            rooted = {name: roots[made[name].numpy()].tolist() for name in team}
            every = dict.fromkeys(root for each in rooted.values() for root in each)
            position = {root: i for i, root in enumerate(every)}
            index = {n: torch.tensor([position[r] for r in each]) for n, each in rooted.items()}
            mine = np.zeros(self.count, bool)
            mine[list(position)] = True
            reads = {n for n, c in self.calls.items() if mine[roots[c.inputs.numpy()]].any()}
            consumers = tuple(n for n in self.calls if n in reads and n in made)
            followers = tuple(n for n in self.calls if n in reads and n not in made)
            reason = next((reasons[r] for r in position if r in reasons), None)
            if reason is None and len(position) == 1 < len(made[team[0]]):
                where = [w for a, _, w in self.shares if mine[roots[a.flatten().numpy()]].any()]
                places = " and ".join(list(dict.fromkeys(where))[:2])
                reason = f"they can only be removed all together, because of {places}"
            groups.append(Group(len(position), tuple(team), followers, consumers, reason, index))
        return groups
