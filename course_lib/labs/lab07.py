"""Lab 07, attention heads: its contracts answered by the library."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager

import torch
from torch import Tensor, nn
from torch.func import functional_call

from course_lib.labs.contract import Contract
from course_lib.pruning import heads as library

# of which a model is handed in
lab = Contract("lab07", imports=("transformers.models.bert.modeling_bert",))
_ATTENTION = (
    "torch.nn.functional.multi_head_attention_forward",
    "torch._native_multi_head_attention",
)
_CUT = ("torch.nn.utils.prune", "transformers.pytorch_utils.prune_linear_layer")


@lab.asks("7.1", forbidden=_ATTENTION)
def attention_as_sum(
    x: Tensor, Wq: Tensor, Wk: Tensor, Wv: Tensor, Wo: Tensor, heads: int
) -> Tensor:
    """7.1: (H, B, L, E), for each head the output of multi-head attention with the
    gates of all others shut.
    """
    E = x.shape[-1]
    if heads < 1 or E % heads:
        raise ValueError(f"{E} features cannot be shared out among {heads} heads")
    attention = library.ExplicitAttention(
        nn.MultiheadAttention(E, heads, bias=False, batch_first=True, device="meta")
    )
    weights = {
        f"{name}_proj.weight": W for name, W in (("q", Wq), ("k", Wk), ("v", Wv), ("out", Wo))
    }
    parts = []
    for gate in torch.eye(heads, dtype=x.dtype, device=x.device):
        with library.gated(attention, gate[None]):
            # (B, L, E)
            parts.append(functional_call(attention, weights, (x, x, x), {"need_weights": False})[0])
    return torch.stack(parts)


@lab.asks("7.2", plain=False)
def gated(model: nn.Module, xi: Tensor) -> AbstractContextManager[None]:
    """7.2: every head multiplied by its gate."""
    return library.gated(model, xi)


lab.helps("gated", "gated", of="heads")


@lab.asks("7.3", plain=False)
def head_importance(
    model: nn.Module,
    batches: Iterable[dict[str, Tensor]],
    loss_fn: Callable[[nn.Module, dict[str, Tensor]], Tensor],
) -> Tensor:
    """7.3: the mean over samples of |∂L/∂ξ|."""
    return library.head_importance(model, batches, loss_fn)


@lab.asks("7.4", plain=False)
def ablate_each(evaluate: Callable[[Tensor], float], layers: int, heads: int) -> Tensor:
    """7.4: what each head's removal alone changes."""
    return library.ablate_each(evaluate, layers, heads)


@lab.asks("7.4", plain=False)
def all_but_one(
    eval_val: Callable[[Tensor], float],
    eval_test: Callable[[Tensor], float],
    layers: int,
    heads: int,
) -> list[tuple[int, float]]:
    """7.4: each layer's best single head by validation, and its change on test."""
    return library.all_but_one(eval_val, eval_test, layers, heads)


@lab.asks("7.5", plain=False)
def prune_by_importance(
    importance: Callable[[Tensor], Tensor],
    layers: int,
    heads: int,
    count: int,
    step: int,
    min_per_layer: int = 0,
) -> Tensor:
    """7.5: the lowest heads pruned in steps, scored again before each."""
    keep = torch.ones(layers, heads, dtype=torch.bool)
    for before in range(0, count, step):
        scores = importance(keep.clone()).masked_fill(~keep, -torch.inf)
        keep = library.lowest_heads(scores, min(before + step, count), min_per_layer)
    return keep


@lab.asks("7.6", forbidden=_CUT, plain=False)
def slice_heads(
    q: nn.Linear, k: nn.Linear, v: nn.Linear, out: nn.Linear, keep: list[int], head_dim: int
) -> tuple[nn.Linear, nn.Linear, nn.Linear, nn.Linear]:
    """7.6: four smaller layers."""
    return library.slice_heads(q, k, v, out, keep, head_dim)


lab.asks("7.7", "answer_7_7a", "answer_7_7b")
lab.asks("7.8", "find_bug")
