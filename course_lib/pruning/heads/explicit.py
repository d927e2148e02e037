"""``nn.MultiheadAttention`` with its projections as layers: the same outputs, and heads
that can be gated and removed.

torch's module keeps the query, key and value weights in one parameter, and hands them
and the output projection's to one function. No hook on its ``out_proj`` ever fires, and
what goes into that projection is seen by nobody.

Source: Vaswani et al. 2017, "Attention Is All You Need", section 3.2.2; torch's
``F.multi_head_attention_forward``.
"""

from __future__ import annotations

import copy

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_lib.wrapped import refuse_wrapped


class ExplicitAttention(nn.Module):
    """Multi-head attention from four linear layers; called as ``nn.MultiheadAttention``
    is, and returning what it does.

    ``out_proj`` always reads (B, L, heads · head size), whether the sequence or the
    batch comes first. A mask with an entry for every head, (B · heads, L, S), counts
    the heads that are left.
    """

    # nn.TransformerEncoderLayer looks here whether it may bypass this module and call
    # one fused function. It may not.
    in_proj_weight = None
    in_proj_bias = None
    _qkv_same_embed_dim = False

    def __init__(self, attention: nn.MultiheadAttention) -> None:
        """A replacement for ``attention``, with copies of its weights."""
        super().__init__()
        E = attention.embed_dim
        self.embed_dim = E
        self.num_heads = attention.num_heads
        self.head_dim = attention.head_dim
        self.dropout = attention.dropout
        self.batch_first = attention.batch_first
        self.add_zero_attn = attention.add_zero_attn
        self.is_causal = False  # it is causal only when its caller says so
        if attention.in_proj_weight is None:
            weights = [
                _copy(w)
                for w in (attention.q_proj_weight, attention.k_proj_weight, attention.v_proj_weight)
            ]
        else:
            weights = [_copy(attention.in_proj_weight, i) for i in range(3)]
        biases = [
            None if attention.in_proj_bias is None else _copy(attention.in_proj_bias, i)
            for i in range(3)
        ]
        self.q_proj, self.k_proj, self.v_proj = (
            _linear(w, b) for w, b in zip(weights, biases, strict=True)
        )
        out_bias = attention.out_proj.bias
        self.out_proj = _linear(
            _copy(attention.out_proj.weight), None if out_bias is None else _copy(out_bias)
        )
        # one more key and value, the same for all sequences: (heads, head size)
        self.bias_k, self.bias_v = (
            (
                None
                if extra is None
                else nn.Parameter(
                    extra.detach().view(-1, self.head_dim).clone(), extra.requires_grad
                )
            )
            for extra in (attention.bias_k, attention.bias_v)
        )
        self.train(attention.training)

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """See ``nn.MultiheadAttention.forward``: shapes, masks (True = not attended to)
        and returns are the same.
        """
        batched = query.ndim == 3
        if not batched:
            query, key, value = (x[None] for x in (query, key, value))
            key_padding_mask = None if key_padding_mask is None else key_padding_mask[None]
        elif not self.batch_first:
            query, key, value = (x.transpose(0, 1) for x in (query, key, value))
        if is_causal and attn_mask is None:
            raise RuntimeError(
                "is_causal is a hint that attn_mask is causal, so attn_mask must be given too"
            )

        q, k, v = (
            self._heads(self.q_proj(query)),
            self._heads(self.k_proj(key)),
            self._heads(self.v_proj(value)),
        )
        if self.bias_k is not None and self.bias_v is not None:
            k = torch.cat([k, self.bias_k[:, None].expand(len(k), -1, -1, -1)], 2)
            v = torch.cat([v, self.bias_v[:, None].expand(len(v), -1, -1, -1)], 2)
        if self.add_zero_attn:
            k, v = (F.pad(x, (0, 0, 0, 1)) for x in (k, v))
        hint = is_causal and key_padding_mask is None and not need_weights
        mask = None if hint else self._mask(q, k.shape[2], key_padding_mask, attn_mask)

        # (B, heads, L, head size), (B, heads, L, S)
        context, weights = self._attend(q, k, v, mask, hint, need_weights)
        # (B, L, heads · head size) -> (B, L, E)
        out = self.out_proj(context.transpose(1, 2).flatten(2))
        if weights is not None and average_attn_weights:
            weights = weights.sum(1) / max(self.num_heads, 1)
        if not batched:
            return out[0], None if weights is None else weights[0]
        return (out if self.batch_first else out.transpose(0, 1)), weights

    def _heads(self, x: Tensor) -> Tensor:
        # (B, heads, L, head size)
        return x.unflatten(-1, (self.num_heads, self.head_dim)).transpose(1, 2)

    def _mask(
        self, q: Tensor, S: int, padding: Tensor | None, mask: Tensor | None
    ) -> Tensor | None:
        """Both masks as one that is added to the scores, or None; 0 at the keys that
        this module adds itself.
        """
        B, heads, L, _ = q.shape
        parts = []
        if mask is not None:
            mask = _additive(mask, q.dtype, "attn_mask")
            if mask.ndim == 3:
                if len(mask) != B * heads:
                    raise RuntimeError(
                        f"attn_mask with three axes is (B · heads, L, S), and B · heads is {B} ·"
                        f" {heads}; got {tuple(mask.shape)}"
                    )
                mask = mask.unflatten(0, (B, heads))
            parts.append(mask)
        if padding is not None:
            # (B, 1, 1, S)
            parts.append(_additive(padding, q.dtype, "key_padding_mask")[:, None, None])
        parts = [F.pad(part, (0, S - part.shape[-1])) for part in parts]
        return sum(parts[1:], parts[0]) if parts else None

    def _attend(
        self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, causal: bool, need_weights: bool
    ) -> tuple[Tensor, Tensor | None]:
        dropout = self.dropout if self.training else 0.0
        if not need_weights:
            if self.num_heads == 0:
                return q, None  # (B, 0, L, head size)
            return F.scaled_dot_product_attention(q, k, v, mask, dropout, causal), None
        scores = q @ k.mT * self.head_dim**-0.5
        weights = (scores if mask is None else scores + mask).softmax(-1)
        weights = F.dropout(weights, dropout)
        return weights @ v, weights


def explicit_attention(model: nn.Module) -> nn.Module:
    """A copy of ``model`` in which every ``nn.MultiheadAttention`` is an
    :class:`ExplicitAttention`: the same outputs.

    Torchvision's vision transformers, ``nn.TransformerEncoder`` and the like need this
    before their heads can be gated or scored;
    :func:`~course_lib.pruning.heads.remove_heads` does it by itself. Modules of other
    kinds, transformers' among them, are copied as they are. Subclasses of
    ``nn.MultiheadAttention`` are replaced too.
    """
    refuse_wrapped(model, "parallel", "compile", "script")
    model = copy.deepcopy(model)
    if isinstance(model, nn.MultiheadAttention):
        return ExplicitAttention(model)
    explicit_attention_(model)
    return model


def explicit_attention_(model: nn.Module) -> None:
    """As :func:`explicit_attention`, in place; ``model`` itself is of another kind."""
    made: dict[nn.Module, ExplicitAttention] = {}  # a module that occurs twice is replaced by one
    for parent in list(model.modules()):
        if isinstance(parent, nn.TransformerEncoder):
            parent.use_nested_tensor = False  # it packs padded batches only for its fused function
        for name, child in list(parent._modules.items()):
            if isinstance(child, nn.MultiheadAttention):
                made[child] = made.get(child) or ExplicitAttention(child)
                setattr(parent, name, made[child])


def _linear(weight: nn.Parameter, bias: nn.Parameter | None) -> nn.Linear:
    d_out, d_in = weight.shape
    layer = nn.Linear(d_in, d_out, bias=bias is not None, device="meta")  # draws no random numbers
    layer.weight = weight
    if bias is not None:
        layer.bias = bias
    return layer


def _copy(parameter: Tensor, third: int | None = None) -> nn.Parameter:
    """A copy of a parameter, or of one third of it, that is trainable where it is."""
    part = parameter.detach() if third is None else parameter.detach().chunk(3)[third]
    return nn.Parameter(part.clone(), parameter.requires_grad)


def _additive(mask: Tensor, dtype: torch.dtype, name: str) -> Tensor:
    """A mask that is added to the scores: -inf where a bool mask is True."""
    if mask.dtype == torch.bool:
        return torch.zeros_like(mask, dtype=dtype).masked_fill(mask, -torch.inf)
    if not mask.is_floating_point():
        raise TypeError(
            f"{name} is bool, True = not attended to, or floating point and added; got {mask.dtype}"
        )
    return mask.to(dtype)
