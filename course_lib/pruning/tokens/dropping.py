"""Dropping tokens inside a model: rows that are gone, so tensors that are shorter, not
rows that are masked.

::

    with dropping(model, {1: 0.5, 2: 0.15}) as drop:  # half stays after layer 1, then 15 %
        logits = model(**batch).logits
    drop.last.kept[2]                                 # (B, k): where they stood, -1 = padding

A masked token still costs what it cost; the arithmetic is the same with zeros in it. A
dropped one costs nothing from there on. For the tokens that stay both give the same
numbers: what a row becomes in the feed-forward block (FFN) depends on that row alone,
and attention does not see the others either way. Positions were added to the embeddings
before the first layer and go with their rows.

The rows are dropped between attention and FFN of a layer, where the layer's scores are
known and its larger half is still to come. The models' own code runs, with forward
hooks that are taken off at the end of the block, also after an exception.

Source: Goyal et al. 2020, "PoWER-BERT", section 3; Kim et al. 2022, "Learned Token
Pruning for Transformers".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import KW_ONLY, dataclass, field
from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor, nn

from course_lib.checks import check_names
from course_lib.pruning.tokens.layers import EncoderLayer, encoder_layers
from course_lib.pruning.tokens.selection import (
    check_cls,
    check_fraction,
    gather_rows,
    kept_count,
    positions,
    top_tokens,
)
from course_lib.pruning.tokens.significance import attention_rows, mean_over_heads, of_columns
from course_lib.pruning.tokens.threshold import SoftThreshold, share_kept
from course_lib.wrapped import hold_hooks


@dataclass(frozen=True)
class ScoreContext:
    """What a score function of one's own gets to see.

    - ``layer``: where, from 0.
    - ``places``: int64 (B, l), where each row stood in the text.
    - ``token_mask``: bool (B, l), True = a token that is still there, False = padding.
    - ``hidden``: (B, l, E), the rows.
    """

    layer: int
    places: Tensor
    token_mask: Tensor
    hidden: Tensor


Share = float | int | Tensor
Policy = Callable[[Tensor, int, Tensor], Tensor]
Score = Literal["cls", "received", "random"] | Callable[[ScoreContext], Tensor]


@dataclass
class ForwardRecord:
    """One forward pass: what was dropped where. B texts of L columns.

    - ``token_mask``: bool (B, L), True = a real token; ``lengths``: int64 (B,), how many.
    - ``kept``: for each layer int64 (B, k), the columns that went on from it,
      ascending; -1 = padding.
    - ``scores``: layer -> (B, L), the scores there (0: padding, or gone before).
    - ``weights``: layer -> (B, L), for soft thresholds: how much of each token went on,
      with its gradient.

    With soft thresholds nothing is dropped, and the counts are of the tokens that would
    be there if they were hard.
    """

    token_mask: Tensor
    kept: list[Tensor] = field(default_factory=list)
    scores: dict[int, Tensor] = field(default_factory=dict)
    weights: dict[int, Tensor] = field(default_factory=dict)

    @property
    def lengths(self) -> Tensor:
        return self.token_mask.sum(1)

    @property
    def attention(self) -> Tensor:
        """How many tokens each layer's attention worked on, int64 (layers, B)."""
        return torch.stack([self.lengths, *self.ffn[:-1]])

    @property
    def ffn(self) -> Tensor:
        """How many tokens each layer's FFN worked on, int64 (layers, B)."""
        return torch.stack([(places >= 0).sum(1) for places in self.kept])

    def alive(self, layer: int) -> Tensor:
        """Which tokens went on from this layer: bool (B, L), in the columns of the
        input.
        """
        kept, (B, L) = self.kept[layer], self.token_mask.shape
        alive = torch.zeros(B, L + 1, dtype=torch.bool, device=kept.device)
        return alive.scatter_(1, kept % (L + 1), True)[:, :L]  # -1 is the column that is cut off

    def soft_share(self) -> Tensor:
        """The sparsity term for soft thresholds: how much of the tokens goes on, mean
        over layers, texts and tokens.

        Raises:
            RuntimeError: if no soft threshold in training mode was at work.
        """
        if not self.weights:
            raise RuntimeError(
                "no threshold was soft in this pass: give dropping a SoftThreshold in training mode"
                " (threshold.train()); in the hard phase there is no sparsity term"
            )
        return torch.stack([share_kept(w, self.token_mask) for w in self.weights.values()]).mean()


@dataclass
class _Pass:
    """The middle of a forward pass. L columns came in, l are left."""

    record: ForwardRecord
    mask: Tensor | None  # the layers' attention mask, for the rows that are left
    places: Tensor  # int64 (B, l), where they stood
    log_counts: Tensor  # (B, l), how often each counts as a key: 0; less where soft; padding -inf
    left: Tensor  # places of those that went on from the last layer that dropped, -1 for padding
    seen: dict[str, Any] = field(default_factory=dict)  # what parts of the layer at work gave
    cut: tuple[Tensor, int] | None = None  # pre-norm: rows of its FFN, of how many


@dataclass(eq=False)
class Dropping:
    """Inside the ``with`` block, tokens are dropped as ``model`` runs: in evaluation
    and in training.

    Works with the encoders of transformers that docs/own_models.md lists for tokens
    (BERT, RoBERTa, DistilBERT, ViT, DINOv2, CLIP's images, ...) under eager and SDPA
    attention, bare or with a head that reads [CLS]. (A head that answers
    for every token gets the rows that are left; ``last.kept[-1]`` says which those
    are.) Each text keeps what it would keep alone: lengths may differ in a batch,
    padding changes nothing. Where all real tokens stay, the model runs as it is.

    Args:
        model: it is not changed, but for hooks inside the block.
        keep: what stays after the attention of which layer, counted from 0:

            - a dict layer -> share. A float is a share of the text's length *at the
              start*, in (0, 1], rounded as ``kept_count`` does; an int or an int64
              tensor (B,) is a number of tokens, [CLS] included. Those with the largest
              scores stay. (``progressive_shares`` makes such a dict.)
            - a :class:`~course_lib.pruning.tokens.SoftThreshold`: learned. In training
              mode nothing is dropped: a token that is 0.2 there counts 0.2 times among
              the keys of the layers behind, so 0 is the same as dropped. In eval mode
              rows go.
            - a function (scores (B, l), layer, token_mask (B, l)) -> bool (B, l), with
              ``at``; see ``threshold_policy``.
        score: "cls", attention of [CLS]: one row computed beside the model's attention,
            which may be a fused kernel; "received", attention received from all
            queries: taken from eager attention's weights, else computed, at the price
            of a second Q·Kᵀ; "random", the control, uniform, from ``generator``; or a
            function of a :class:`ScoreContext` that gives (B, l).
        at: after which layers, where ``keep`` does not say so itself.
        heads: bool (layers, H), or (H,) for each layer, True = the head votes. With
            gated heads the mask that gates them, so that the tokens chosen are those of
            the model whose heads are removed:
            ``with gated(model, keep), dropping(model, shares, heads=keep)``.
        generator: for "random".

    Attributes:
        last: the :class:`ForwardRecord` of the last complete forward pass, None before the
            first. ``drop.lengths()`` has what all passes cost.
        layers: the encoder's layers.

    Raises:
        ValueError: on a model that is not known (see ``register_encoder_layer``), a
            decoder, an argument that does not fit; in the block, on other attention
            implementations, masks that hide more than padding, texts padded on the
            left, or gradient checkpointing.
        RuntimeError: if a block for this model is open already.
    """

    model: nn.Module
    keep: Mapping[int, Share] | SoftThreshold | Policy
    _: KW_ONLY
    score: Score = "cls"
    at: Iterable[int] | None = None
    heads: Tensor | Sequence[Tensor] | None = None
    generator: torch.Generator | None = None
    last: ForwardRecord | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self.layers = encoder_layers(self.model)
        self._at = self._check_layers(self._layers_said() if self.at is None else self.at)
        self._now: _Pass | None = None
        self._counts: list[tuple[Tensor, Tensor]] = []  # (layers, B) each, of each pass
        if not callable(self.score):
            check_names([self.score], ("cls", "received", "random"), "score")
        if self.score == "random" and self.generator is None:
            raise ValueError(
                "generator is needed for a random score: torch.Generator().manual_seed(0)"
            )
        for share in self.keep.values() if isinstance(self.keep, Mapping) else ():
            if isinstance(share, float):
                check_fraction(share)
        if self.heads is not None and len(self.heads) != len(self.layers):
            raise ValueError(
                f"heads should be bool (layers, H), True = the head votes, with {len(self.layers)}"
                f" layers; got {len(self.heads)}"
            )

    def lengths(self) -> tuple[Tensor, Tensor]:
        """Real tokens that the attention and the FFN of each layer worked on, over all
        texts so far: two (layers, N).

        For :func:`course_lib.cost.tokens.texts_macs`.

        Raises:
            RuntimeError: if no forward pass was completed.
        """
        if not self._counts:
            raise RuntimeError("no forward pass was completed inside this block yet")
        attention, ffn = (torch.cat(part, 1).cpu() for part in zip(*self._counts, strict=True))
        return attention, ffn

    # ----------------------------------------------------------------------- on and off
    def __enter__(self) -> Dropping:
        first = self.layers[0].module
        for hook in first._forward_pre_hooks.values():
            if isinstance(getattr(getattr(hook, "func", None), "__self__", None), Dropping):
                raise RuntimeError(
                    "tokens of this model are being dropped already: leave that block first"
                )
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
                self._hook(hooks, i, layer)
            self._hooks = block.pop_all()  # no longer removed here, but by __exit__
        return self

    def __exit__(self, *error: object) -> None:
        self._hooks.close()
        self._now = None

    def _hook(self, hooks: ExitStack, i: int, layer: EncoderLayer) -> None:
        """Hooks take time: only where there is something to do."""
        module, cut = layer.module, layer.module.get_submodule(layer.layout.cut)
        added = []
        if i == 0 or i > min(self._at, default=len(self.layers)):
            before = partial(self._before_layer, i)
            added.append(module.register_forward_pre_hook(before, with_kwargs=True))
        if i in self._at and self.score in ("cls", "received"):
            for name in (layer.attention.q, layer.attention.k, layer.attention.name):
                part = module.get_submodule(name)
                added.append(part.register_forward_hook(partial(self._note, name)))
        if i in self._at and layer.layout.prenorm:
            added.append(cut.register_forward_pre_hook(partial(self._before_ffn, i)))
            added.append(cut.register_forward_hook(self._after_ffn))
        elif i in self._at:
            added.append(cut.register_forward_hook(partial(self._after_attention, i)))
        if i == len(self.layers) - 1 or (i in self._at and layer.layout.prenorm):
            # first in line, so that hidden states which transformers records are the
            # rows that go on
            added.append(module.register_forward_hook(partial(self._after_layer, i), prepend=True))
        for handle in added:
            hooks.callback(handle.remove)

    # ------------------------------------------------------------------------ the hooks
    def _before_layer(
        self, i: int, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[Any, Any] | None:
        positional = len(args) > 1
        if i == 0:
            hidden = args[0] if args else kwargs["hidden_states"]  # (B, l, E)
            self._now = self._start(hidden, args[1] if positional else kwargs.get("attention_mask"))
            return None
        mask = self._at_work().mask
        if positional:
            return (args[0], mask, *args[2:]), kwargs
        return args, kwargs | {"attention_mask": mask}

    def _start(self, hidden: Tensor, mask: Tensor | None) -> _Pass:
        for layer in self.layers:
            if getattr(layer.module, "gradient_checkpointing", False) and layer.module.training:
                raise ValueError(
                    "model has gradient checkpointing, which runs layers again in the backward"
                    " pass, when tokens are gone: call model.gradient_checkpointing_disable()"
                )
        B, L = hidden.shape[:2]
        real = _real_tokens(mask, hidden)
        places = torch.arange(L, device=hidden.device).expand(B, L)
        left = places.masked_fill(~real, -1)
        return _Pass(ForwardRecord(real), mask, places, _log_counts(real, hidden), left)

    def _note(self, name: str, module: nn.Module, args: Any, out: Any) -> None:
        self._at_work().seen[name] = out

    def _after_attention(self, i: int, module: nn.Module, args: Any, out: Any) -> Any:
        return _gathered(out, self._decide(i, out[0] if isinstance(out, tuple) else out))

    def _before_ffn(self, i: int, module: nn.Module, args: tuple[Any, ...]) -> Any:
        index = self._decide(i, args[0])
        self._at_work().cut = None if index is None else (index, args[0].shape[1])
        return _gathered(args, index)

    def _after_ffn(self, module: nn.Module, args: Any, out: Tensor) -> Tensor:
        """The layer adds this to all of its rows: each goes back to its place."""
        if (cut := self._at_work().cut) is None:
            return out
        index, rows = cut
        full = out.new_zeros(out.shape[0], rows, out.shape[2])
        return full.scatter(1, index[:, :, None].expand_as(out), out)

    def _after_layer(self, i: int, module: nn.Module, args: Any, out: Any) -> Any:
        now = self._at_work()
        cut, now.cut = now.cut, None
        if i == len(self.layers) - 1:
            self._goes_on(len(self.layers), now.left)
            self.last, self._now = now.record, None
            self._counts.append((now.record.attention, now.record.ffn))
        return out if cut is None else _gathered(out, cut[0])

    # ----------------------------------------------------------------------- what stays
    def _decide(self, i: int, hidden: Tensor) -> Tensor | None:
        """The rows of ``hidden`` that stay after layer i, (B, k); None for all of them.
        The pass is of those, then.
        """
        now, real, protected = self._at_work(), self.token_mask, self.layers[i].layout.protected
        score = self._scored(i, hidden)
        detached = score.detach()
        filled = detached.new_zeros(now.record.token_mask.shape)
        now.record.scores[i] = filled.scatter_add_(1, now.places, detached.masked_fill(~real, 0))
        if self._soft:
            self._weigh(i, score, hidden)
            return None
        with torch.no_grad():
            keep = self._kept(i, detached, real, protected)
            keep[:, :protected] = True
            keep &= real
            if bool((keep == real).all()):
                return None
            index, valid = positions(keep, real, int(keep.sum(1).max()))  # (B, k)
            now.places, now.log_counts = now.places.gather(1, index), _log_counts(valid, hidden)
            now.mask = _mask_of(now.log_counts, hidden)
            self._goes_on(i, now.places.masked_fill(~valid, -1))
        return index

    def _goes_on(self, i: int, left: Tensor) -> None:
        """From layer i; what went on from those before it is known now, too."""
        now = self._at_work()
        now.record.kept += [now.left] * (i - len(now.record.kept))
        now.left = left

    def _scored(self, i: int, hidden: Tensor) -> Tensor:
        now, real = self._at_work(), self.token_mask
        if callable(self.score):
            score = self.score(ScoreContext(i, now.places, real, hidden))
            if score.shape != real.shape:
                raise ValueError(
                    f"score function should give {tuple(real.shape)}, one number for each row that"
                    f" is left, got {tuple(score.shape)}"
                )
            return score
        if self.score != "random":
            with torch.set_grad_enabled(torch.is_grad_enabled() and self._soft):
                return self._attention_score(i)
        assert self.generator is not None
        # one number for every real token and none for padding: the same draw however
        # far the batch is padded
        score = torch.zeros(real.shape, device=hidden.device)
        drawn = torch.rand(int(real.sum()), generator=self.generator, device=self.generator.device)
        score[real] = drawn.to(hidden.device)
        return score

    def _attention_score(self, i: int) -> Tensor:
        now, layer, heads = self._at_work(), self.layers[i], self._heads_of(i)
        names, d = layer.attention, layer.attention.head_size
        seen, now.seen = now.seen, {}
        # no keys: all heads removed
        if names.k not in seen or (heads is not None and not bool(heads.any(-1).all())):
            raise ValueError(
                f"no head of layer {i} is left, so nothing there attends to any token: score"
                " elsewhere"
            )
        # (B, H, l, d)
        query, key = (seen[n].unflatten(-1, (-1, d)).transpose(1, 2) for n in (names.q, names.k))
        attention, out = layer.module.get_submodule(names.name), seen[names.name]
        scale = float(getattr(attention, "scaling", d**-0.5))
        if self.score == "cls":
            query = query[:, :, : layer.layout.protected]
            return attention_rows(query, key, now.log_counts, scale, heads).mean(1)
        given = out[1] if isinstance(out, tuple) and len(out) > 1 else None
        if given is not None and not attention.training:  # in training these have had dropout
            rows = mean_over_heads(given.to(now.log_counts.dtype), heads)
        else:
            rows = attention_rows(query, key, now.log_counts, scale, heads)
        return of_columns(rows, now.log_counts.exp())

    def _kept(self, i: int, score: Tensor, real: Tensor, protected: int) -> Tensor:
        if isinstance(self.keep, Mapping):
            share = self.keep[i]
            lengths = self._at_work().record.lengths
            k = kept_count(lengths, share) if isinstance(share, float) else share
            return top_tokens(score, real, k, protected)
        kept = self.keep(score, i, real)
        if kept.shape != real.shape:
            raise ValueError(f"keep should give {tuple(real.shape)}, got {tuple(kept.shape)}")
        return kept.bool()

    def _weigh(self, i: int, score: Tensor, hidden: Tensor) -> None:
        """A soft threshold: nothing goes, but keys count less, in the limit not at all,
        which is what dropping does.
        """
        now, protected = self._at_work(), self.layers[i].layout.protected
        assert isinstance(self.keep, SoftThreshold)
        gate = self.keep(score, i, now.log_counts.exp())  # (B, L)
        always = torch.arange(gate.shape[1], device=gate.device) < protected
        gate = gate.masked_fill(always | ~self.token_mask, 1)  # padding counts 0 already
        now.log_counts = now.log_counts + gate.clamp_min(torch.finfo(gate.dtype).tiny).log()
        now.mask = _mask_of(now.log_counts, hidden)
        now.record.weights[i] = now.log_counts.exp()
        self._goes_on(i, now.left.masked_fill(gate.detach() < 0.5, -1))

    @property
    def _soft(self) -> bool:
        return isinstance(self.keep, SoftThreshold) and self.keep.training

    @property
    def token_mask(self) -> Tensor:
        """Which of the rows are tokens that are still there, bool (B, l), in the middle
        of a forward pass.
        """
        return self._at_work().log_counts > float("-inf")

    def _heads_of(self, i: int) -> Tensor | None:
        """Which heads of layer i vote. A grid (layers, H) is as wide as the largest layer."""
        return None if self.heads is None else self.heads[i][: self.layers[i].attention.heads]

    # --------------------------------------------------------------------------- checks
    def _at_work(self) -> _Pass:
        if self._now is None:
            raise RuntimeError(
                "a layer ran outside a forward pass of the whole encoder, so which tokens are left?"
            )
        return self._now

    def _layers_said(self) -> Iterable[int]:
        if isinstance(self.keep, Mapping):
            return self.keep
        if isinstance(self.keep, SoftThreshold):
            return range(len(self.keep.theta))
        raise ValueError("at says after which layers to drop: a policy of your own needs it")

    def _check_layers(self, at: Iterable[int]) -> frozenset[int]:
        """These layers; raises ValueError if the encoder has not one of them."""
        layers, known = frozenset(at), range(len(self.layers))
        if wrong := [i for i in layers if i not in known]:
            raise ValueError(
                f"the encoder has layers 0 to {known[-1]}, there is no layer {min(wrong)}"
            )
        return layers


def _real_tokens(mask: Tensor | None, hidden: Tensor) -> Tensor:
    """The tokens that are not padding, bool (B, L), by the mask that transformers hands a
    layer: None, bool (B, 1, L, L) with True = may look (SDPA), or the same in floats, 0 =
    may look and the least float = may not (eager).
    """
    B, L = hidden.shape[:2]
    if mask is None:
        return torch.ones(B, L, dtype=torch.bool, device=hidden.device)
    if mask.ndim != 4 or mask.shape[3] != L:
        raise ValueError(f"attention_mask is (B, 1, L, L) with L = {L}, got {tuple(mask.shape)}")
    mask = mask[:, :, :1] if mask.stride(2) == 0 else mask  # expanded: one row says it all
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
    check_cls(real)
    return real


def _log_counts(real: Tensor, hidden: Tensor) -> Tensor:
    """0 for a token that is there, -inf for padding, at least in float32."""
    dtype = torch.promote_types(hidden.dtype, torch.float32)
    return torch.zeros(real.shape, dtype=dtype, device=real.device).masked_fill(
        ~real, float("-inf")
    )


def _mask_of(log_counts: Tensor, hidden: Tensor) -> Tensor | None:
    """The attention mask under which key i counts exp(log_counts[:, i]) times, added to the
    scores: (B, 1, 1, l), or None if each counts once.
    """
    if not log_counts.requires_grad and bool((log_counts == 0).all()):
        return None
    least = torch.finfo(hidden.dtype).min
    return log_counts.clamp(min=least).to(hidden.dtype)[:, None, None, :]


def _gathered(out: Any, index: Tensor | None) -> Any:
    """The same with the rows at ``index`` (B, k) alone; None: with all of them."""
    if index is None:
        return out
    if isinstance(out, tuple):
        return (gather_rows(out[0], index), *out[1:])
    return gather_rows(out, index)


dropping = Dropping
