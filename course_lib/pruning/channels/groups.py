"""Which channels of a model belong together: found by following every channel through
the operations of the model.

Each filter of a convolution and each unit of a linear layer makes one channel. It gets
a label, and the label is carried along: batch norm and ReLU hand it on, flatten repeats
it H·W times, concatenation puts labels side by side, and where two tensors are added,
the labels at the same place are *tied*: neither channel can be removed without the
other. An operation that is not in the table below *pins* the labels that it reads. What
the labels do not show, removal finds by running the smaller model.

A grouped convolution loses whole groups or equally many channels of each, and a tensor
that is cut into equal parts must stay divisible: these *shares* are tied in groups.

Source: Fang et al. 2023, "DepGraph: Towards Any Structural Pruning", which finds the
same groups from autograd's graph; the model's code lets a refusal name the operation.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from torch import Tensor, fx, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.conv import _ConvNd, _ConvTransposeNd
from torch.nn.modules.instancenorm import _InstanceNorm

from course_lib.checks import check_mask
from course_lib.pruning.channels.trace import Trace

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
        model: any module that torch.fx can follow. Not changed.
        example: a batch as the model takes it; only its shape and dtype matter.

    Raises:
        ValueError: if the model cannot be followed, naming the place.
    """
    return Channels(model, example).groups()


# --------------------------------------------------------------- what an operation does
MAKERS = ("conv", "grouped", "linear")  # kinds of layers that make new channels
# for each rule of Channels the functions, methods and modules that it is for, in lower case
# and without underscores: max_pool2d, F.max_pool2d and nn.MaxPool2d are one name. Others
# are tried out
_OPERATIONS = {
    # each channel alone, or with those at the same place
    "same": "identity dropout stochasticdepth contiguous clone detach to float typeas relu relu6"
    " leakyrelu gelu silu hardswish hardsigmoid sigmoid tanh clamp exp sqrt pow add sub mul div"
    " truediv multiply subtract divide maximum minimum iadd isub imul itruediv prelu interpolate"
    " maxpool1d maxpool2d maxpool3d adaptiveavgpool1d adaptiveavgpool2d adaptiveavgpool3d",
    "moving": "view reshape flatten unflatten permute transpose swapaxes squeeze unsqueeze expand"
    " repeat flip narrow select chunk split tensorsplit unbind getitem cat concat concatenate"
    " stack expandas",
    "reducing": "mean sum amax amin",
}
_RULES = {name: rule for rule, names in _OPERATIONS.items() for name in names.split()}


def layer_kind(module: nn.Module) -> str | None:
    """What a layer with weights does to channels: "conv", "grouped", "depthwise",
    "linear", "norm", "prelu", or None. A subclass counts as the layer it is derived from
    as long as it computes the same way, with a weight that is a parameter.
    """
    if not type(module).forward.__module__.startswith("torch.nn.modules."):
        return None
    if isinstance(module, _ConvNd | nn.Linear) and "weight" not in module._parameters:
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
class Call(NamedTuple):
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
        self.trace = Trace(model, example)
        self.modules = dict(self.trace.module.named_modules())
        self.calls: dict[str, Call] = {}
        self.times: Counter[str] = Counter()  # how often a layer is called
        self.state: dict[fx.Node, Any] = {}  # node -> compact labels, or a tuple of such
        self.ties: list[Tie] = []
        self.shares: list[Tie] = []  # ties that only a choice needs
        self.pins: list[tuple[Tensor, str]] = []
        self.borders = False  # whether zeros may be put round maps, other than in layers
        self.count = 1
        for node in self.trace.graph.nodes:
            self.state[node] = self._follow(node)

    def _say(self, node: fx.Node) -> str:
        """``node`` in words for a message: which operation, and where in the model."""
        if node.op == "call_module":
            return f"{node.target!r} ({type(self.modules[str(node.target)]).__name__})"
        path = next(reversed(node.meta.get("nn_module_stack") or {"": None}))
        return f"{self._name(node)} in " + (repr(path) if path else "the model's forward")

    def _name(self, node: fx.Node) -> str:
        target: Any = node.target
        if node.op == "call_module":
            target = type(self.modules[target])
        return (target if isinstance(target, str) else target.__name__).rstrip("_")

    # -------------------------------------------------------------------- one rule each
    def _follow(self, node: fx.Node) -> Any:
        value: Any = node.meta["value"]
        blank = _blank(value)
        if node.op == "placeholder" and not self.state and value.ndim > 1:
            made = self._new_labels(value.shape[1])
            self.pins.append((made, "they are the channels of the model's input"))
            return made.view([-1 if d == 1 else 1 for d in range(value.ndim)])
        read = [n for n in node.all_input_nodes if self.state[n] is not None]
        if node.op == "output":
            self._pin(read, "they are the model's output")
        if blank is None or not read or node.op == "output":  # a size, or made from sizes
            return blank
        try:
            followed = self._carried(node)
        except (RuntimeError, TypeError):  # of torch, on labels
            followed = None
        if followed is None:
            what = self._say(node)
            why = f"{what} reads them, and how it would work with fewer channels is not known"
            self._pin(read, why)
        return blank if followed is None else followed

    def _carried(self, node: fx.Node) -> Any:
        """The labels of what ``node`` makes; None if it is not known."""
        if node.op == "call_module" and layer_kind(self.modules[str(node.target)]):
            return self._layer(node)
        rule = _RULES.get(self._name(node).lower().replace("_", ""))
        if rule in ("moving", "reducing"):
            return self._moving(node, rule)
        if rule is None and not self._is_channelwise(node):
            return None
        self.borders |= rule is None
        return self._same(node)

    def _is_channelwise(self, node: fx.Node) -> bool:
        """Whether an operation that is not in the table, the user's own function for example,
        works on each channel alone: it is run with half of the channels.
        """
        (first, *others), generator = node.all_input_nodes, torch.Generator().manual_seed(0)
        if others or len(along := _varying(self.state[first])) != 1:
            return False
        x = torch.rand(first.meta["value"].shape, generator=generator, device="cpu")
        half = torch.arange(0, x.shape[along[0]], 2)
        try:
            whole = self.trace.carry_out(node, lambda _: x.clone()).index_select(along[0], half)
            part = self.trace.carry_out(node, lambda _: x.index_select(along[0], half))
        except Exception:  # user code, on what it was not written for
            return False
        return torch.equal(whole, part)

    def _layer(self, node: fx.Node) -> Tensor | None:
        name, value = str(node.target), node.meta["value"]
        module: Any = self.modules[name]
        kind, source = str(layer_kind(module)), node.all_input_nodes[0]
        labels, sizes = self.state[source], source.meta["value"].shape
        dim = value.ndim - 1 if kind == "linear" else 1
        if value.ndim < 2 + (len(module.kernel_size) if isinstance(module, _ConvNd) else 0):
            return None  # without a batch
        if set(_varying(labels)) - {dim}:
            self._pin([source], f"{self._say(node)} reads another dimension than theirs")
            labels = _blank(value)
        inputs = labels.flatten().expand(sizes[dim])  # (C,)
        outputs = inputs.repeat_interleave(value.shape[dim] // sizes[dim])  # more if depthwise
        self.times[name] += 1
        if name in self.calls:
            self._tie(inputs, self.calls[name].inputs, f"the calls of {name!r}")
            outputs = self.calls[name].outputs
        elif kind in MAKERS:
            outputs = self._new_labels(value.shape[dim])
        self.calls.setdefault(name, Call(kind, node, inputs, outputs))
        if kind == "grouped":  # its groups go whole where they are many, else equal parts of each
            parts = [inputs.view(module.groups, -1), outputs.view(module.groups, -1)]
            many = module.groups > max(part.shape[1] for part in parts)
            for part in [torch.cat(parts, 1).T] if many else parts:
                self._share(part, f"the groups of {name!r}")
        return outputs.view([-1 if d == dim else 1 for d in range(value.ndim)])

    def _same(self, node: fx.Node) -> Tensor | None:
        """Each channel alone. Labels at the same place are tied, as in an addition; a
        tensor of size 1 there is broadcast, and ties none.
        """
        shape = node.meta["value"].shape
        parts = []  # labels and sizes, with as many dimensions as the result
        for n in node.all_input_nodes:
            if isinstance(self.state[n], Tensor):
                missing = (1,) * (len(shape) - self.state[n].ndim)
                labels = self.state[n].view(*missing, *self.state[n].shape)
                parts.append((labels, (*missing, *n.meta["value"].shape)))
        result = next((labels for labels, _ in parts if _varying(labels)), parts[0][0])
        along = _varying(result)
        if any(shape[d] != result.shape[d] for d in along):
            return None
        for labels, sizes in parts:
            if labels is not result and _varying(labels) == along:
                self._tie(result, labels, self._say(node))
            elif labels is not result and (_varying(labels) or any(sizes[d] > 1 for d in along)):
                return None
        return result

    def _moving(self, node: fx.Node, rule: str) -> Any:
        """Labels are moved by the operation itself."""
        x, name = node.all_input_nodes[0], self._name(node)
        before = self.state[x]
        if name == "getitem" and isinstance(before, tuple):  # one of several results
            return before[node.args[1]]  # type: ignore[index]
        tensors = [n for n in node.all_input_nodes if isinstance(self.state[n], Tensor)]
        many = bool(node.args) and isinstance(node.args[0], list | tuple)
        if x not in tensors or (len(tensors) > 1 and not many and name != "expand_as"):
            return None  # several results at once, or an index that is itself a tensor

        def labels_of(n: fx.Node) -> Any:
            sizes = list(getattr(n.meta["value"], "shape", ()))
            if name in ("cat", "concat", "concatenate"):  # H x W equal numbers are not copied
                along: Any = node.kwargs.get("dim", [*node.args, 0][1])
                sizes = [-1 if d != along % len(sizes) else size for d, size in enumerate(sizes)]
            return self.state[n].expand(sizes) if n in tensors else n.meta["value"]

        if rule == "reducing" or name == "view":  # an expanded tensor has fewer views
            args: Any = fx.node.map_arg(node.args, labels_of)
            kwargs: Any = fx.node.map_arg(node.kwargs, labels_of)
            if name == "view":
                moved = args[0].reshape(*args[1:])
            else:
                moved, low = (f(*args, **kwargs) for f in (torch.amax, torch.amin))
                if not torch.equal(moved, low):
                    return None
        else:
            moved = self.trace.carry_out(node, labels_of)
        if isinstance(moved, Tensor):
            labels = _compress(moved)
            if not many and len(_varying(before)) == 2 and len(_varying(labels)) == 1:
                # channels that were viewed as equal parts are channels again
                parts = before.squeeze()
                self._share(parts if len(parts) <= parts.shape[1] else parts.T, self._say(node))
            return labels
        pieces = tuple(_compress(m) for m in moved)
        equal = len({p.shape for p in pieces}) == 1 and _varying(pieces[0]) == _varying(before)
        if name in ("chunk", "split", "tensor_split") and equal:
            self._share(torch.stack([p.flatten() for p in pieces]), self._say(node))
        return pieces

    # --------------------------------------------------------------------------- labels
    def _new_labels(self, size: int) -> Tensor:
        self.count += size
        return torch.arange(self.count - size, self.count)

    def _tie(self, a: Tensor, b: Tensor, where: str) -> None:
        a, b = a.flatten(), b.flatten()
        both = (a > 0) & (b > 0)
        self.ties.append((a[both], b[both], where))
        for one in (a[(b == 0) & (a > 0)], b[(a == 0) & (b > 0)]):
            self.pins.append((one, f"in {where} they meet a tensor of fixed size"))

    def _share(self, parts: Tensor, where: str) -> None:
        """Of equal parts (parts, channels of each) the same channels are to go."""
        self.shares.append((parts[:1].expand_as(parts).flatten(), parts.flatten(), where))

    def _pin(self, nodes: Iterable[fx.Node], reason: str) -> None:
        for state in (self.state[n] for n in nodes):
            for labels in state if isinstance(state, tuple) else [state]:
                if isinstance(labels, Tensor) and labels.any():
                    self.pins.append((labels[labels > 0], reason))

    # -------------------------------------------------------------------------- results
    def roots(self, ties: Iterable[Tie]) -> Tensor:
        """Label -> a number that it has in common with those that it is tied to, directly or
        through others.
        """
        pairs = [torch.stack([a, b]) for a, b, _ in ties] + [torch.zeros(2, 0, dtype=torch.long)]
        a, b = torch.cat(pairs, 1).numpy()
        real = (a > 0) & (b > 0)
        tied = coo_array((real[real], (a[real], b[real])), shape=(self.count, self.count))
        return torch.from_numpy(connected_components(tied, directed=False)[1])

    def pinned(self, roots: Tensor) -> dict[int, str]:
        """Root -> why its channel cannot be removed."""
        reasons: dict[int, str] = {}
        for labels, reason in self.pins:
            for root in roots[labels].unique().tolist():
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
            rooted = {name: roots[made[name]].tolist() for name in team}
            every = dict.fromkeys(root for each in rooted.values() for root in each)
            position = {root: i for i, root in enumerate(every)}
            index = {n: torch.tensor([position[r] for r in each]) for n, each in rooted.items()}
            mine = torch.isin(roots, torch.tensor(list(position)))
            reads = [n for n, c in self.calls.items() if mine[c.inputs].any()]
            consumers = tuple(n for n in reads if n in made)
            followers = tuple(n for n in reads if n not in made)
            reason = next((reasons[r] for r in position if r in reasons), None)
            if reason is None and len(position) == 1 < len(made[team[0]]):
                where = dict.fromkeys(w for a, _, w in self.shares if mine[a].any())
                places = " and ".join(list(where)[:2])
                reason = f"they can only be removed all together, because of {places}"
            groups.append(Group(len(position), tuple(team), followers, consumers, reason, index))
        return groups
