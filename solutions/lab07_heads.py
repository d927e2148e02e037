# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#       format_version: '1.3'
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# %% [markdown]
# # Lab 07 · Are sixteen heads really better than one?

# %%
from course_lib.grading import check, skip  # noqa: F401  (skip is yours to use)

# isort: split
import copy
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from course_lib.pruning.attention import output_projections

# %% [markdown]
# ### 7.1 Multi-head attention is a sum
# **15 minutes · 3 points**


# %%
def attention_as_sum(x: Tensor, Wq: Tensor, Wk: Tensor, Wv: Tensor, Wo: Tensor, heads: int) -> Tensor:
    """Self-attention, head by head: what each head adds to the output.

    Args:
        x: (B, L, E), the input; queries, keys and values are all made from it. No mask, no biases.
        Wq, Wk, Wv, Wo: (E, E) as torch stores them, so the projection is ``x @ W.T``. Head h owns rows
            h·d to (h+1)·d of Wq, Wk and Wv, and the same *columns* of Wo; d = E / heads.
        heads: how many, M.

    Returns:
        (M, B, L, E): entry h is what head h contributes, softmax(q kᵀ/√d) v through its columns of Wo. The sum over
        h is the output of multi-head attention.

    Raises:
        ValueError: if ``heads`` does not divide E.
    """
    ### BEGIN SOLUTION
    B, L, E = x.shape
    if heads < 1 or E % heads:
        raise ValueError(f"{E} features cannot be shared out among {heads} heads")
    d = E // heads
    q, k, v = ((x @ W.T).view(B, L, heads, d).permute(2, 0, 1, 3) for W in (Wq, Wk, Wv))  # each (M, B, L, d)
    attention = torch.softmax(q @ k.transpose(-1, -2) / d**0.5, dim=-1)  # (M, B, L, L)
    context = attention @ v  # (M, B, L, d)
    columns = Wo.view(E, heads, d).permute(1, 2, 0)  # (M, d, E): head h's columns of Wo, transposed
    return context @ columns[:, None]  # (M, B, L, E)
    ### END SOLUTION


# %%
check("7.1")

# %% [markdown]
# ### 7.2 A gate on every head
# **15 minutes · 3 points**


# %%
@contextmanager
def gated(model: nn.Module, xi: Tensor) -> Iterator[None]:
    """Inside ``with gated(model, xi):`` what head h of layer l puts out is multiplied by its gate ξ.

    The gates act where the heads still lie side by side: on the *input* (B, L, heads · d) of each layer's output
    projection. ``output_projections(model)`` lists these modules, one for each layer;
    ``model.config.num_attention_heads`` says how many heads there are. Gradients flow to ``xi``. With ξ = 1 nothing
    changes. After the block, also when an exception leaves it, the model is as before: no hook stays.

    Args:
        model: an encoder from transformers, or a classifier round one.
        xi: (layers, heads), the same gates for all samples; or (layers, B, heads), one set for each sample.
    """
    ### BEGIN SOLUTION
    heads = model.config.num_attention_heads

    def scale(gate: Tensor) -> Callable:
        def hook(module: nn.Module, args: tuple) -> tuple:
            context, *rest = args  # (B, L, heads · d)
            by_head = context.unflatten(-1, (heads, -1))  # (B, L, heads, d)
            per_sample = gate if gate.ndim == 1 else gate[:, None]  # (heads,) or (B, 1, heads)
            return (by_head * per_sample[..., None]).flatten(-2), *rest

        return hook

    handles = []
    try:
        for projection, gate in zip(output_projections(model), xi, strict=True):
            handles.append(projection.register_forward_pre_hook(scale(gate)))
        yield
    finally:
        for handle in handles:
            handle.remove()
    ### END SOLUTION


# %%
check("7.2")

# %% [markdown]
# ### 7.3 The importance of a head
# **20 minutes · 4 points · needs 7.2**


# %%
def head_importance(
    model: nn.Module, batches: Iterable[dict[str, Tensor]], loss_fn: Callable[[nn.Module, dict[str, Tensor]], Tensor]
) -> Tensor:
    """I_h = mean over samples x of |∂L(x)/∂ξ_h|, at ξ = 1.

    Args:
        model: evaluated without dropout. Afterwards it is in the mode it was in, and no parameter's ``.grad`` has
            changed.
        batches: dicts of tensors whose first dimension is the batch, B (which may differ from batch to batch).
        loss_fn: ``loss_fn(model, batch)`` runs the model and returns the loss of each sample, (B,).

    Returns:
        (layers, heads), without gradient. The absolute value is taken sample by sample, so the result depends neither
        on the batch size nor on the order of the data.
    """
    ### BEGIN SOLUTION
    layers, heads = len(output_projections(model)), model.config.num_attention_heads
    total, samples = torch.zeros(layers, heads, dtype=torch.float64), 0
    training = model.training
    model.eval()
    for batch in batches:
        size = len(next(iter(batch.values())))
        xi = torch.ones(layers, size, heads, requires_grad=True)  # one set of gates for each sample
        with gated(model, xi):
            losses = loss_fn(model, batch)  # (B,)
        # ∂(sum of losses)/∂ξ of a sample is that of its own loss alone: no other loss depends on its gates
        (gradient,) = torch.autograd.grad(losses.sum(), xi)  # (layers, B, heads)
        total += gradient.abs().sum(1)
        samples += size
    model.train(training)
    return total / samples
    ### END SOLUTION


# %%
check("7.3")

# %% [markdown]
# ### 7.4 Take one out, or leave one in
# **12 minutes · 3 points**


# %%
def ablate_each(evaluate: Callable[[Tensor], float], layers: int, heads: int) -> Tensor:
    """For every head: what changes if it alone is switched off.

    Args:
        evaluate: ``evaluate(xi)`` for gates (layers, heads) of zeros and ones; higher is better.

    Returns:
        (layers, heads): ``evaluate`` with this head's gate at 0 minus ``evaluate`` with all gates at 1.
    """
    ### BEGIN SOLUTION
    full = evaluate(torch.ones(layers, heads))
    change = torch.zeros(layers, heads)
    for layer in range(layers):
        for head in range(heads):
            xi = torch.ones(layers, heads)
            xi[layer, head] = 0
            change[layer, head] = evaluate(xi) - full
    return change
    ### END SOLUTION


def all_but_one(
    eval_val: Callable[[Tensor], float], eval_test: Callable[[Tensor], float], layers: int, heads: int
) -> list[tuple[int, float]]:
    """For every layer: all of its heads off but one, the other layers whole.

    Which head stays is chosen by ``eval_val`` (highest; of equal ones the first), what it costs is measured by
    ``eval_test``: the best of many on the same data would look better than it is.

    Args:
        eval_val, eval_test: of gates (layers, heads), on validation and on test data; higher is better.

    Returns:
        One pair for each layer: the head that stays, and ``eval_test`` with it minus ``eval_test`` with all heads.
    """
    ### BEGIN SOLUTION
    full = eval_test(torch.ones(layers, heads))
    result = []
    for layer in range(layers):
        alone = []
        for head in range(heads):
            xi = torch.ones(layers, heads)
            xi[layer] = 0
            xi[layer, head] = 1
            alone.append(xi)
        scores = [eval_val(xi) for xi in alone]
        best = scores.index(max(scores))
        result.append((best, eval_test(alone[best]) - full))
    return result
    ### END SOLUTION


# %%
check("7.4")

# %% [markdown]
# ### 7.5 By place
# **12 minutes · 2 points**


# %%
def choose_heads(
    layers: int, heads: int, count: int, rule: str, generator: torch.Generator, min_per_layer: int = 0
) -> Tensor:
    """Choose ``count`` heads to remove by their place alone.

    Args:
        count: how many heads are removed in all.
        rule: ``"random"``: anywhere. ``"top"``: from the last layer down, a layer loses all it may lose before the
            next one loses any; ``"bottom"``: from the first layer up; ``"middle"``: from the middle layer outwards (of
            two equally near the middle, the earlier one first). ``"no_consecutive"``: no two adjacent layers lose heads.
            Where a rule leaves it open which heads of a layer go, chance decides.
        generator: all chance comes from it.
        min_per_layer: how many heads must stay in every layer.

    Returns:
        bool (layers, heads), True = kept, with exactly ``count`` False.

    Raises:
        ValueError: if the rule is unknown, or so many cannot be removed by it.
    """
    ### BEGIN SOLUTION
    may_lose = heads - min_per_layer
    middle = (layers - 1) / 2
    if rule == "random":
        order = None
    elif rule == "top":
        order = list(range(layers))[::-1]
    elif rule == "bottom":
        order = list(range(layers))
    elif rule == "middle":
        order = sorted(range(layers), key=lambda layer: (abs(layer - middle), layer))
    elif rule == "no_consecutive":
        # every second layer is as many as can be without neighbours; with an even number there are two such sets
        first = int(torch.randint(2, (1,), generator=generator)) if layers % 2 == 0 else 0
        order = list(range(first, layers, 2))
    else:
        raise ValueError(f"no rule {rule!r}: random, top, bottom, middle or no_consecutive")
    places = layers if order is None else len(order)
    if not 0 <= count <= places * max(may_lose, 0):
        raise ValueError(f"{rule} can remove 0 to {places * max(may_lose, 0)} heads here, not {count}")

    keep = torch.ones(layers, heads, dtype=torch.bool)
    # for each layer the heads that may go, in random order
    lists = [torch.randperm(heads, generator=generator)[: max(may_lose, 0)].tolist() for _ in range(layers)]
    if order is None:
        candidates = [(layer, head) for layer in range(layers) for head in lists[layer]]
        shuffled = torch.randperm(len(candidates), generator=generator).tolist()
        chosen = [candidates[i] for i in shuffled[:count]]
    else:
        chosen = [(layer, head) for layer in order for head in lists[layer]][:count]
    for layer, head in chosen:
        keep[layer, head] = False
    return keep
    ### END SOLUTION


# %%
check("7.5")

# %% [markdown]
# ### 7.6 Out with them
# **15 minutes · 3 points**


# %%
def slice_heads(
    q: nn.Linear, k: nn.Linear, v: nn.Linear, out: nn.Linear, keep: list[int], head_dim: int
) -> tuple[nn.Linear, nn.Linear, nn.Linear, nn.Linear]:
    """Four smaller linear layers with only some of the heads.

    Args:
        q, k, v: (heads · head_dim) outputs each, with or without a bias. Not changed.
        out: (heads · head_dim) inputs, with or without a bias. Not changed.
        keep: indices of the heads to keep, strictly increasing; may be empty.
        head_dim: d. Head h owns features h·d to (h+1)·d.

    Returns:
        New ``q``, ``k``, ``v`` and ``out``, with the parameters of the heads kept, in their order. Attention computed
        with them equals attention with the other heads gated to 0.

    Raises:
        ValueError: if ``keep`` is not strictly increasing or names a head that is not there.
    """
    ### BEGIN SOLUTION
    heads = q.out_features // head_dim
    rising = all(a < b for a, b in zip(keep, keep[1:], strict=False))
    if not rising or (len(keep) and not 0 <= keep[0] <= keep[-1] < heads):
        raise ValueError(f"keep: strictly increasing heads from 0 to {heads - 1}, got {keep}")
    features = torch.arange(heads * head_dim).view(heads, head_dim)[torch.tensor(keep, dtype=torch.int64)].flatten()

    def rows(layer: nn.Linear) -> nn.Linear:
        smaller = copy.deepcopy(layer)
        smaller.weight = nn.Parameter(layer.weight.detach()[features])  # (kept · d, E)
        if layer.bias is not None:
            smaller.bias = nn.Parameter(layer.bias.detach()[features])
        smaller.out_features = len(features)
        return smaller

    columns = copy.deepcopy(out)  # its bias belongs to no head, and stays
    columns.weight = nn.Parameter(out.weight.detach()[:, features])  # (E, kept · d)
    columns.in_features = len(features)
    return rows(q), rows(k), rows(v), columns
    ### END SOLUTION


# %%
check("7.6")

# %% [markdown]
# ### 7.7 Two short answers
# **10 minutes · 1 point**

# %%
### BEGIN SOLUTION
answer_7_7a = "C"
answer_7_7b = 1.0
### END SOLUTION

# %%
check("7.7")

# %% [markdown]
# ### 7.8 Bug hunt
# **15 minutes · 1 point**


# %%
def find_bug(f: Callable[..., Tensor]) -> None:
    """Raise AssertionError if ``f(x, Wq, Wk, Wv, Wo, heads)`` breaks the contract of ``attention_as_sum`` (7.1); else
    return. ``f`` takes its arguments by position."""
    ### BEGIN SOLUTION
    generator = torch.Generator().manual_seed(1)
    for B, L, E, heads in ((2, 5, 12, 3), (3, 4, 8, 4), (1, 3, 6, 1), (2, 2, 10, 5)):
        x = torch.randn(B, L, E, generator=generator, dtype=torch.float64)
        Wq, Wk, Wv, Wo = (torch.randn(E, E, generator=generator, dtype=torch.float64) for _ in range(4))
        layer = nn.MultiheadAttention(E, heads, bias=False, batch_first=True, dtype=torch.float64)
        layer.in_proj_weight = nn.Parameter(torch.cat([Wq, Wk, Wv]))
        layer.out_proj.weight = nn.Parameter(Wo)
        parts = f(x, Wq, Wk, Wv, Wo, heads)
        case = f"B {B}, L {L}, E {E}, heads {heads}"
        assert parts.shape == (heads, B, L, E), f"shape {tuple(parts.shape)}: {case}"
        whole, _ = layer(x, x, x)
        assert torch.allclose(parts.sum(0), whole), f"the sum is not multi-head attention: {case}"
        # a head's part must be its own: with the other heads' columns of Wo at 0, it is all there is
        d = E // heads
        for h in range(heads):
            alone = torch.zeros_like(Wo)
            alone[:, h * d : (h + 1) * d] = Wo[:, h * d : (h + 1) * d]
            layer.out_proj.weight = nn.Parameter(alone)
            own, _ = layer(x, x, x)
            assert torch.allclose(parts[h], own), f"part {h} is not head {h}'s: {case}"
    ### END SOLUTION


# %%
check("7.8")
