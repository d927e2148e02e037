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
larger half is still to come. The models' own code runs, with forward hooks that are
taken off at the end of the block, also after an exception.

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
from course_lib.pruning.tokens import selection
from course_lib.pruning.tokens.layers import EncoderLayer, encoder_layers
from course_lib.pruning.tokens.significance import attention_rows, mean_over_heads, of_columns
from course_lib.pruning.tokens.threshold import SoftThreshold
from course_lib.wrapped import hold_hooks


@dataclass
class ForwardRecord:
    """One forward pass: what was dropped where. B texts of L columns.

    - ``token_mask``: bool (B, L), True = a real token; ``lengths``: int64 (B,), how many.
    - ``kept``: for each layer int64 (B, k), the columns that went on from it,
      ascending; -1 = padding.
    - ``attention``, ``ffn``: int64 (layers, B), how many tokens each layer's attention
      and FFN worked on.
    - ``scores``: layer -> (B, L), the scores there (0: padding, or gone before).
    - ``weights``: layer -> (B, L), for soft thresholds: how much of each token went on,
      with its gradient. Nothing is dropped there, and ``kept`` has the tokens that would
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
        return torch.stack([self.lengths, *self.ffn[:-1]])

    @property
    def ffn(self) -> Tensor:
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
        over layers, texts and the tokens of each. Long texts weigh no more than short ones.

        Raises:
            RuntimeError: if no soft threshold in training mode was at work.
        """
        if not self.weights:
            raise RuntimeError(
                "no threshold was soft in this pass: give dropping a SoftThreshold in training mode"
                " (threshold.train()); in the hard phase there is no sparsity term"
            )
        left = torch.stack(list(self.weights.values()))  # (layers, B, L), padding 0
        return (left.sum(2) / self.lengths).mean()


@dataclass
class ScoreContext:
    """The middle of a forward pass, where l of L columns are left: what a score function of
    one's own gets to see.

    - ``places``: int64 (B, l), where each row stood in the text.
    - ``token_mask``: bool (B, l), True = a token that is still there, False = padding.
    - ``layer``: where, from 0; ``hidden``: (B, l, E), the rows.
    - ``record``: the :class:`ForwardRecord` so far.
    """

    record: ForwardRecord
    hidden: Tensor
    places: Tensor
    _counts: Tensor  # (B, l), log of how often each counts as a key: 0, less if soft, padding -inf
    _mask: Tensor | None  # the attention mask for the rows that are left
    _left: Tensor  # places of those that went on from the last layer that dropped, -1 for padding
    layer: int = 0
    _seen: dict[str, Any] = field(default_factory=dict)  # what parts of the layer at work gave
    _cut: Tensor | None = None  # pre-norm: the rows that its FFN works on, (B, k)

    @property
    def token_mask(self) -> Tensor:
        return self._counts > float("-inf")

    def _goes_on(self, i: int, left: Tensor) -> None:
        """From layer i; what went on from those before it is known now, too."""
        self.record.kept += [self._left] * (i - len(self.record.kept))
        self._left = left


Share = float | int | Tensor
Policy = Callable[[Tensor, int, Tensor], Tensor]
Score = Literal["cls", "received", "random"] | Callable[[ScoreContext], Tensor]


@dataclass(eq=False)
class Dropping:
    """Inside the ``with`` block, tokens are dropped as ``model`` runs: in evaluation
    and in training.

    Works with the encoders that docs/own_models.md lists for tokens under eager and SDPA
    attention, bare or with a head that reads [CLS]. (A head that answers for every token
    gets the rows that are left; ``last.kept[-1]`` says which those are.) Each text keeps
    what it would keep alone: lengths may differ in a batch, padding changes nothing.
    Where all real tokens stay, the model runs as it is.

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
        ValueError: on a model that is not known (see ``register``), a
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
        self._pass: ScoreContext | None = None
        self._passes: list[tuple[Tensor, Tensor]] = []  # what each cost, (layers, B) twice
        if isinstance(self.keep, Mapping):
            at: Iterable[int] = self.keep
            for share in self.keep.values():
                if isinstance(share, float):
                    selection.check_fraction(share)
        elif isinstance(self.keep, SoftThreshold):
            at = range(len(self.keep.theta))
        elif (at := self.at or ()) == ():
            raise ValueError("at says after which layers to drop: a policy of your own needs it")
        self._at = self._check_layers(at)
        if not callable(self.score):
            check_names([self.score], ("cls", "received", "random"), "score")
            if self.score != "random" and any(layer.attention.fused for layer in self.layers):
                raise ValueError(
                    f"score {self.score!r} needs queries and keys from two layers, and here one"
                    " makes both: give a function"
                )
        if self.score == "random" and self.generator is None:
            raise ValueError(
                "generator is needed for a random score: torch.Generator().manual_seed(0)"
            )
        if self.heads is not None and len(self.heads) != len(self.layers):
            raise ValueError(
                f"heads should be bool (layers, H), True = the head votes, with {len(self.layers)}"
                f" layers; got {len(self.heads)}"
            )

    def _check_layers(self, at: Iterable[int]) -> frozenset[int]:
        layers, known = frozenset(at), range(len(self.layers))
        if wrong := [i for i in layers if i not in known]:
            raise ValueError(f"model has layers 0 to {known[-1]}, there is no layer {min(wrong)}")
        return layers

    def lengths(self) -> tuple[Tensor, Tensor]:
        """Real tokens that the attention and the FFN of each layer worked on, over all
        texts so far: two (layers, N), for :func:`course_lib.cost.tokens.texts_macs`.

        Raises:
            RuntimeError: if no forward pass was completed.
        """
        if not self._passes:
            raise RuntimeError("no forward pass was completed inside this block yet")
        attention, ffn = (torch.cat(part, 1).cpu() for part in zip(*self._passes, strict=True))
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
        self._pass = None

    def _hook(self, hooks: ExitStack, i: int, layer: EncoderLayer) -> None:
        """Hooks take time: only where there is something to do."""
        module, drops, prenorm = layer.module, i in self._at, layer.layout.prenorm
        cut, handles = module.get_submodule(layer.layout.cut), []
        if i == 0 or i > min(self._at, default=len(self.layers)):
            before = partial(self._before_layer, i)
            handles.append(module.register_forward_pre_hook(before, with_kwargs=True))
        if drops and self.score in ("cls", "received"):
            for name in (layer.attention.q, layer.attention.k, layer.attention.name):
                part = module.get_submodule(name)
                handles.append(part.register_forward_hook(partial(self._note, name)))
        if drops and prenorm:
            handles.append(cut.register_forward_pre_hook(partial(self._drop, i)))
            handles.append(cut.register_forward_hook(self._after_ffn))
        elif drops:
            handles.append(cut.register_forward_hook(partial(self._drop, i)))
        if i == len(self.layers) - 1 or (drops and prenorm):
            # first in line, so that hidden states which transformers records are the
            # rows that go on
            after = partial(self._after_layer, i)
            handles.append(module.register_forward_hook(after, prepend=True))
        for handle in handles:
            hooks.callback(handle.remove)

    # ------------------------------------------------------------------------ the hooks
    @property
    def _now(self) -> ScoreContext:
        if self._pass is None:
            raise RuntimeError(
                "a layer ran outside a forward pass of the whole encoder, so which tokens are left?"
            )
        return self._pass

    def _before_layer(self, i: int, _: nn.Module, args: Any, kwargs: dict[str, Any]) -> Any:
        positional = len(args) > 1
        if i == 0:
            hidden = args[0] if args else kwargs["hidden_states"]
            mask = args[1] if positional else kwargs.get("attention_mask")
            self._pass = self._start(hidden, mask)
        mask = self._now._mask
        if positional:
            return (args[0], mask, *args[2:]), kwargs
        return args, kwargs | {"attention_mask": mask}

    def _start(self, hidden: Tensor, mask: Tensor | None) -> ScoreContext:
        for layer in self.layers:
            if getattr(layer.module, "gradient_checkpointing", False) and layer.module.training:
                raise ValueError(
                    "model has gradient checkpointing, which runs layers again in the backward"
                    " pass, when tokens are gone: call model.gradient_checkpointing_disable()"
                )
        real = _real_tokens(mask, hidden)
        places = torch.arange(real.shape[1], device=hidden.device).expand(real.shape)
        left = places.masked_fill(~real, -1)
        counts = _log_counts(real, hidden)
        return ScoreContext(ForwardRecord(real), hidden, places, counts, mask, left)

    def _note(self, name: str, module: nn.Module, args: Any, out: Any) -> None:
        self._now._seen[name] = out

    def _drop(self, i: int, module: nn.Module, args: tuple[Any, ...], out: Any = None) -> Any:
        """Post-norm: rows of what attention gave. Pre-norm: of what the FFN is to read."""
        rows = args if out is None else out
        index = self._decide(i, rows[0] if isinstance(rows, tuple) else rows)
        self._now._cut = index if self.layers[i].layout.prenorm else None
        return _gathered(rows, index)

    def _after_ffn(self, module: nn.Module, args: Any, out: Tensor) -> Tensor:
        """The layer adds this to all of its rows: each goes back to its place."""
        if (index := self._now._cut) is None:
            return out
        full = out.new_zeros(self._now.hidden.shape)
        return full.scatter(1, index[:, :, None].expand_as(out), out)

    def _after_layer(self, i: int, module: nn.Module, args: Any, out: Any) -> Any:
        now = self._now
        index, now._cut = now._cut, None
        if i == len(self.layers) - 1:
            now._goes_on(len(self.layers), now._left)
            self.last, self._pass = now.record, None
            self._passes.append((now.record.attention, now.record.ffn))
        return _gathered(out, index)

    # ----------------------------------------------------------------------- what stays
    def _decide(self, i: int, hidden: Tensor) -> Tensor | None:
        """The rows of ``hidden`` that stay after layer i, (B, k); None for all of them.
        The pass is of those, then.
        """
        now, protected = self._now, self.layers[i].layout.protected
        now.layer, now.hidden = i, hidden
        real, score = now.token_mask, self._scored(i)
        noted = torch.zeros_like(now.record.token_mask, dtype=score.dtype)
        now.record.scores[i] = noted.scatter_add_(
            1, now.places, score.detach().masked_fill(~real, 0)
        )
        if self._soft:
            self._weigh(i, score)
            return None
        with torch.no_grad():
            keep = self._kept(i, score.detach())
            keep[:, :protected] = True
            keep &= real
            if bool((keep == real).all()):
                return None
            index, valid = selection.positions(keep, real, int(keep.sum(1).max()))  # (B, k)
            now.places, now._counts = now.places.gather(1, index), _log_counts(valid, hidden)
            now._mask = _mask_of(now._counts, hidden)
            now._goes_on(i, now.places.masked_fill(~valid, -1))
        return index

    def _scored(self, i: int) -> Tensor:
        now, real = self._now, self._now.token_mask
        if callable(self.score):
            score = self.score(now)
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
        n, device = int(real.sum()), self.generator.device
        drawn = torch.rand(n, generator=self.generator, device=device).to(real.device)
        return torch.zeros(real.shape, device=real.device).masked_scatter_(real, drawn)

    def _attention_score(self, i: int) -> Tensor:
        now, layer, heads = self._now, self.layers[i], self._heads_of(i)
        names, d = layer.attention, layer.attention.head_size
        seen, now._seen = now._seen, {}
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
            return attention_rows(query, key, now._counts, scale, heads).mean(1)
        given = out[1] if isinstance(out, tuple) and len(out) > 1 else None
        if given is not None and not attention.training:  # in training these have had dropout
            rows = mean_over_heads(given.to(now._counts.dtype), heads)
        else:
            rows = attention_rows(query, key, now._counts, scale, heads)
        return of_columns(rows, now._counts.exp())

    def _heads_of(self, i: int) -> Tensor | None:
        """Which heads of layer i vote. A grid (layers, H) is as wide as the largest layer."""
        return None if self.heads is None else self.heads[i][: self.layers[i].attention.heads]

    def _kept(self, i: int, score: Tensor) -> Tensor:
        now, real = self._now, self._now.token_mask
        if isinstance(self.keep, Mapping):
            k = self.keep[i]
            if isinstance(k, float):
                k = selection.kept_count(now.record.lengths, k)
            return selection.top_tokens(score, real, k, self.layers[i].layout.protected)
        kept = self.keep(score, i, real)
        if kept.shape != real.shape:
            raise ValueError(f"keep should give {tuple(real.shape)}, got {tuple(kept.shape)}")
        return kept.bool()

    @property
    def _soft(self) -> bool:
        return isinstance(self.keep, SoftThreshold) and self.keep.training

    def _weigh(self, i: int, score: Tensor) -> None:
        """A soft threshold: nothing goes, but keys count less, in the limit not at all,
        which is what dropping does.
        """
        now, protected = self._now, self.layers[i].layout.protected
        assert isinstance(self.keep, SoftThreshold)
        gate = self.keep(score, i, now._counts.exp())  # (B, L)
        gate = gate.masked_fill((now.places < protected) | ~now.token_mask, 1)
        now._counts = now._counts + gate.clamp_min(torch.finfo(gate.dtype).tiny).log()
        now._mask = _mask_of(now._counts, now.hidden)
        now.record.weights[i] = now._counts.exp()
        now._goes_on(i, now._left.masked_fill(gate.detach() < 0.5, -1))


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
