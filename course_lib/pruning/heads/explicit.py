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
    """Multi-head attention from four linear layers; called with a batch as
    ``nn.MultiheadAttention`` is, and returning what it does.

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
        if attention.bias_k is not None or attention.add_zero_attn:
            raise ValueError(
                "attention adds a key of its own (add_bias_kv or add_zero_attn), which is not"
                " supported here: its heads can be neither gated nor removed"
            )
        self.embed_dim, self.num_heads = attention.embed_dim, attention.num_heads
        self.head_dim, self.dropout = attention.head_dim, attention.dropout
        self.batch_first = attention.batch_first
        packed, bias, E = attention.in_proj_weight, attention.in_proj_bias, self.embed_dim
        separate = (attention.q_proj_weight, attention.k_proj_weight, attention.v_proj_weight)
        weights = separate if packed is None else [packed] * 3
        self.q_proj, self.k_proj, self.v_proj = (
            _linear(weight, bias, E, i) for i, weight in enumerate(weights)
        )
        self.out_proj = _linear(attention.out_proj.weight, attention.out_proj.bias, E)
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
        """As ``nn.MultiheadAttention.forward``: shapes, masks (True = not attended to), returns."""
        if query.ndim != 3:
            raise ValueError(f"query must be a batch, with three axes; got {tuple(query.shape)}")
        if is_causal and attn_mask is None:
            raise ValueError(
                "attn_mask must be given with is_causal, which only says that it is causal"
            )
        if not self.batch_first:
            query, key, value = (x.transpose(0, 1) for x in (query, key, value))
        q, k, v = (
            # (B, heads, L, head size)
            x.unflatten(-1, (self.num_heads, self.head_dim)).transpose(1, 2)
            for x in (self.q_proj(query), self.k_proj(key), self.v_proj(value))
        )
        mask = None
        if attn_mask is not None:
            mask = _additive(attn_mask, q.dtype, "attn_mask")
            mask = mask.unflatten(0, q.shape[:2]) if mask.ndim == 3 else mask
        if key_padding_mask is not None:
            padding = _additive(key_padding_mask, q.dtype, "key_padding_mask")[:, None, None]
            mask = padding if mask is None else mask + padding
        dropout = self.dropout if self.training else 0.0
        weights = None
        if need_weights or not self.num_heads:
            scores = q @ k.mT * self.head_dim**-0.5
            weights = (scores if mask is None else scores + mask).softmax(-1)
            weights = F.dropout(weights, dropout)  # (B, heads, L, S)
            context = weights @ v
        else:
            context = F.scaled_dot_product_attention(q, k, v, mask, dropout)
        # (B, L, heads · head size) -> (B, L, E)
        out = self.out_proj(context.transpose(1, 2).flatten(2))
        out = out if self.batch_first else out.transpose(0, 1)
        if weights is None or not need_weights:
            return out, None
        return out, weights.sum(1) / max(self.num_heads, 1) if average_attn_weights else weights


def explicit_attention(model: nn.Module) -> nn.Module:
    """A copy of ``model`` in which every ``nn.MultiheadAttention``, and every subclass, is an
    :class:`ExplicitAttention`: the same outputs. One that adds keys of its own
    (``add_bias_kv``, ``add_zero_attn``) is refused.

    Torchvision's vision transformers, ``nn.TransformerEncoder`` and the like need this
    before their heads can be gated or scored;
    :func:`~course_lib.pruning.heads.remove_heads` does it by itself.
    """
    refuse_wrapped(model, "parallel", "compile", "script")
    model = copy.deepcopy(model)
    if isinstance(model, nn.MultiheadAttention):
        return ExplicitAttention(model)
    made: dict[nn.Module, ExplicitAttention] = {}  # a module that occurs twice is replaced by one
    for parent in list(model.modules()):
        if isinstance(parent, nn.TransformerEncoder):
            parent.use_nested_tensor = False  # it packs padded batches only for its fused function
        for name, child in list(parent._modules.items()):
            if isinstance(child, nn.MultiheadAttention):
                made[child] = made.get(child) or ExplicitAttention(child)
                setattr(parent, name, made[child])
    return model


def _linear(weight: Tensor, bias: Tensor | None, outputs: int, part: int = 0) -> nn.Linear:
    """With copies of these, or of the rows of one part; frozen where they are."""
    layer = nn.Linear(weight.shape[1], outputs, bias is not None, "meta")  # draws no numbers
    for name, whole in (("weight", weight), ("bias", bias)):
        if whole is not None:
            rows = whole.detach().split(outputs)[part % (len(whole) // outputs)]
            setattr(layer, name, nn.Parameter(rows.clone(), whole.requires_grad))
    return layer


def _additive(mask: Tensor, dtype: torch.dtype, name: str) -> Tensor:
    """A mask that is added to the scores: -inf where a bool mask is True."""
    if mask.dtype == torch.bool:
        return torch.zeros_like(mask, dtype=dtype).masked_fill(mask, -torch.inf)
    if not mask.is_floating_point():
        raise TypeError(f"{name} must be bool, True = not attended to, or added; got {mask.dtype}")
    return mask.to(dtype)
