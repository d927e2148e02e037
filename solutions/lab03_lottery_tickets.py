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
# # Lab 03 · Lottery tickets, and pruning during training

# %%
from course_lib.grading import check, skip  # noqa: F401  (skip is yours to use)

# isort: split
import copy
import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

# %% [markdown]
# ### 3.1 A share of those that are left
# **12 minutes · 3 points**


# %%
def shrink(
    weights: dict[str, Tensor], masks: dict[str, Tensor], rate: float, output_rate: float | None = None
) -> dict[str, Tensor]:
    """Prune a share of the weights that are still alive, layer by layer.

    Args:
        weights: name -> trained weight, any shapes. Not changed. Pruned weights may hold any value here, also NaN.
        masks: name -> bool mask of the same shape, True = alive, with the same keys. Not changed.
        rate: the share of each layer's survivors to prune, in [0, 1].
        output_rate: the share for the last key, the output layer. None: half of ``rate``.

    Returns:
        New bool masks with the same keys, in the same order. In a layer with n survivors ``round(rate * n)`` more are
        pruned: those with the smallest |w| among the survivors; among equal |w| the first in row-major order goes
        first. What was pruned stays pruned.

    Raises:
        ValueError: if ``rate`` or ``output_rate`` is outside [0, 1].
    """
    ### BEGIN SOLUTION
    if output_rate is None:
        output_rate = rate / 2
    if not (0 <= rate <= 1 and 0 <= output_rate <= 1):
        raise ValueError(f"a rate is a share of the survivors, between 0 and 1, got {rate} and {output_rate}")
    *_, output = weights
    smaller = {}
    for name, w in weights.items():
        alive = masks[name]
        size = w.detach()[alive].abs()  # (survivors,), in row-major order; the dead do not compete
        goes = round((output_rate if name == output else rate) * len(size))
        stays = torch.ones_like(size, dtype=torch.bool)
        stays[size.argsort(stable=True)[:goes]] = False  # stable: among equals the first goes first
        smaller[name] = alive.clone()
        smaller[name][alive] = stays
    return smaller
    ### END SOLUTION


# %%
check("3.1")

# %% [markdown]
# ### 3.2 Back to the beginning
# **8 minutes · 3 points**


# %%
def rewind(model: nn.Module, state: dict[str, Tensor], masks: dict[str, Tensor]) -> None:
    """Put a trained model back to an earlier state, in place, with the pruned weights at zero.

    Args:
        model: its parameters and buffers take the values of ``state``; they stay the same tensors.
        state: name -> value for all parameters and buffers: ``copy.deepcopy(model.state_dict())`` of an earlier step.
            It is copied from: whatever happens to the model afterwards, ``state`` keeps its values.
        masks: parameter name -> bool mask, True = kept. Where it is False the parameter is 0 afterwards. Parameters
            without a mask take all values of ``state``.
    """
    ### BEGIN SOLUTION
    model.load_state_dict(state)  # copies parameters and buffers into the tensors that are there
    with torch.no_grad():
        for name, p in model.named_parameters():
            if name in masks:
                p.masked_fill_(~masks[name], 0)
    ### END SOLUTION


# %%
check("3.2")

# %% [markdown]
# ### 3.3 The search
# **20 minutes · 5 points · needs 3.1, 3.2**


# %%
def find_ticket(
    build: Callable[[], nn.Module],
    train: Callable[[nn.Module, dict[str, Tensor], int, int | None], object],
    rounds: int,
    rate: float,
    rewind_step: int = 0,
) -> list[dict]:
    """Iterative magnitude pruning with rewinding to step k = ``rewind_step``.

    Args:
        build: ``build()`` makes the untrained model.
        train: ``train(model, masks, start, stop)`` trains the model in place from step ``start`` to step ``stop``
            (None: to the end), makes its own optimizer, keeps pruned weights at zero and returns a result. It is called
            once as ``train(model, masks, 0, k)`` with the dense masks, only if k > 0; and once in every round as
            ``train(model, masks, k, None)``.
        rounds: how often to prune.
        rate: the share of the survivors that goes in each round; half of it in the output layer, which is the last
            parameter with two or more dimensions.
        rewind_step: k, the step whose weights w_k every round starts from. 0: the initial weights.

    Returns:
        ``rounds + 1`` records, dicts with the keys ``"round"`` (0, 1, …; 0 is the dense network), ``"masks"`` (bool
        masks for all parameters with two or more dimensions, those that were trained with in this round; all True in
        round 0), ``"remaining"`` (the fraction of all these weights that is kept, a float) and ``"result"`` (what
        ``train`` returned).
    """
    ### BEGIN SOLUTION
    model = build()
    weights = {name: p for name, p in model.named_parameters() if p.ndim >= 2}
    masks = {name: torch.ones_like(p, dtype=torch.bool) for name, p in weights.items()}
    if rewind_step > 0:
        train(model, masks, 0, rewind_step)
    w_k = copy.deepcopy(model.state_dict())  # a copy: state_dict() itself would be trained along
    records = []
    for number in range(rounds + 1):
        if number:
            masks = shrink(weights, masks, rate)  # by the values that the last round has trained
            rewind(model, w_k, masks)
        result = train(model, masks, rewind_step, None)
        kept = sum(int(mask.sum()) for mask in masks.values())
        total = sum(mask.numel() for mask in masks.values())
        records.append({"round": number, "masks": masks, "remaining": kept / total, "result": result})
    return records
    ### END SOLUTION


# %%
check("3.3")

# %% [markdown]
# ### 3.4 Two controls
# **12 minutes · 3 points**


# %%
def random_ticket(masks: dict[str, Tensor], generator: torch.Generator) -> dict[str, Tensor]:
    """As many survivors in each layer as in ``masks``, but anywhere.

    Args:
        masks: name -> bool mask, True = kept. Not changed.
        generator: the only source of randomness: ``torch.randperm(n, generator=generator)``, for example.

    Returns:
        New bool masks with the same keys, shapes and number of True in each; which positions of a layer are True is
        random, each choice as likely as any other.
    """
    ### BEGIN SOLUTION
    elsewhere = {}
    for name, mask in masks.items():
        order = torch.randperm(mask.numel(), generator=generator)
        elsewhere[name] = mask.flatten()[order].view(mask.shape)  # the same Trues and Falses, shuffled within the layer
    return elsewhere
    ### END SOLUTION


def reinitialise(model: nn.Module, masks: dict[str, Tensor], seed: int) -> None:
    """The same mask, but fresh initial weights, in place.

    ``torch.manual_seed(seed)`` once; then ``reset_parameters()`` of every module that has it, in the order of
    ``model.modules()``; then the masks. The state of torch's random generator is afterwards what it was before.

    Args:
        model: its parameters stay the same tensors.
        masks: parameter name -> bool mask, True = kept. Where it is False the parameter is 0 afterwards.
        seed: decides the fresh weights.
    """
    ### BEGIN SOLUTION
    with torch.random.fork_rng():  # puts the generator's state back at the end of the block
        torch.manual_seed(seed)
        for module in model.modules():
            if hasattr(module, "reset_parameters"):
                module.reset_parameters()
    with torch.no_grad():
        for name, p in model.named_parameters():
            if name in masks:
                p.masked_fill_(~masks[name], 0)
    ### END SOLUTION


# %%
check("3.4")

# %% [markdown]
# ### 3.5 How early does it stop?
# **4 minutes · 1 point**


# %%
def early_stop(losses: list[float], every: int = 1) -> int:
    """The training step at which the validation loss was lowest; the first one, if it was reached several times.

    Args:
        losses: the validation loss after ``every``, 2 ``every``, 3 ``every``, … steps. NaN is passed over.
        every: training steps between two measurements.

    Returns:
        ``every * (1 + index of the first minimum)``.

    Raises:
        ValueError: if there is no loss, or all of them are NaN.
    """
    ### BEGIN SOLUTION
    usable = [i for i, loss in enumerate(losses) if not math.isnan(loss)]
    if not usable:
        raise ValueError(f"there is no minimum among {len(losses)} losses: none of them is a number")
    return every * (1 + min(usable, key=lambda i: losses[i]))  # min returns the first of equals
    ### END SOLUTION


# %%
check("3.5")

# %% [markdown]
# ### 3.6 Drop and grow
# **15 minutes · 3 points**


# %%
def drop_and_grow(weight: Tensor, dense_grad: Tensor, mask: Tensor, fraction: float) -> tuple[Tensor, Tensor]:
    """Exchange a share of a layer's connections: drop where |w| is small, grow where |dense_grad| is large.

    Args:
        weight: any shape. Not changed.
        dense_grad: the loss's gradient at *all* positions, those without a weight included; the same shape.
        mask: bool, the same shape, True = active. Not changed.
        fraction: the share f of the active weights to exchange, in [0, 1].

    Returns:
        ``(new weight, new mask)``. With k = min(round(fraction * active), inactive): the k active positions with the
        smallest |weight| become inactive, and the k positions with the largest |dense_grad| among those that were
        inactive *before* the drop become active. Equal values: the first in row-major order is dropped, or grown,
        first. The new weight is 0 where it has just grown and wherever the new mask is False; elsewhere it keeps its
        value. The number of True in the mask stays the same.

    Raises:
        ValueError: if ``fraction`` is outside [0, 1].
    """
    ### BEGIN SOLUTION
    if not 0 <= fraction <= 1:
        raise ValueError(f"fraction is the share of the active weights to exchange, between 0 and 1, got {fraction}")
    active = mask.flatten().nonzero().flatten()  # (active,), positions in row-major order
    inactive = (~mask).flatten().nonzero().flatten()
    k = min(round(fraction * len(active)), len(inactive))
    sizes, gains = weight.detach().flatten().abs(), dense_grad.detach().flatten().abs()
    dropped = active[sizes[active].argsort(stable=True)[:k]]
    grown = inactive[gains[inactive].argsort(stable=True, descending=True)[:k]]
    after = mask.flatten().clone()
    after[dropped] = False
    after[grown] = True
    stayed = mask.flatten() & after
    return weight.detach().masked_fill(~stayed.view(mask.shape), 0), after.view(mask.shape)
    ### END SOLUTION


# %%
check("3.6")

# %% [markdown]
# ### 3.7 Two short answers
# **10 minutes · 1 point**

# %%
### BEGIN SOLUTION
answer_3_7a = "B"
answer_3_7b = 4.6
### END SOLUTION

# %%
check("3.7")

# %% [markdown]
# ### 3.8 Bug hunt
# **15 minutes · 1 point**


# %%
def find_bug(f: Callable[..., dict[str, Tensor]]) -> None:
    """Raise AssertionError if ``f(weights, masks, rate, output_rate=None)`` breaks the contract of ``shrink`` (3.1);
    else return."""
    ### BEGIN SOLUTION
    generator = torch.Generator().manual_seed(1)

    def layer(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator)

    def coin(*shape: int) -> Tensor:
        return torch.rand(*shape, generator=generator) < 0.5

    def dense(weights: dict[str, Tensor]) -> dict[str, Tensor]:
        return {name: torch.ones_like(w, dtype=torch.bool) for name, w in weights.items()}

    smooth = {"1": 10 * layer(7, 5), "2": 0.1 * layer(3, 4, 2), "out": layer(5, 6)}  # scales far apart, odd counts
    ties = {"1": (2 * layer(9, 7)).round(), "out": (2 * layer(6, 5)).round()}  # many zeros, alive and dead
    cases = [
        (smooth, dense(smooth)),
        (smooth, {name: coin(*w.shape) for name, w in smooth.items()}),  # the dead are as large as the living
        (ties, {name: coin(*w.shape) for name, w in ties.items()}),
        ({"only": layer(11)}, {"only": coin(11)}),  # the last layer is the first
    ]
    for weights, masks in cases:
        for rate, output_rate in ((0.0, None), (0.2, None), (0.3, 0.3), (0.5, 0.1), (0.77, None), (1.0, 1.0)):
            after = f(weights, masks, rate, output_rate)
            assert list(after) == list(weights), "other layers came back"
            for name, w in weights.items():
                share = rate
                if name == list(weights)[-1]:
                    share = rate / 2 if output_rate is None else output_rate
                alive, left = masks[name], after[name]
                case = f"layer {name} with {int(alive.sum())} of {alive.numel()} alive, rate {share}"
                assert left.dtype == torch.bool and left.shape == w.shape, f"no mask like the weight: {case}"
                assert not (left & ~alive).any(), f"a pruned weight came back: {case}"
                stays = left[alive]  # (survivors,), in row-major order
                assert int((~stays).sum()) == round(share * len(stays)), f"wrong number: {case}"
                if stays.any() and not stays.all():
                    size = w[alive].abs()
                    largest_gone = size[~stays].max()
                    assert largest_gone <= size[stays].min(), f"a larger one went: {case}"
                    tied = stays[size == largest_gone]  # in order: all that went stand before all that stayed
                    assert not (tied[:-1] & ~tied[1:]).any(), f"ties out of order: {case}"
    ### END SOLUTION


# %%
check("3.8")
