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


@dataclass(frozen=True)
class Group:
    """Channels that are removed together, and the layers they run through.

    Each of the ``producers`` (convolutions, linear layers) makes all ``channels``, or some
    of them: its channel c is channel ``index[producer][c]`` of the group. Several channels
    of a producer are one of the group where they can only be removed together.
    ``followers`` (batch norms, depthwise convolutions, parameters with one number per
    channel) are cut along; ``consumers`` lose input channels.
    ``pinned`` says why the channels cannot be removed, or is None.
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
        each = module.groups == module.in_channels
        transposed = isinstance(module, _ConvTransposeNd)
        narrow = not transposed or module.groups == module.out_channels
        return "depthwise" if each and narrow else "grouped"
    if isinstance(module, nn.Linear):
        return "linear"
    if isinstance(module, _BatchNorm | _InstanceNorm):
        return "norm"
    return "prelu" if isinstance(module, nn.PReLU) and module.num_parameters > 1 else None


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


def _along(labels: Tensor, dim: int, ndim: int) -> Tensor:
    """Labels (C,) as a compact tensor of ``ndim`` dimensions that varies along ``dim``."""
    return labels.double().view([-1 if d == dim else 1 for d in range(ndim)])


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

    Label 0 is for what is no channel of any layer.
    """

    def __init__(self, model: nn.Module, example: Tensor) -> None:
        skeleton, self.graph = trace(model, example)
        self.modules = dict(skeleton.named_modules())
        self.calls: list[Call] = []
        self.state: dict[fx.Node, Any] = {}  # node -> compact labels, or a tuple of such
        self.ties: list[tuple[Tensor, Tensor, str]] = []
        self.shares: list[tuple[Tensor, Tensor, str]] = []  # ties that only a choice needs
        self.pins: list[tuple[Tensor, str]] = []
        self.unread: dict[str, str] = {}  # a layer that cannot be followed -> why
        self.read: dict[str, str] = {}  # a layer whose tensors are read -> the tensor
        self.own: set[int] = set()  # labels of parameters
        self.count = 1
        for node in self.graph.nodes:
            self.state[node] = self._follow(node)
        self._tie_shared_weights()
        for call in self.calls:
            if call.name in self.read:
                reason = f"the forward pass reads {self.read[call.name]!r} without calling it"
                self.pins += [(labels, reason) for labels in (call.inputs, call.outputs)]

    def module(self, node: fx.Node) -> nn.Module | None:
        return self.modules[str(node.target)] if node.op == "call_module" else None

    def describe(self, node: fx.Node) -> str:
        """``node`` in words for a message: which operation, and where in the model."""
        if node.op == "call_module":
            return f"{node.target!r} ({type(self.module(node)).__name__})"
        path = next(reversed(node.meta.get("nn_module_stack") or {"": None}))
        return f"{function_name(node)} in {path or 'forward'}"

    # -------------------------------------------------------------------- one rule each
    def _follow(self, node: fx.Node) -> Any:
        value, module = node.meta.get("value"), self.module(node)
        tensors = [n for n in node.all_input_nodes if self.state[n] is not None]
        if node.op == "placeholder":
            if not isinstance(value, Tensor):
                return None
            if node is not next(iter(self.graph.nodes)) or value.ndim < 2:
                return _fixed(value)
            made = self._new_labels(value.shape[1])
            self.pins.append((made, "they are the channels of the model's input"))
            return _along(made, 1, value.ndim)
        if node.op == "get_attr":
            return self._parameter(node)
        if node.op == "output":
            for n in tensors:
                self._pin(n, "they are the model's output")
            return None
        if _fixed(value) is None:  # a size, a dtype: no tensor
            return None
        if not tensors:
            return _fixed(value)
        if module is not None and layer_kind(module):
            followed = self._layer(node, module)
        else:
            rules: dict[str | None, Any] = {
                "same": self._same,
                "spatial": self._same,
                "moving": self._moving,
                "reducing": self._reducing,
            }
            rule = rules.get(self._rule(node, module))
            followed = rule(node, module) if rule else None
        return self._unknown(node) if followed is None else followed

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
        kind, name = str(layer_kind(module)), str(node.target)
        (source, *_), value = node.all_input_nodes, node.meta["value"]
        ndim, sizes = value.ndim, source.meta["value"].shape
        dim = ndim - 1 if kind == "linear" else 1
        batched = 2 + (len(module.kernel_size) if isinstance(module, _ConvNd) else 0)
        if ndim < batched:
            self.unread[name] = f"it reads a tensor of {ndim} dimensions, without a batch"
            return None
        labels = self.state[source]
        if set(_varying(labels)) - {dim}:
            self.unread[name] = f"{self.describe(node)} reads another dimension than theirs"
            self._pin(source, self.unread[name])
            labels = _fixed(value)
        inputs = labels.flatten().long().expand(sizes[dim])  # (C,)
        if kind in MAKERS:
            known = next((c for c in self.calls if c.name == name), None)
            outputs = known.outputs if known else self._new_labels(value.shape[dim])
        else:
            outputs = inputs.repeat_interleave(value.shape[1] // sizes[1])  # more if depthwise
        self.calls.append(Call(name, kind, node, inputs, outputs))
        if kind == "grouped":
            assert isinstance(module, _ConvNd)
            self._share_groups(
                inputs.view(module.groups, -1), outputs.view(module.groups, -1), name
            )
        tensors = [t for t in ("weight", "bias") if getattr(module, t, None) is not None]
        if any(t not in module._parameters for t in tensors):
            reason = (
                f"the weights of {name!r} are computed from others (weight norm, parametrization):"
                " make them plain first, with parametrize.remove_parametrizations"
            )
            self.pins += [(inputs, reason), (outputs, reason)]
        return _along(outputs, dim, ndim)

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
        meets; the tensors of a layer belong to the layer.
        """
        path, _, name = str(node.target).rpartition(".")
        value = node.meta["value"]
        owner = self.modules.get(path)
        if not isinstance(value, Tensor) or owner is None:
            return _fixed(value)
        if layer_kind(owner):
            if any(_fixed(user.meta.get("value")) is not None for user in node.users):
                self.read[path] = str(node.target)
            return _fixed(value)
        dims = [d for d, size in enumerate(value.shape) if size > 1]
        if len(dims) != 1 or name not in owner._parameters and name not in owner._buffers:
            return _fixed(value)
        known = next((c.outputs for c in self.calls if c.name == str(node.target)), None)
        made = self._new_labels(value.shape[dims[0]]) if known is None else known
        self.own.update(made.tolist())
        self.calls.append(Call(str(node.target), "parameter", node, made, made))
        return _along(made, dims[0], value.ndim)

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
        # a parameter follows what it meets, if there is anything else
        result = min(varied, key=lambda x: self.own.issuperset(x.flatten().long().tolist()))
        along = _varying(result)
        if any(value.shape[d] != result.shape[d] for d in along):
            return None
        if self._rule(node, module) == "spatial" and along not in ([], [1]):
            return None
        for labels, sizes in parts:
            if _varying(labels) == along:
                self._tie(result, labels, self.describe(node))
            elif _varying(labels) or any(sizes[d] > 1 for d in along):
                return None
        return result

    def _tie(self, a: Tensor, b: Tensor, where: str) -> None:
        a, b = a.flatten().long(), b.flatten().long()
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
        if name in ("cat", "concat", "concatenate"):
            # along channels, H x W equal numbers need not be copied for each
            along = int(node.kwargs.get("dim", node.args[1] if len(node.args) > 1 else 0))  # type: ignore[arg-type]
            for d in set(range(len(sizes[x]))) - {along % len(sizes[x])}:
                if all(self.state[n].shape[d] == 1 for n in tensors):
                    for n in tensors:
                        sizes[n][d] = 1

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
                part = before.flatten().long().view(rows, -1)
                self.shares.append((part[:1].expand_as(part), part, self.describe(node)))
            return labels
        parts = tuple(_compress(m) for m in moved)
        if name in ("chunk", "split", "tensor_split") and len({p.shape for p in parts}) == 1:
            for part in parts[1:] if _varying(parts[0]) == _varying(self.state[x]) else ():
                a, b = parts[0].flatten().long(), part.flatten().long()
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

    def _unknown(self, node: fx.Node) -> Any:
        why = f"{self.describe(node)} reads them, and how it would work with fewer is not known"
        for n in node.all_input_nodes:
            self._pin(n, why)
        return _fixed(node.meta["value"])

    # --------------------------------------------------------------------------- labels
    def _new_labels(self, size: int) -> Tensor:
        self.count += size
        return torch.arange(self.count - size, self.count)

    def _pin(self, node: fx.Node, reason: str) -> None:
        state = self.state[node]
        for labels in state if isinstance(state, tuple | list) else [state]:
            if isinstance(labels, Tensor) and labels.any():
                labels = labels.flatten().long()
                self.pins.append((labels[labels > 0], reason))

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
    def roots(self, ties: Iterable[tuple[Tensor, Tensor, str]]) -> np.ndarray[Any, Any]:
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
        made = {call.name: call.outputs for call in self.calls if call.kind in MAKERS}
        own = [(labels[:1].expand_as(labels), labels, "") for labels in made.values()]
        team_of = self.roots([*self.ties, *self.shares, *own])
        teams: dict[int, list[str]] = {}  # producers that share a root
        for name, labels in made.items():
            teams.setdefault(int(team_of[labels[0]]), []).append(name)
        return [self._group(team, made, roots, reasons) for team in teams.values()]

    def _group(
        self,
        team: list[str],
        made: Mapping[str, Tensor],
        roots: np.ndarray[Any, Any],
        reasons: Mapping[int, str],
    ) -> Group:
        rooted = {name: roots[made[name].numpy()].tolist() for name in team}
        every = dict.fromkeys(root for each in rooted.values() for root in each)
        position = {root: i for i, root in enumerate(every)}
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
        index = {n: torch.tensor([position[r] for r in each]) for n, each in rooted.items()}
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


def _fixed(value: Any) -> Any:
    """Labels 0 in the form of ``value``; None if it holds no tensor."""
    if isinstance(value, Tensor):
        return torch.zeros((1,) * value.ndim, dtype=torch.float64)
    if isinstance(value, dict):
        value = tuple(value.values())
    if not isinstance(value, tuple | list) or not any(isinstance(v, Tensor) for v in value):
        return None
    return tuple(_fixed(v) for v in value)
