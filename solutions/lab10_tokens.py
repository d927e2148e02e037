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
# # Lab 10 · Tokens

# %%
from course_lib.grading import check, skip  # noqa: F401  (skip is yours to use)

# isort: split
from collections.abc import Callable

import torch
from torch import Tensor, nn

# %% [markdown]
# ### 10.1 The attention a token receives
# **10 minutes · 3 points**


# %%
def attention_received(attn: Tensor, token_mask: Tensor) -> Tensor:
    """How much attention each token receives, on average over heads and over the real tokens that ask.

    Args:
        attn: (B, M, L, L), attention weights: ``attn[b, m, j, i]`` is how much query j takes from token i in head m.
            Over i each row sums to 1.
        token_mask: bool (B, L), True = a real token, False = padding.

    Returns:
        (B, L): the mean of column i over heads and real queries; columns of padding are 0, and the rest of each text
        is scaled so that it sums to 1.
    """
    ### BEGIN SOLUTION
    real = token_mask.to(attn.dtype)  # (B, L)
    by_query = attn.mean(1)  # (B, L, L)
    asked = (by_query * real[:, :, None]).sum(1)  # (B, L): summed over real queries
    asked = asked * real  # nothing goes to padding
    return asked / asked.sum(1, keepdim=True)
    ### END SOLUTION


# %%
check("10.1")

# %% [markdown]
# ### 10.2 Rows that leave
# **20 minutes · 4 points**


# %%
def keep_tokens(hidden: Tensor, token_mask: Tensor, scores: Tensor, k: int) -> tuple[Tensor, Tensor, Tensor]:
    """Drop rows: of each text k tokens stay, in their order.

    Args:
        hidden: (B, L, E), one row for each token. Column 0 is [CLS].
        token_mask: bool (B, L), True = a real token. Column 0 is always real; padding may stand anywhere else.
        scores: (B, L), finite, larger = more important; what it says of [CLS] and of padding does not count.
        k: rows that stay, at least 1; k' = min(k, L).

    Returns:
        ``(hidden, token_mask, index)`` of the rows that stay, (B, k', E), (B, k') and int64 (B, k'): [CLS] always, then
        real tokens with the largest scores (of equal ones, the first), and padding only where a text has fewer than k'
        real tokens (the first padding first). ``index`` says where each row stood, and rises along each row.

    Raises:
        ValueError: if k is below 1.
    """
    ### BEGIN SOLUTION
    if k < 1:
        raise ValueError(f"k is how many rows stay, at least 1 for [CLS], got {k}")
    importance = scores.masked_fill(~token_mask, -torch.inf)  # padding behind all real tokens …
    importance[:, 0] = torch.inf  # … and [CLS] before them
    order = importance.argsort(dim=1, descending=True, stable=True)  # (B, L); stable: of equal ones the first
    index = order[:, :k].sort(dim=1).values  # (B, k')
    rows = hidden.gather(1, index[:, :, None].expand(-1, -1, hidden.shape[2]))  # (B, k', E)
    return rows, token_mask.gather(1, index), index
    ### END SOLUTION


# %%
check("10.2")

# %% [markdown]
# ### 10.3 How many, and which: two policies
# **15 minutes · 3 points**


# %%
def progressive(lengths: Tensor, layers: int, final: float) -> Tensor:
    """Tokens that each layer works on when the share falls by the same factor from layer to layer.

    Args:
        lengths: int64 (B,), real tokens n of each text.
        layers: how many the encoder has, at least 2.
        final: the share that the last layer works on, in (0, 1].

    Returns:
        int64 (layers, B): row l, counted from 0, is max(1, ⌈n · final^(l/(layers−1)) − 1e-9⌉). The first layer works on
        all n. (The 1e-9 keeps 100 · 0.07 = 7.000000000000001 from becoming 8.)

    Raises:
        ValueError: if ``final`` is not in (0, 1].
    """
    ### BEGIN SOLUTION
    if not 0 < final <= 1:
        raise ValueError(f"final is a share of the tokens, above 0 and at most 1, got {final}")
    layer = torch.arange(layers, dtype=torch.float64)[:, None]  # (layers, 1)
    share = final ** (layer / (layers - 1))
    return torch.ceil(lengths.double() * share - 1e-9).clamp(min=1).long()  # (layers, B)
    ### END SOLUTION


def threshold_policy(scores: Tensor, theta: float, token_mask: Tensor) -> Tensor:
    """Keep the tokens with n · s ≥ θ, where n is the number of real tokens of the text, and 1 the average of n · s.

    Args:
        scores: (B, L), 0 for padding; over each text they sum to 1.
        theta: the threshold, ≥ 0.
        token_mask: bool (B, L), True = a real token. Column 0 is [CLS].

    Returns:
        bool (B, L), True = kept: [CLS] always, padding never.
    """
    ### BEGIN SOLUTION
    n = token_mask.sum(1, keepdim=True)  # (B, 1)
    keep = (n * scores >= theta) & token_mask
    keep[:, 0] = True
    return keep
    ### END SOLUTION


# %%
check("10.3")

# %% [markdown]
# ### 10.4 A threshold that learns
# **20 minutes · 4 points**


# %%
class SoftThreshold(nn.Module):
    """One learned threshold for each layer.

    Args:
        layers: how many.
        temperature: T > 0, how gradual the step is while training.

    ``theta`` is an ``nn.Parameter`` (layers,), 0 at first.
    """

    def __init__(self, layers: int, temperature: float):
        super().__init__()
        ### BEGIN SOLUTION
        self.theta = nn.Parameter(torch.zeros(layers))
        self.temperature = temperature
        ### END SOLUTION

    def forward(self, scores: Tensor, layer: int, token_mask: Tensor) -> Tensor:
        """How much of each token goes on from layer ``layer``.

        Args:
            scores: (B, L), 0 for padding; over each text they sum to 1.
            layer: whose threshold θ, from 0.
            token_mask: bool (B, L), True = a real token. Column 0 is [CLS].

        Returns:
            (B, L) in the dtype of ``scores``. In training mode σ((n·s − θ)/T), n = real tokens of the text; in
            evaluation mode 1 where n·s ≥ θ and else 0. In both, [CLS] is 1 and padding 0.
        """
        ### BEGIN SOLUTION
        n = token_mask.sum(1, keepdim=True)  # (B, 1)
        above = n * scores - self.theta[layer]
        gate = torch.sigmoid(above / self.temperature) if self.training else (above >= 0)
        gate = gate.to(scores.dtype) * token_mask
        first = torch.ones_like(gate[:, :1])
        return torch.cat([first, gate[:, 1:]], dim=1)  # not gate[:, 0] = 1: theta's gradient needs gate as it was
        ### END SOLUTION


# %%
check("10.4")

# %% [markdown]
# ### 10.5 Tokens and heads in one cascade
# **10 minutes · 2 points**


# %%
def cascade_step(
    token_scores: Tensor, head_scores: Tensor, alive_tokens: Tensor, alive_heads: Tensor, n_tokens: int, n_heads: int
) -> tuple[Tensor, Tensor]:
    """Which tokens and heads go on from one layer to the next.

    Args:
        token_scores: (L,), summed over the layers so far, finite. Token 0 is [CLS].
        head_scores: (M,), summed over the layers so far, finite.
        alive_tokens: bool (L,), those that are still there; [CLS] is.
        alive_heads: bool (M,).
        n_tokens, n_heads: how many go on, at least 1; if fewer are alive, all of those.

    Returns:
        bool (L,) and bool (M,): of those alive the ones with the largest scores (of equal ones the first), [CLS] always
        among them. What is not alive never comes back.

    Raises:
        ValueError: if ``n_tokens`` or ``n_heads`` is below 1.
    """
    ### BEGIN SOLUTION
    if n_tokens < 1 or n_heads < 1:
        raise ValueError(f"at least one token and one head go on, got {n_tokens} and {n_heads}")

    def best(scores: Tensor, alive: Tensor, n: int) -> Tensor:
        order = scores.masked_fill(~alive, -torch.inf).argsort(descending=True, stable=True)
        keep = torch.zeros_like(alive)
        keep[order[:n]] = True
        return keep & alive

    protected = token_scores.clone()
    protected[0] = torch.inf
    return best(protected, alive_tokens, n_tokens), best(head_scores, alive_heads, n_heads)
    ### END SOLUTION


# %%
check("10.5")

# %% [markdown]
# ### 10.6 What it saves
# **5 minutes · 2 points**


# %%
def token_macs(lengths_per_layer: list[int], E: int) -> int:
    """Multiply-accumulates of one text through the encoder: Σ over layers of 12·l·E² + 2·l²·E.

    Args:
        lengths_per_layer: tokens l that each layer works on.
        E: width. The feed-forward block is 4·E wide.
    """
    ### BEGIN SOLUTION
    return sum(12 * length * E**2 + 2 * length**2 * E for length in lengths_per_layer)
    ### END SOLUTION


# %%
check("10.6")

# %% [markdown]
# ### 10.7 Two short answers
# **10 minutes · 1 point**

# %%
### BEGIN SOLUTION
answer_10_7a = "B"
answer_10_7b = 1.0
### END SOLUTION

# %%
check("10.7")

# %% [markdown]
# ### 10.8 Bug hunt
# **15 minutes · 1 point**


# %%
def find_bug(f: Callable[[Tensor, Tensor], Tensor]) -> None:
    """Raise AssertionError if ``f(attn, token_mask)`` breaks the contract of ``attention_received`` (10.1); else
    return."""
    ### BEGIN SOLUTION
    generator = torch.Generator().manual_seed(1)
    for lengths, M in (((5, 5), 3), ((7, 4, 1), 2), ((6,), 1), ((3, 8), 4)):
        L = max(lengths)
        token_mask = torch.arange(L) < torch.tensor(lengths)[:, None]  # (B, L)
        raw = 2 * torch.randn(len(lengths), M, L, L, generator=generator, dtype=torch.float64)
        for leaks in (False, True):  # do the rows look at padding, too?
            seen = raw if leaks else raw.masked_fill(~token_mask[:, None, None], -torch.inf)
            attn = seen.softmax(-1)
            scores = f(attn.clone(), token_mask.clone())
            case = f"lengths {lengths}, {M} heads, rows that look at padding: {leaks}"
            assert scores.shape == token_mask.shape, f"shape {tuple(scores.shape)}: {case}"
            for b, n in enumerate(lengths):
                column = [attn[b, :, :n, i].mean().item() for i in range(n)]  # over heads and real queries
                expected = torch.tensor(column, dtype=torch.float64) / sum(column)
                assert torch.allclose(scores[b, :n], expected), f"text {b}: {case}"
                assert (scores[b, n:] == 0).all(), f"padding of text {b}: {case}"
    ### END SOLUTION


# %%
check("10.8")
