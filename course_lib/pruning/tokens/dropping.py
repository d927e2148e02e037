"""Dropping tokens inside a model: rows that are gone, so tensors that are shorter, not
rows that are masked.

::

    with dropping(model, {1: 0.5, 2: 0.15}) as drop:  # half stays after layer 1, then 15 %
        logits = model(**batch).logits
    drop.last.kept[2]                                 # (B, k): where they stood, -1 = padding

A masked token still costs what it cost; the arithmetic is the same with zeros in it. A
dropped one costs nothing from there on. For the tokens that stay both give the same
numbers: what a row becomes in the feed-forward block depends on that row alone, and
attention does not see the others either way. Positions were added to the embeddings
before the first layer and go with their rows.

The rows are dropped between attention and the feed-forward block (FFN) of a layer,
where the layer's scores are known and its larger half is still to come, or between two
layers. The models' own code runs, with forward hooks that are taken off at the end of
the block, also after an exception.

Source: Goyal et al. 2020, "PoWER-BERT", section 3, between attention and FFN; Kim et
al. 2022, "Learned Token Pruning for Transformers"; Wang et al. 2021, "SpAtten", for
scores summed over layers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Literal
from weakref import WeakSet

import torch
from torch import Tensor, nn

from course_lib.checks import check_names
from course_lib.pruning.tokens.attention_masks import mask_form, slice_mask, visible, weigh_mask
from course_lib.pruning.tokens.layers import EncoderLayer, encoder_layers
from course_lib.pruning.tokens.selection import (
    check_cls,
    check_fraction,
    gather_rows,
    kept_count,
    positions,
    threshold_policy,
    top_tokens,
)
from course_lib.pruning.tokens.significance import head_weights, of_columns, received, weights_of
from course_lib.pruning.tokens.threshold import SoftThreshold, share_kept
from course_lib.wrapped import hold_hooks


@dataclass(frozen=True)
class Thresholds:
    """A policy for ``dropping``: after layer l the tokens with n·s ≥ theta[l] stay, see
    ``threshold_policy``.
    """

    theta: Mapping[int, float]

    def __call__(self, scores: Tensor, layer: int, token_mask: Tensor) -> Tensor:
        return threshold_policy(scores, self.theta[layer], token_mask)


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

    - ``lengths``: int64 (B,), real tokens of each text.
    - ``attention``, ``ffn``: int64 (layers, B), how many of them each layer's attention
      and FFN worked on.
    - ``kept``: for each layer int64 (B, k), the columns that went on from it,
      ascending; -1 = padding.
    - ``scores``: layer -> (B, L), the scores there (0: padding, or gone before).
    - ``weights``: layer -> (B, L), for soft thresholds: how much of each token went on,
      with its gradient.

    With soft thresholds nothing is dropped, and the counts are of the tokens that would
    be there if they were hard.
    """

    lengths: Tensor
    columns: int
    token_mask: Tensor
    attention: Tensor = field(init=False)
    ffn: Tensor = field(init=False)
    kept: list[Tensor] = field(default_factory=list)
    scores: dict[int, Tensor] = field(default_factory=dict)
    weights: dict[int, Tensor] = field(default_factory=dict)

    def alive(self, layer: int) -> Tensor:
        """Which tokens went on from this layer: bool (B, L), in the columns of the
        input.
        """
        kept = self.kept[layer]
        alive = torch.zeros(len(kept), self.columns + 1, dtype=torch.bool, device=kept.device)
        # -1 is the column that is cut off
        return alive.scatter_(1, kept % (self.columns + 1), True)[:, : self.columns]

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
class _ForwardState:
    """The state in the middle of a forward pass. L columns came in, l are left."""

    record: ForwardRecord
    mask: Tensor | None  # the layers' attention mask, for the rows that are left
    token_mask: Tensor  # bool (B, l)
    places: Tensor  # int64 (B, l)
    form: str
    log_weights: Tensor | None = None  # (B, L), soft thresholds: how often a token counts as a key
    hard: Tensor | None = None  # bool (B, L), what would be left were they hard
    query: Tensor | None = None  # (B, l, H·d) of the layer at work
    key: Tensor | None = None
    score: Tensor | None = None  # (B, l) of the layer at work
    total: Tensor | None = None  # (B, l), summed over layers
    summed: int = 0  # over how many
    # pre-norm: the FFN's rows, and how many the layer still holds
    undo: tuple[Tensor, int] | None = None
    # layer that dropped -> where those that are left stood, (B, l), -1 for padding
    left: dict[int, Tensor] = field(default_factory=dict)


_busy: WeakSet[nn.Module] = WeakSet()  # first layers of the models inside a block


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
        keep: what stays after which layer, counted from 0:

            - a dict layer -> share. A float is a share of the text's length *at the
              start*, in (0, 1], rounded as ``kept_count`` does; an int or an int64
              tensor (B,) is a number of tokens, [CLS] included. Those with the largest
              scores stay. (``progressive_shares`` makes such a dict.)
            - :class:`Thresholds`: n·s ≥ θ, with n the tokens that are left.
            - a :class:`~course_lib.pruning.tokens.SoftThreshold`: learned. In training
              mode nothing is dropped: a token that is 0.2 there counts 0.2 times among
              the keys of the layers behind, so 0 is the same as dropped. In eval mode
              rows go.
            - a function (scores (B, l), layer, token_mask (B, l)) -> bool (B, l), with
              ``at``.
        score: "cls", attention of [CLS]: one row computed beside the model's attention,
            which may be a fused kernel; "received", attention received from all
            queries: taken from eager attention's weights, else computed, at the price
            of a second Q·Kᵀ; "random", the control, uniform, from ``generator``; or a
            function of a :class:`ScoreContext` that gives (B, l).
        where: "attention": between attention and FFN; "layer": between this layer and
            the next.
        at: after which layers, where ``keep`` does not say so itself.
        heads: bool, (layers, H), (layers, B, H) or one tensor for each layer,
            True = the head votes. With gated heads the mask that gates them, so that
            the tokens chosen are those of the model whose heads are removed:
            ``with gated(model, keep), dropping(model, shares, heads=keep)``. Or a
            function of the layer.
        accumulate: score = mean over this layer and all before it.
        generator: for "random".

    Attributes:
        last: the :class:`ForwardRecord` of the last complete forward pass, None before the
            first. ``drop.lengths()`` has what all passes cost.
        layers: the encoder's layers; ``at``: those after which tokens are dropped.

    Raises:
        ValueError: on a model that is not known (see ``register_encoder_layer``), a
            decoder, an argument that does not fit; in the block, on masks of other
            attention implementations, texts padded on the left, or gradient
            checkpointing.
        RuntimeError: if a block for this model is open already.
    """

    model: nn.Module
    keep: Mapping[int, Share] | SoftThreshold | Thresholds | Policy
    _: KW_ONLY
    score: Score = "cls"
    where: Literal["attention", "layer"] = "attention"
    at: Iterable[int] | None = None
    heads: Tensor | Sequence[Tensor] | Callable[[int], Tensor] | None = None
    accumulate: bool = False
    generator: torch.Generator | None = None
    last: ForwardRecord | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self.layers = encoder_layers(self.model)
        self._at = self.check_layers(self._layers_said() if self.at is None else self.at)
        self.hooks = ExitStack()
        self._now: _ForwardState | None = None
        self._counts: list[tuple[Tensor, Tensor]] = []  # (layers, B) each, of each pass
        self._check()

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

    @property
    def token_mask(self) -> Tensor:
        """Which of the rows are tokens that are still there, bool (B, l), in the middle
        of a forward pass.
        """
        return self._at_work().token_mask

    # ----------------------------------------------------------------------- on and off
    def __enter__(self) -> Dropping:
        first = self.layers[0].module
        if first in _busy:
            raise RuntimeError(
                "tokens of this model are being dropped already: leave that block first"
            )
        self._mask_form()
        with ExitStack() as block:
            hooks = block.enter_context(hold_hooks())
            for i, layer in enumerate(self.layers):
                self._hook(hooks, i, layer)
            _busy.add(first)
            block.callback(_busy.discard, first)
            self.hooks = block.pop_all()  # no longer removed here, but by __exit__
        return self

    def __exit__(self, *error: object) -> None:
        self.hooks.close()
        self._now = None

    def _hook(self, hooks: ExitStack, i: int, layer: EncoderLayer) -> None:
        def add(path: str, before: bool, hook: Callable[..., Any], **options: bool) -> None:
            module = layer.module.get_submodule(path)
            register = module.register_forward_pre_hook if before else module.register_forward_hook
            hooks.callback(register(hook, **options).remove)

        # hooks take time: only where there is something to do
        if i == 0 or i > min(self._at, default=len(self.layers)):
            add("", True, lambda m, args, kw: self._start_layer(i, args, kw), with_kwargs=True)
        if i in self._at or i == len(self.layers) - 1:
            # first in line, so that hidden states which transformers records are the
            # rows that go on
            add("", False, lambda m, args, out: self._end_layer(i, out), prepend=True)
        if self.score in ("cls", "received") and (
            i in self._at or (self.accumulate and i <= max(self._at, default=-1))
        ):
            add(layer.attention.q, False, lambda m, args, out: self._capture("query", out))
            add(layer.attention.k, False, lambda m, args, out: self._capture("key", out))
            add(layer.attention.name, False, lambda m, args, out: self._attended(i, m, out))
        if i in self._at and self.where == "attention":
            cut = layer.layout.cut
            if layer.layout.prenorm:
                add(cut, True, lambda m, args: self._before_ffn(i, args))
                add(cut, False, lambda m, args, out: self._after_ffn(out))
            else:
                add(cut, False, lambda m, args, out: self._after_attention(i, out))

    # ------------------------------------------------------------------------ the hooks
    def _start_layer(
        self, i: int, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[Any, Any] | None:
        positional = len(args) > 1
        hidden = args[0] if args else kwargs["hidden_states"]  # (B, l, E)
        if i == 0:
            self._now = self._start(hidden, args[1] if positional else kwargs.get("attention_mask"))
            return None
        now = self._at_work()
        mask = (
            now.mask
            if now.log_weights is None
            else weigh_mask(now.mask, now.log_weights, hidden.dtype)
        )
        if positional:
            return (args[0], mask, *args[2:]), kwargs
        return args, kwargs | {"attention_mask": mask}

    def _start(self, hidden: Tensor, mask: Tensor | None) -> _ForwardState:
        for layer in self.layers:
            if getattr(layer.module, "gradient_checkpointing", False) and layer.module.training:
                raise ValueError(
                    "gradient checkpointing runs layers a second time in the backward pass, when"
                    " tokens are gone already: call model.gradient_checkpointing_disable()"
                )
        B, L = hidden.shape[:2]
        token_mask = visible(mask, hidden)
        if mask is not None:
            check_cls(token_mask)
        places = torch.arange(L, device=hidden.device).expand(B, L)
        record = ForwardRecord(token_mask.sum(1), L, token_mask)
        return _ForwardState(record, mask, token_mask, places, self._mask_form())

    def _capture(self, name: str, out: Tensor) -> None:
        setattr(self._at_work(), name, out)

    def _attended(self, i: int, attention: nn.Module, out: Any) -> None:
        """Score the tokens, now that queries and keys are there, and with eager
        attention the weights.
        """
        now = self._at_work()
        heads = self._heads_of(i)
        # no keys: all heads removed
        empty = now.key is None or (heads is not None and not bool(heads.any(-1).all()))
        if empty and now.total is None:
            raise ValueError(
                f"no head of layer {i} is left, so nothing there attends to any token: score"
                " elsewhere"
            )
        if not empty:
            with torch.set_grad_enabled(torch.is_grad_enabled() and self._soft):
                score = self._attention_score(i, attention, out, heads)
            if self.accumulate:
                now.total, now.summed = (
                    (score if now.total is None else now.total + score),
                    now.summed + 1,
                )
            now.score = score
        if self.accumulate:
            assert now.total is not None
            now.score = now.total / now.summed  # the mean: again of sum 1
        now.query = now.key = None

    def _attention_score(
        self, i: int, attention: nn.Module, out: Any, heads: Tensor | None
    ) -> Tensor:
        now, layer = self._at_work(), self.layers[i]
        assert now.query is not None and now.key is not None
        d = layer.attention.head_size
        # (B, H, l, d)
        query, key = (t.unflatten(-1, (-1, d)).transpose(1, 2) for t in (now.query, now.key))
        votes = head_weights(heads, key)
        bias = now.log_weights
        if now.mask is not None:  # something is padding
            bias = torch.zeros_like(key[:, 0, :, 0]) if bias is None else bias
            bias = bias.masked_fill(~now.token_mask, float("-inf"))
        scale = float(getattr(attention, "scaling", d**-0.5))
        if self.score == "cls":
            return weights_of(query[:, :, : layer.layout.protected], key, bias, scale, votes).mean(
                1
            )
        # (B, l), 0 for padding
        weights = now.token_mask.to(torch.promote_types(key.dtype, torch.float32))
        if now.log_weights is not None:
            weights = weights * now.log_weights.exp()
        given = out[1] if isinstance(out, tuple) and len(out) > 1 else None
        if given is not None and not attention.training:  # in training these have had dropout
            return received(given.to(weights.dtype), weights, votes)
        return of_columns(weights_of(query, key, bias, scale, votes), weights)

    def _after_attention(self, i: int, out: Any) -> Any:
        return _gathered(out, self._decide(i, _rows_of(out)))

    def _before_ffn(self, i: int, args: tuple[Any, ...]) -> tuple[Any, ...]:
        index = self._decide(i, args[0])
        if index is not None:
            self._at_work().undo = (index, args[0].shape[1])
        return _gathered(args, index)

    def _after_ffn(self, out: Tensor) -> Tensor:
        now = self._at_work()
        if now.undo is None:
            return out
        index, rows = now.undo
        full = out.new_zeros(out.shape[0], rows, out.shape[2])
        # back to where the residual has them
        return full.scatter(1, index[:, :, None].expand_as(out), out)

    def _end_layer(self, i: int, out: Any) -> Any:
        now = self._at_work()
        index, now.undo = (None if now.undo is None else now.undo[0]), None
        if i in self._at and self.where == "layer":
            index = self._decide(i, _rows_of(out))
        now.score = None
        if i == len(self.layers) - 1:
            self._finish(now)
        return _gathered(out, index)

    def _finish(self, now: _ForwardState) -> None:
        record = now.record
        places = torch.arange(record.columns, device=record.token_mask.device)
        left = [places.masked_fill(~record.token_mask, -1)]
        for i in range(len(self.layers)):
            left.append(now.left.get(i, left[-1]))
        record.kept = left[1:]
        counts = torch.stack([(places >= 0).sum(1) for places in left])  # (layers + 1, B)
        record.attention = counts[:-1]
        record.ffn = counts[1:] if self.where == "attention" else counts[:-1]
        self.last, self._now = record, None
        self._counts += [(record.attention, record.ffn)]

    # ----------------------------------------------------------------------- what stays
    def _decide(self, i: int, hidden: Tensor) -> Tensor | None:
        """The rows of ``hidden`` that stay after layer i, (B, k); None for all of them.
        The state is of those, then.
        """
        now, protected = self._at_work(), self.layers[i].layout.protected
        score = self._scored(i, hidden)
        detached = score.detach()
        filled = detached.new_zeros(len(score), now.record.columns)
        now.record.scores[i] = filled.scatter_add_(
            1, now.places, detached.masked_fill(~now.token_mask, 0)
        )
        if self._soft:
            now.left[i] = now.places.masked_fill(~self._weigh(i, score), -1)
            return None
        with torch.no_grad():
            keep = self._kept(i, detached, protected)
            keep[:, :protected] = True
            keep &= now.token_mask
            if bool((keep == now.token_mask).all()):
                return None
            index, valid = positions(keep, now.token_mask, int(keep.sum(1).max()))  # (B, k)
            now.mask = slice_mask(now.mask, index, valid, hidden, now.form)
            now.token_mask, now.places = valid, now.places.gather(1, index)
            if now.total is not None:
                now.total = now.total.gather(1, index).masked_fill(~valid, 0)
            now.left[i] = now.places.masked_fill(~valid, -1)
        return index

    def _scored(self, i: int, hidden: Tensor) -> Tensor:
        now = self._at_work()
        if self.score in ("cls", "received"):
            assert now.score is not None
            return now.score
        if callable(self.score):
            score = self.score(ScoreContext(i, now.places, now.token_mask, hidden))
            if score.shape != now.token_mask.shape:
                raise ValueError(
                    f"the score function should give {tuple(now.token_mask.shape)}, one number for"
                    f" each row that is left, got {tuple(score.shape)}"
                )
            return score
        assert self.generator is not None
        # one number for every real token and none for padding: the same draw however
        # far the batch is padded
        score = torch.zeros(now.token_mask.shape, device=hidden.device)
        drawn = torch.rand(
            int(now.token_mask.sum()), generator=self.generator, device=self.generator.device
        )
        score[now.token_mask] = drawn.to(hidden.device)
        return score

    def _kept(self, i: int, score: Tensor, protected: int) -> Tensor:
        now = self._at_work()
        if isinstance(self.keep, Mapping):
            share = self.keep[i]
            k = kept_count(now.record.lengths, share) if isinstance(share, float) else share
            return top_tokens(score, now.token_mask, k, protected)
        kept = self.keep(score, i, now.token_mask)
        if kept.shape != now.token_mask.shape:
            raise ValueError(
                f"the policy should give {tuple(now.token_mask.shape)}, got {tuple(kept.shape)}"
            )
        return kept.bool()

    def _weigh(self, i: int, score: Tensor) -> Tensor:
        """A soft threshold: nothing goes, but keys count less, in the limit not at all,
        which is what dropping does. Returns what would be left were it hard, bool (B, L).
        """
        now, protected = self._at_work(), self.layers[i].layout.protected
        assert isinstance(self.keep, SoftThreshold)
        left = torch.ones_like(score) if now.log_weights is None else now.log_weights.exp()
        gate = self.keep(score, i, left * now.token_mask)  # (B, L)
        first = torch.arange(gate.shape[1], device=gate.device) < protected
        # padding has a mask of its own
        gate = gate.masked_fill(first, 1).masked_fill(~now.token_mask, 1)
        log_gate = gate.clamp_min(torch.finfo(gate.dtype).tiny).log()
        now.log_weights = log_gate if now.log_weights is None else now.log_weights + log_gate
        now.hard = (now.token_mask if now.hard is None else now.hard) & (gate.detach() >= 0.5)
        now.record.weights[i] = now.log_weights.exp().masked_fill(~now.token_mask, 0)
        return now.hard

    @property
    def _soft(self) -> bool:
        return isinstance(self.keep, SoftThreshold) and self.keep.training

    def _heads_of(self, i: int) -> Tensor | None:
        if self.heads is None:
            return None
        heads = self.heads(i) if callable(self.heads) else self.heads[i]
        # a grid (layers, H) is as wide as the largest layer
        return heads[..., : self.layers[i].attention.heads]

    # --------------------------------------------------------------------------- checks
    def _at_work(self) -> _ForwardState:
        if self._now is None:
            raise RuntimeError(
                "a layer ran outside a forward pass of the whole encoder, so which tokens are left?"
            )
        return self._now

    def _mask_form(self) -> str:
        first = self.layers[0]
        config = getattr(first.module.get_submodule(first.attention.name), "config", None)
        # attention that is not transformers' own: a mask that is added to the scores
        return mask_form(getattr(config, "_attn_implementation", "eager"))

    def _layers_said(self) -> Iterable[int]:
        match self.keep:
            case Mapping():
                return self.keep
            case Thresholds(theta):
                return theta
            case SoftThreshold():
                return range(len(self.keep.theta))
        raise ValueError(
            "at says after which layers to drop: with a policy of your own it must be given"
        )

    def check_layers(self, at: Iterable[int]) -> frozenset[int]:
        """These layers; raises ValueError if the encoder has not one of them."""
        layers = frozenset(at)
        wrong = sorted(i for i in layers if not (isinstance(i, int) and 0 <= i < len(self.layers)))
        if wrong:
            raise ValueError(
                f"the encoder has layers 0 to {len(self.layers) - 1}, there is no layer {wrong[0]}"
            )
        return layers

    def _check(self) -> None:
        check_names([self.where], ("attention", "layer"), "where")
        if not callable(self.score):
            check_names([self.score], ("cls", "received", "random"), "score")
        if self.score == "random" and self.generator is None:
            raise ValueError(
                "a random score needs a generator: generator=torch.Generator().manual_seed(0)"
            )
        if self.accumulate and self.score not in ("cls", "received"):
            raise ValueError(
                'accumulate sums the scores "cls" or "received" over the layers; sum your own'
                " yourself"
            )
        if isinstance(self.keep, Mapping):
            for share in self.keep.values():
                if isinstance(share, float):
                    check_fraction(share)
        if (
            self.heads is not None
            and not callable(self.heads)
            and len(self.heads) != len(self.layers)
        ):
            raise ValueError(
                f"heads should be bool (layers, H), True = the head votes, with {len(self.layers)}"
                f" layers; got {len(self.heads)}"
            )


def _rows_of(out: Any) -> Tensor:
    """The rows (B, l, E) of what a module gives: a tensor, or a tuple that begins with it."""
    return out[0] if isinstance(out, tuple) else out


def _gathered(out: Any, index: Tensor | None) -> Any:
    """The same with the rows at ``index`` (B, k) alone; None: with all of them."""
    if index is None:
        return out
    rows = gather_rows(_rows_of(out), index)
    return (rows, *out[1:]) if isinstance(out, tuple) else rows


dropping = Dropping
