"""Dropping tokens inside a model: rows that are gone, so tensors that are shorter, not
rows that are masked.

::

    with dropping(model, {1: 0.5, 2: 0.15}) as drop:  # half stays after layer 1, then 15 %
        logits = model(**batch).logits
    drop.last.kept[2]                                 # (B, k): where they stood, -1 = padding

A masked token still costs what it cost; a dropped one costs nothing from there on. For
the tokens that stay both give the same numbers: what a row becomes in the feed-forward
block (FFN) depends on that row alone, and attention does not see the others either way.
Positions were added to the embeddings before the first layer and go with their rows.

The rows are dropped between attention and FFN, where a layer's scores are known and its
larger half is still to come. The models' own code runs, with forward hooks. Post-norm
(BERT): the attention block hands on one tensor, which the FFN reads and adds to its own
output; rows of that tensor go. Pre-norm (ViT): the tensor that the FFN's output is added to
stays inside the layer's ``forward``. So the FFN gets fewer rows, its outputs are put back
at their places, and the layer hands on the rows that stay.

Source: Goyal et al. 2020, "PoWER-BERT", section 3; Kim et al. 2022, "Learned Token
Pruning for Transformers".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import KW_ONLY, dataclass, field
from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor, nn

from course_lib.checks import check_names
from course_lib.models.attention import Attention, find_attention
from course_lib.models.families import RELATIVE, LayerLayout, known, rows_of
from course_lib.pruning.tokens import selection
from course_lib.pruning.tokens.selection import SoftThreshold, attention_rows, mean_over_heads
from course_lib.wrapped import hold_hooks, refuse_wrapped


@dataclass(frozen=True)
class EncoderLayer:
    """One layer of a model; the paths of its attention are from the layer."""

    module: nn.Module
    layout: LayerLayout
    attention: Attention


def encoder_layers(model: nn.Module) -> list[EncoderLayer]:
    """The layers of the one encoder in ``model``, in order. Decoders are refused."""
    layers, stacks = [], set()
    for name, module in model.named_modules():
        layout = next((row.tokens for row in rows_of(type(module)) if row.tokens), None)
        if layout is None:
            continue
        if not isinstance(layout, str) and getattr(module, layout.unless or "", None) is not None:
            layout = RELATIVE
        if isinstance(layout, str):
            raise ValueError(
                f"tokens cannot be dropped in a {type(module).__name__} ({name!r}): {layout}"
            )
        attention = find_attention(module)
        if len(attention) != 1 or attention[0].kind != "encoder":
            raise ValueError(
                f"layer {name!r} is of a decoder, and tokens are dropped in encoders: its first"
                " token sees no other, and what it generates next needs those that would be gone"
            )
        layers.append(EncoderLayer(module, layout, attention[0]))
        stacks.add(name.rpartition(".")[0])
    if not layers:
        refuse_wrapped(model, "parallel", "compile", "prune")
        raise ValueError(
            f"{type(model).__name__} has no encoder layer that is known here; known are"
            f" {', '.join(known('tokens'))}. For another, say what its layers are made of:"
            ' register("package.module.ItsLayer", tokens=LayerLayout(cut=...))'
        )
    if len(stacks) > 1:
        raise ValueError(
            f"{type(model).__name__} has several stacks of layers, {', '.join(sorted(stacks))}:"
            " pass the part of the model with the one whose tokens are to be dropped"
        )
    return layers


@dataclass
class ForwardRecord:
    """One forward pass: what was dropped where. B texts of L columns.

    - ``token_mask``: bool (B, L), True = a real token; ``lengths``: int64 (B,), how many.
    - ``kept``: for each layer int64 (B, k), the columns that went on, ascending; -1 = padding.
    - ``scores``: layer -> (B, L), the scores there (0: padding, or gone before).
    - ``weights``: layer -> (B, L), for soft thresholds: how much of each token went on,
      with its gradient. Nothing is dropped there, and ``kept`` has the tokens that would
      be there if they were hard.
    """

    token_mask: Tensor
    kept: list[Tensor]
    scores: dict[int, Tensor] = field(default_factory=dict)
    weights: dict[int, Tensor] = field(default_factory=dict)

    @property
    def lengths(self) -> Tensor:
        return self.token_mask.sum(1)

    @property
    def attention(self) -> Tensor:
        """How many tokens the attention of each layer worked on, int64 (layers, B)."""
        return torch.stack([self.lengths, *self.ffn[:-1]])

    @property
    def ffn(self) -> Tensor:
        """The same of each layer's FFN."""
        return torch.stack([(places >= 0).sum(1) for places in self.kept])

    def alive(self, layer: int) -> Tensor:
        """Which tokens went on from this layer: bool (B, L), in the columns of the input."""
        kept, (B, L) = self.kept[layer], self.token_mask.shape
        alive = torch.zeros(B, L + 1, dtype=torch.bool, device=kept.device)
        return alive.scatter_(1, kept % (L + 1), True)[:, :L]  # -1 is the column that is cut off

    def soft_share(self) -> Tensor:
        """The sparsity term for soft thresholds: how much of the tokens goes on, mean
        over layers, texts and the tokens of each. Long texts weigh no more than short ones.
        """
        if not self.weights:
            raise RuntimeError("no threshold was soft in this pass: call threshold.train() before")
        left = torch.stack(list(self.weights.values()))  # (layers, B, L), padding 0
        return (left.sum(2) / self.lengths).mean()


@dataclass
class _Pass:
    """The middle of a forward pass, where l of L columns are left."""

    record: ForwardRecord
    places: Tensor  # (B, l), where each row stood in the text
    counts: Tensor  # (B, l), log of how often each counts as a key: 0, less if soft, padding -inf
    mask: Tensor | None  # the attention mask for the rows that are left
    seen: dict[str, Any] = field(default_factory=dict)  # what parts of the layer at work gave
    cut: tuple[Tensor, int] | None = None  # pre-norm: the rows that its FFN works on, of how many


Policy = Callable[[Tensor, Tensor], Tensor]
Share = float | int | Tensor | Policy
Score = Literal["cls", "received", "random"] | Callable[[Tensor, Tensor, Tensor], Tensor]


@dataclass(eq=False)
class Dropping:
    """Inside the ``with`` block, tokens are dropped as ``model`` runs: in evaluation
    and in training.

    Works with the encoders that docs/families.md lists for tokens under eager and SDPA
    attention, bare or with a head that reads [CLS]. (A head that answers for every token
    gets the rows that are left; ``last.kept[-1]`` says which those are.) Each text keeps
    what it would keep alone: lengths may differ in a batch, padding changes nothing.
    Where all real tokens stay, the model runs as it is. Refused are other attention, masks
    that hide more than padding, texts padded on the left, and gradient checkpointing.

    Args:
        keep: what stays after the attention of which layer, counted from 0:

            - a dict layer -> share (``progressive_shares`` makes one). A float is a share
              of the text's length *at the start*, in (0, 1], rounded as ``kept_count`` does;
              an int or an int64 tensor (B,) is a number of tokens, [CLS] included. Those with
              the largest scores stay. Or a function (scores (B, l), token_mask (B, l)) -> bool
              (B, l); see ``threshold_policy``.
            - a :class:`~course_lib.pruning.tokens.SoftThreshold`: learned. In training
              mode nothing is dropped: a token that is 0.2 there counts 0.2 times among
              the keys of the layers behind, so 0 is the same as dropped. In eval mode
              rows go.
        score: "cls", attention of [CLS]: one row computed beside the model's attention,
            which may be a fused kernel; "received", attention received from all
            queries: taken from eager attention's weights, else computed, at the price
            of a second Q·Kᵀ; "random", the control, uniform, from ``generator``; or a
            function (rows (B, l, E), their columns in the text (B, l), token_mask (B, l))
            -> (B, l).
        heads: bool (layers, H), or (H,) for each layer, True = the head votes. With gated
            heads the mask that gates them, so that the tokens chosen are those of the model
            without them: ``with gated(model, keep), dropping(model, shares, heads=keep)``.

    Attributes:
        last: the :class:`ForwardRecord` of the last complete forward pass, None before the
            first. ``drop.lengths()`` has what all passes cost.
    """

    model: nn.Module
    keep: Mapping[int, Share] | SoftThreshold
    _: KW_ONLY
    score: Score = "cls"
    heads: Tensor | Sequence[Tensor] | None = None
    generator: torch.Generator | None = None
    last: ForwardRecord | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self.layers = encoder_layers(self.model)
        self._pass: _Pass | None = None
        self._passes: list[tuple[Tensor, Tensor]] = []  # what each cost, (layers, B) twice
        keep = self.keep if isinstance(self.keep, Mapping) else range(len(self.keep.theta))
        self._at = frozenset(keep)
        self._check_layers(self._at)
        for share in keep.values() if isinstance(keep, Mapping) else ():
            if isinstance(share, float):
                selection.check_fraction(share)
        if not callable(self.score):
            check_names([self.score], ("cls", "received", "random"), "score")
        self._attends = self.score in ("cls", "received")
        if self._attends and any(layer.attention.fused for layer in self.layers):
            raise ValueError(
                f"score {self.score!r} needs queries and keys from two layers, and here one makes"
                " both: give a function"
            )
        if self.score == "random" and self.generator is None:
            raise ValueError("generator is needed for a random score: torch.Generator()")
        if self.heads is not None and len(self.heads) != len(self.layers):
            raise ValueError(f"heads has {len(self.heads)} rows for {len(self.layers)} layers")

    def _check_layers(self, at: frozenset[int]) -> None:
        if wrong := at - {*range(count := len(self.layers))}:
            raise ValueError(f"model has layers 0 to {count - 1}, there is no layer {min(wrong)}")

    def lengths(self) -> tuple[Tensor, Tensor]:
        """Real tokens that the attention and the FFN of each layer worked on, over all
        texts so far: two (layers, N), for :func:`course_lib.cost.tokens.texts_macs`."""
        if not self._passes:
            raise RuntimeError("no forward pass was completed inside this block yet")
        attention, ffn = (torch.cat(part, 1).cpu() for part in zip(*self._passes, strict=True))
        return attention, ffn

    def __enter__(self) -> Dropping:
        first = self.layers[0].module
        for hook in first._forward_pre_hooks.values():
            if isinstance(getattr(getattr(hook, "func", None), "__self__", None), Dropping):
                raise RuntimeError("tokens of model are dropped already: leave that block first")
        config = getattr(first.get_submodule(self.layers[0].attention.name), "config", None)
        # attention that is not transformers' own: a mask that is added to the scores
        kind = getattr(config, "_attn_implementation", "eager")
        if kind not in ("eager", "sdpa"):
            raise ValueError(
                f"model has {kind!r} attention, whose masks are not known here: call"
                ' model.set_attn_implementation("sdpa") (or "eager") before'
            )
        with ExitStack() as block:
            hooks = block.enter_context(hold_hooks())
            for i, layer in enumerate(self.layers):
                for hook in self._hooks_of(i, layer):
                    hooks.callback(hook.remove)
            self._block = block.pop_all()  # no longer removed here, but by __exit__
        return self

    def __exit__(self, *error: object) -> None:
        self._block.close()
        self._pass = None

    def _hooks_of(self, i: int, layer: EncoderLayer) -> Iterator[Any]:
        """Hooks take time: only where there is something to do."""
        module, names, prenorm = layer.module, layer.attention, layer.layout.prenorm
        cut, drops = module.get_submodule(layer.layout.cut), i in self._at
        if i == 0 or i > min(self._at, default=i):
            yield module.register_forward_pre_hook(partial(self._enter, i), with_kwargs=True)
        if drops and self._attends:
            for name in (names.q, names.k, names.name):
                yield module.get_submodule(name).register_forward_hook(partial(self._note, name))
        if drops and prenorm:
            yield cut.register_forward_pre_hook(partial(self._drop, i))
            yield cut.register_forward_hook(self._put_back)
        elif drops:
            yield cut.register_forward_hook(partial(self._drop, i))
        if i == len(self.layers) - 1 or (drops and prenorm):
            # first in line, so that hidden states which transformers records are the shorter
            yield module.register_forward_hook(partial(self._leave, i), prepend=True)

    @property
    def _now(self) -> _Pass:
        if self._pass is None:
            raise RuntimeError(
                "a layer ran outside a forward pass of the whole encoder, so which tokens are left?"
                " (Gradient checkpointing does so: call model.gradient_checkpointing_disable())"
            )
        return self._pass

    def _enter(self, i: int, module: nn.Module, args: Any, kwargs: dict[str, Any]) -> Any:
        """A layer gets the mask for the rows that are left."""
        positional = len(args) > 1
        if i == 0:
            hidden = args[0] if args else kwargs["hidden_states"]
            mask = args[1] if positional else kwargs.get("attention_mask")
            real = _real_tokens(mask, hidden)
            places = torch.arange(real.shape[1], device=hidden.device).expand(real.shape)
            record = ForwardRecord(real, [places.masked_fill(~real, -1)] * len(self.layers))
            self._pass = _Pass(record, places, _log_counts(real, hidden), mask)
        if positional:
            return (args[0], self._now.mask, *args[2:]), kwargs
        return args, kwargs | {"attention_mask": self._now.mask}

    def _note(self, name: str, module: nn.Module, args: Any, out: Any) -> None:
        self._now.seen[name] = out

    def _drop(self, i: int, module: nn.Module, args: tuple[Any, ...], out: Any = None) -> Any:
        """Post-norm: rows of what attention gave. Pre-norm: of what the FFN is to read."""
        rows = args if out is None else out
        hidden = rows[0] if isinstance(rows, tuple) else rows
        index = self._decide(i, hidden)
        if index is not None and self.layers[i].layout.prenorm:
            self._now.cut = index, hidden.shape[1]
        return _gathered(rows, index)

    def _put_back(self, module: nn.Module, args: Any, out: Tensor) -> Tensor:
        """A pre-norm layer adds this to all of its rows: each goes back to its place."""
        if self._now.cut is None:
            return out
        index, rows = self._now.cut
        full = out.new_zeros(len(out), rows, out.shape[2])
        return full.scatter(1, index[:, :, None].expand_as(out), out)

    def _leave(self, i: int, module: nn.Module, args: Any, out: Any) -> Any:
        now = self._now
        index, now.cut = now.cut[0] if now.cut else None, None
        if i == len(self.layers) - 1:
            self.last, self._pass = now.record, None
            self._passes.append((now.record.attention, now.record.ffn))
        return _gathered(out, index)

    def _decide(self, i: int, hidden: Tensor) -> Tensor | None:
        """The rows of ``hidden`` that stay after layer i, (B, k); None for all of them.
        The pass is of those, then.
        """
        now, protected = self._now, self.layers[i].layout.protected
        real, kept = now.counts > -torch.inf, now.record.kept
        soft = self.keep if isinstance(self.keep, SoftThreshold) and self.keep.training else None
        with torch.set_grad_enabled(torch.is_grad_enabled() and soft is not None):
            score = self._scored(i, hidden, real)
        noted = torch.zeros_like(now.record.token_mask, dtype=score.dtype)
        noted.scatter_add_(1, now.places, score.detach().masked_fill(~real, 0))
        now.record.scores[i] = noted
        if soft is not None:
            # nothing goes, but keys count less, in the limit not at all, as if dropped
            gate = soft(score, i, now.counts.exp())  # (B, L)
            gate = gate.masked_fill((now.places < protected) | ~real, 1)
            now.counts = now.counts + gate.clamp_min(torch.finfo(gate.dtype).tiny).log()
            now.mask = _mask_of(now.counts, hidden)
            now.record.weights[i] = now.counts.exp()
            kept[i:] = [kept[i].masked_fill(gate.detach() < 0.5, -1)] * len(kept[i:])
            return None
        with torch.no_grad():
            keep = self._kept(i, score.detach(), real)
            keep[:, :protected] = True
            keep &= real
            if bool((keep == real).all()):
                return None
            index, valid = selection.positions(keep, real, int(keep.sum(1).max()))  # (B, k)
            now.places, now.counts = now.places.gather(1, index), _log_counts(valid, hidden)
            now.mask = _mask_of(now.counts, hidden)
            kept[i:] = [now.places.masked_fill(~valid, -1)] * len(kept[i:])
        return index

    def _scored(self, i: int, hidden: Tensor, real: Tensor) -> Tensor:
        if callable(self.score):
            return _fitting(self.score(hidden, self._now.places, real), real, "score")
        if self._attends:
            return self._attention_score(i)
        assert self.generator is not None
        # none for padding: the same draw however far the batch is padded
        n, device = int(real.sum()), self.generator.device
        drawn = torch.rand(n, generator=self.generator, device=device).to(real.device)
        return torch.zeros(real.shape, device=real.device).masked_scatter_(real, drawn)

    def _attention_score(self, i: int) -> Tensor:
        now, layer, heads = self._now, self.layers[i], self._heads_of(i)
        names, d, seen, now.seen = layer.attention, layer.attention.head_size, now.seen, {}
        if names.k not in seen or (heads is not None and not bool(heads.any(-1).all())):
            raise ValueError(f"no head of layer {i} is left to score its tokens: score elsewhere")
        # (B, H, l, d)
        query, key = (seen[n].unflatten(-1, (-1, d)).transpose(1, 2) for n in (names.q, names.k))
        attention, out = layer.module.get_submodule(names.name), seen[names.name]
        scale = float(getattr(attention, "scaling", d**-0.5))
        if self.score == "cls":
            query = query[:, :, : layer.layout.protected]
            return attention_rows(query, key, now.counts, scale, heads).mean(1)
        given = out[1] if isinstance(out, tuple) and len(out) > 1 else None
        if given is not None and not attention.training:  # in training these have had dropout
            rows = mean_over_heads(given.to(now.counts.dtype), heads)
        else:
            rows = attention_rows(query, key, now.counts, scale, heads)
        return selection.of_columns(rows, now.counts.exp())

    def _heads_of(self, i: int) -> Tensor | None:
        """Which heads of layer i vote. A grid (layers, H) is as wide as the largest layer."""
        return None if self.heads is None else self.heads[i][: self.layers[i].attention.heads]

    def _kept(self, i: int, score: Tensor, real: Tensor) -> Tensor:
        if isinstance(self.keep, SoftThreshold):
            return self.keep(score, i, real).bool()
        k = self.keep[i]
        if callable(k):
            return _fitting(k(score, real), real, "keep").bool()
        if isinstance(k, float):
            k = selection.kept_count(self._now.record.lengths, k)
        return selection.top_tokens(score, real, k, self.layers[i].layout.protected)


def _fitting(made: Tensor, real: Tensor, name: str) -> Tensor:
    if made.shape != real.shape:
        raise ValueError(f"{name} should give {tuple(real.shape)}, got {tuple(made.shape)}")
    return made


def _real_tokens(mask: Tensor | None, hidden: Tensor) -> Tensor:
    """The tokens that are not padding, bool (B, L), by the mask that transformers hands a
    layer: None, bool (B, 1, L, L) with True = may look (SDPA), or the same in floats, 0 =
    may look and the least float = may not (eager).
    """
    B, L = hidden.shape[:2]
    if mask is None:
        return torch.ones(B, L, dtype=torch.bool, device=hidden.device)
    if mask.ndim != 4 or mask.shape[3] != L:
        raise ValueError(
            f"attention_mask of a layer is (B, 1, L, L) with L = {L}, got {tuple(mask.shape)}"
        )
    if mask.stride(2) == 0:
        mask = mask[:, :, :1]  # expanded: one row says it all
    seen = mask if mask.dtype == torch.bool else mask == 0
    other = seen != seen[:, :1, :1]
    if mask.dtype != torch.bool:
        other |= ~seen & (mask > torch.finfo(mask.dtype).min / 2)
    if bool(other.any()):
        raise ValueError(
            "attention_mask says more than which tokens are padding, hidden from every query, and"
            " tokens can be dropped under no other mask: pass one of shape (B, L)"
        )
    real = seen[:, 0, 0].expand(B, L)
    selection.check_cls(real)
    return real


def _log_counts(real: Tensor, hidden: Tensor) -> Tensor:
    """0 for a token that is there, -inf for padding, at least in float32."""
    counts = torch.zeros_like(real, dtype=torch.promote_types(hidden.dtype, torch.float32))
    return counts.masked_fill(~real, float("-inf"))


def _mask_of(counts: Tensor, hidden: Tensor) -> Tensor | None:
    """The attention mask under which key i counts exp(counts[:, i]) times, added to the
    scores: (B, 1, 1, l), or None if each counts once.
    """
    if not counts.requires_grad and bool((counts == 0).all()):
        return None
    least = torch.finfo(hidden.dtype).min
    return counts.clamp(min=least).to(hidden.dtype)[:, None, None, :]


def _gathered(out: Any, index: Tensor | None) -> Any:
    """The same with the rows at ``index`` (B, k) alone; None: with all of them."""
    if index is None:
        return out
    if isinstance(out, tuple):
        return (selection.gather_rows(out[0], index), *out[1:])
    return selection.gather_rows(out, index)


dropping = Dropping
