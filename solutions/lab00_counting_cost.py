# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Lab 00 · Why prune? Counting cost, storing zeros
#
# Somebody hands you a trained network and says: *it is too big, prune it.* Too big for
# what? A network has three bills: the **arithmetic** it does, the **memory** it fills,
# and the **time** you wait. Pruning sets weights to zero and promises a discount on all
# three. This lab is the price list. It ends with one question that has three different
# answers:
#
# > **From which sparsity on does a zero pay? In arithmetic? In bits? In milliseconds,
# on the machine in front of you?**
#
# You will write the functions that count, most of them a few lines of plain PyTorch.
# Then you turn them on a network that is trained in front of your eyes, and on your own
# machine.
#
# | part | you write | you find out |
# |---|---|---|
# | 1 · What a layer costs | 0.1 – 0.3 | where the work of a network is, when attention overtakes everything, what a zero saves |
# | 2 · Storing zeros | 0.4 – 0.7 | four ways to write down where the zeros are not |
# | 3 · Does a zero pay? | 0.8 | sizes, encoding times and kernels, measured |
# | 4 · Two more values | 0.9 | peak memory; what pruning weights cannot touch |
#
# **2 – 3 hours · 20 points.** You need tensors, convolutions and the lecture on
# pruning; no earlier lab.
#
# **How a lab works.** Before an experiment you write a *prediction* down. Nobody marks
# whether it was right, only that it is there: a surprise needs something to be
# surprised against. Then you write a function, run `check("0.1")` and read what it
# says. Hints are folded, and come in steps. If you are stuck, `skip("0.1")` puts the
# library's function in the place of yours: that question earns nothing, and the rest of
# the lab runs. In every function counts and bits are Python `int`s, and what you are
# given is not changed. **Arguments that make no sense raise `ValueError`**: most lines
# that do are there already, and in 0.1 and 0.2 you write one yourself.
#
# What a question asks you to write is yours to write. Each says what would do it for
# you, and calls of that are noticed; this is a courtesy check, with a comparison of all
# submissions behind it.

# %%
import math
import warnings
from collections.abc import Callable

import numpy as np
import scipy.sparse
import torch
from IPython.display import display
from matplotlib.figure import Figure
from threadpoolctl import threadpool_limits
from torch import Tensor, nn

from course_lib import experiments, ledger, models, training
from course_lib.cost import encodings, latency, model_cost
from course_lib.data import images
from course_lib.grading import check, choose, skip  # noqa: F401  (skip is yours to use)
from course_lib.pruning.weights import local_masks
from course_lib.show import plots, real_data, widgets
from course_lib.show.words import pm, say

# or "mnist", "fashion_mnist", "cifar10": the whole lab on other images, by this one
# line
DATA = "digits"
STUDENT = ""  # your name or number: the letters of your questions are yours alone

# %%
EPOCHS = {"digits": 8, "cifar10": 3}.get(DATA, 1)
SEEDS = (0, 1, 2, 3, 4) if DATA == "digits" else (0, 1, 2)
# small layers gain nothing from a second core, and one core is easier to reason about
torch.set_num_threads(1)
threadpool_limits(1)  # the same for numpy and scipy
plots.use_style()
warnings.filterwarnings("ignore", message="Sparse")  # torch calls its CSR tensors a beta


def require(condition: bool, message: str) -> None:
    """Raise a ValueError with this message unless the condition holds. Use it for
    arguments that make no sense.
    """
    if not condition:
        raise ValueError(message)


def you_wrote(prediction: object) -> None:
    """Print a prediction, so that it stands beside what came out."""
    print("You wrote:", "nothing yet. A guess costs nothing." if prediction is ... else prediction)


# %% [markdown]
# ## Part 1 · What a layer costs
#
# The patient for the whole term is a small convolutional network with batch norm: four
# 3×3 convolutions and a linear layer. It is trained here, once per seed, because one
# network is an anecdote.

# %%
data = images.load(DATA)
where = torch.device("cpu") if DATA == "digits" else training.device()
nets: list[nn.Module] = []
accuracy: list[float] = []
for seed in SEEDS:
    net = models.build("convnet", data, seed).to(where)
    training.fit(
        net,
        data.train,
        epochs=EPOCHS,
        lr=3e-3,
        schedule="cosine",
        seed=seed,
        progress=DATA != "digits",
    )
    accuracy.append(training.evaluate(net, data.test))
    nets.append(net.cpu().eval())
print(
    f"{len(nets)} networks on {data.name}, test accuracy in %:"
    f" {', '.join(f'{a:.1f}' for a in accuracy)}"
)
print(nets[0])

# %% [markdown]
# ### 0.1 The bill of a layer
# **12 minutes · 2 points**
#
# A convolution slides $M$ filters of size $C\times R\times S$ over an input of size
# $C\times H\times W$. (The letters are the lecture's. Some return with another meaning,
# $E$, $L$ and $R$ for example; each section says which.) Its output is
# $M\times E\times F$, where with stride $u$ and padding $\pi$ on each side
#
# $$E=\Big\lfloor\frac{H+2\pi-R}{u}\Big\rfloor+1,\qquad F=\Big\lfloor\frac{W+2\pi-S}{u}\Big\rfloor+1 .$$
#
# Each of the $M\,E\,F$ output numbers is a sum of $C\,R\,S$ products: one
# *multiply-accumulate* (MAC) each. So
#
# $$\text{MACs}=M\,C\,R\,S\;E\,F,\qquad
#   \text{bits}= n\,(\underbrace{MCRS}_{\text{weights}}+\underbrace{CHW}_{\text{input}}+\underbrace{MEF}_{\text{output}})$$
#
# with $n$ bits a number. (Padding counts as work here, as in every paper's table: a dense kernel multiplies the padded
# zeros like any others. In 0.3, where zeros are counted, it does not.) A linear layer is the same without the sliding:
# `batch` rows, $d_\text{in}\cdot d_\text{out}$ weights.
#
# The three terms of the memory are not alike. Weights stay. Inputs and outputs are *transient*: once the layer is done,
# its input can be thrown away. What that means for the memory a device must have, you find out after the exercise.
#
# *Before you write anything:* look at the network printed above. On the digits `conv1` and `conv2` work on maps of 8×8,
# `conv3` and `conv4`, after pooling, on maps of 4×4. Where is most of the arithmetic done? Where are most of the
# weights?

# %%
### BEGIN SOLUTION
prediction_0_1 = (
    "conv4 has most weights, but conv2 sees a larger picture: they do about the same arithmetic"
)
### END SOLUTION


# %%
def conv_cost(
    M: int,
    C: int,
    R: int,
    S: int,
    H: int,
    W: int,
    stride: int = 1,
    padding: int = 0,
    bits: int = 32,
) -> dict[str, int]:
    """What one convolution costs for one image (batch 1, no bias).

    Write both yourself: not with ``course_lib.cost``.

    Args:
        M, C, R, S: filters, input channels, height and width of the kernel.
        H, W: height and width of the input.
        stride, padding: the same in both directions; padding is added on every side.
        bits: per number.

    Returns:
        dict with the keys macs, weight_bits, input_bits, output_bits.

    Raises:
        ValueError: if a size, the stride or bits is below 1, padding is negative, or
            the kernel is larger than the padded input.
    """
    require(min(M, C, R, S, H, W, stride, bits) >= 1, "sizes, stride and bits are at least 1")
    require(padding >= 0, f"padding cannot be negative, got {padding}")
    ### BEGIN SOLUTION
    E = (H + 2 * padding - R) // stride + 1
    F = (W + 2 * padding - S) // stride + 1
    require(
        min(E, F) >= 1, f"a {R}x{S} kernel does not fit into a {H}x{W} input with padding {padding}"
    )
    return {
        "macs": M * C * R * S * E * F,
        "weight_bits": bits * M * C * R * S,
        "input_bits": bits * C * H * W,
        "output_bits": bits * M * E * F,
    }
    ### END SOLUTION


def linear_cost(batch: int, d_in: int, d_out: int, bits: int = 32) -> dict[str, int]:
    """What one linear layer costs for ``batch`` rows (no bias): the same keys as
    ``conv_cost``.

    Raises:
        ValueError: if an argument is below 1.
    """
    require(min(batch, d_in, d_out, bits) >= 1, "sizes and bits are at least 1")
    ### BEGIN SOLUTION
    return {
        "macs": batch * d_in * d_out,
        "weight_bits": bits * d_in * d_out,
        "input_bits": bits * batch * d_in,
        "output_bits": bits * batch * d_out,
    }
    ### END SOLUTION


# %%
check("0.1")

# %% [markdown]
# <details><summary>Hint 1: a case to do in your head</summary>One filter of 1×3×3 on a
# 1×5×7 picture, stride 1, no padding: the filter fits in 3 places vertically and 5
# horizontally. What do your E and F say? Which of the two belongs to H?</details>
# <details><summary>Hint 2: stride</summary>With stride 2 the same filter fits
# vertically at 0 and 2, so E = 2. The floor is Python's <code>//</code>, and the + 1
# comes after it.</details>
# <details><summary>Hint 3: bits or bytes?</summary>The names of the keys say which, and
# an argument gives the number per value.</details>

# %% [markdown]
# #### Experiment: where are the work and the weights?
#
# A hook notes what flows into each layer of the trained network; your functions do the
# rest.


# %%
def layer_inputs(net: nn.Module, x: Tensor) -> dict[str, Tensor]:
    """What flows into each convolution and each linear layer of ``net`` for the images
    ``x``, by the layer's name.
    """
    seen: dict[str, Tensor] = {}
    hooks = [
        module.register_forward_pre_hook(
            lambda _, given, name=name: seen.update({name: given[0].detach()})
        )
        for name, module in net.named_modules()
        if isinstance(module, (nn.Conv2d, nn.Linear))
    ]
    with torch.no_grad():
        net(x)
    for hook in hooks:
        hook.remove()
    return seen


def bill(net: nn.Module, image: Tensor) -> dict[str, dict[str, int]]:
    """Your cost of each layer for one image (1, C, H, W)."""
    costs = {}
    for name, x in layer_inputs(net, image).items():
        layer = net.get_submodule(name)
        if isinstance(layer, nn.Conv2d):
            costs[name] = conv_cost(
                *layer.weight.shape, *x.shape[2:], layer.stride[0], layer.padding[0]
            )
        else:
            costs[name] = linear_cost(len(x), layer.in_features, layer.out_features)
    return costs


image = data.test.images[:1]
costs = bill(nets[0], image)
total_macs = sum(c["macs"] for c in costs.values())
total_bits = sum(c["weight_bits"] for c in costs.values())
macs_share = {name: 100 * c["macs"] / total_macs for name, c in costs.items()}
weight_share = {name: 100 * c["weight_bits"] / total_bits for name, c in costs.items()}
# there may be two
busiest = [name for name in costs if costs[name]["macs"] == max(c["macs"] for c in costs.values())]
library = sum(layer.macs for layer in model_cost(nets[0], image) if layer.name in costs)
print(
    f"{total_macs:,} MACs, {total_bits / 8e3:,.0f} kB of weights. (The library, counting with"
    f" hooks: {library:,} MACs.)"
)
you_wrote(prediction_0_1)

fig = plots.bars(
    {"MACs": macs_share, "weights": weight_share},
    ylabel="share of the network's total, %",
    title=(
        f"{' and '.join(busiest)}: {macs_share[busiest[0]]:.0f} % of the"
        f" MACs{' each' * (len(busiest) > 1)},"
        f" {' and '.join(f'{weight_share[name]:.0f}' for name in busiest)} % of weights"
    ),
    fmt="{:.0f}",
)
plots.show(
    fig,
    alt="Bars of each layer's share of MACs and of weights, in %: "
    + ", ".join(f"{name} {macs_share[name]:.0f} and {weight_share[name]:.0f}" for name in costs)
    + ".",
)

# %% [markdown]
# A weight in an early layer is used once for every position of a large picture, a
# weight in a late layer for few positions. So **one pruned weight does not save the
# same arithmetic everywhere**, and a budget in MACs and a budget in bits ask for
# different weights to go. (Left out of the bill, as in most papers: batch norm, which
# can be folded into the weights, biases, ReLU, pooling.)
#
# Now the memory that is transient. While a layer works, its input and its output must
# both be there. The bars below stand in the order in which things happen.

# %%
alive = {name: (c["input_bits"] + c["output_bits"]) / 8e3 for name, c in costs.items()}
peak = max(alive, key=alive.get)
fig = plots.bars(
    {"alive": alive},
    ylabel="input + output while the layer works, kB",
    title=f"Activations need {alive[peak]:.1f} kB at once: the fullest moment is {peak}",
    fmt="{:.1f}",
)
fig.axes[0].axhline(alive[peak], color=plots.COLOURS["dense"], linestyle="--", linewidth=1.4)
fig.axes[0].set_xlabel("time →")
plots.show(
    fig,
    alt=(
        "Bars: kilobytes of input and output alive while each layer works. "
        f"The highest, {peak}, needs {alive[peak]:.1f} kB; a dashed line marks it as the peak."
    ),
)
everything = sum(alive.values())
print(
    f"The sum of all bars would be {everything:.1f} kB: {everything / alive[peak]:.1f} times the"
    " peak."
)

# %% [markdown]
# At inference the memory is used again and again: what counts is the **maximum** over
# the layers, not the sum. (In *training* the backward pass needs every layer's input
# again, so there the sum is what fills the GPU. And a skip connection keeps its input
# alive over several layers.) So pruning away activations helps only where the bar is
# highest, while every pruned weight helps the storage. You will need this once more in
# 0.9.

# %% [markdown]
# ### 0.2 The bill of a transformer layer
# **12 minutes · 2 points**
#
# $B$ sentences of $L$ tokens, each an embedding of $E$ numbers. One encoder layer does:
#
# 1. **projections**: queries, keys, values, and the output: four $E\times E$ matrices,
#    each applied to all $B L$ tokens;
# 2. **attention**: $QK^\top$ compares each token with each of its sentence, at $E$ MACs
#    a pair; weighting the values costs the same again;
# 3. **feed-forward network**: $E\to 4E$ and $4E\to E$, for every token.
#
# With `heads` heads the $E$ columns are cut into slices of $D=E/\text{heads}$. Each
# head compares all pairs within its slice, at $D$ MACs a pair. (The results are divided
# by $\sqrt{D}$, not by $\sqrt{E}$; we do not count that.) What do more heads do to the
# count of item 2? And to the number of attention **scores**, the numbers that go
# through the softmax?
#
# *Before you write anything:* BERT-base has $E=768$ and reads up to $L=512$ tokens.
# Which share of its MACs is item 2? And if the same layer used 32 heads instead of 1:
# how much more arithmetic, how much more time?

# %%
### BEGIN SOLUTION
prediction_0_2 = "item 2: 10 %; 32 heads: no more MACs, and so about the same time"
### END SOLUTION


# %%
def transformer_macs(B: int, L: int, E: int, heads: int = 1) -> dict[str, int]:
    """MACs of one transformer encoder layer with a feed-forward network of width 4E (no
    biases, norms or softmax).

    Write it yourself: not with ``course_lib.cost``.

    Args:
        B, L, E: batch, tokens per sentence, embedding size.
        heads: attention heads; must divide E.

    Returns:
        dict with the keys projections, attention (both products), ffn, total (all in
        MACs), and scores, the number of attention scores that go through the softmax.

    Raises:
        ValueError: if an argument is below 1, or ``heads`` does not divide ``E``.
    """
    require(min(B, L, E, heads) >= 1, "B, L, E and heads are at least 1")
    ### BEGIN SOLUTION
    require(E % heads == 0, f"{heads} heads cannot share an embedding of {E}: heads must divide E")
    projections = 4 * B * L * E**2
    # every head: QK^T and AV on slices of E / heads
    attention = 2 * heads * (B * L * L * (E // heads))
    ffn = 2 * (B * L * E * 4 * E)
    return {
        "projections": projections,
        "attention": attention,
        "ffn": ffn,
        "total": projections + attention + ffn,
        "scores": B * heads * L**2,
    }
    ### END SOLUTION


# %%
check("0.2")

# %% [markdown]
# <details><summary>Hint 1: one matrix at a time</summary>A matrix product
# (a × b)·(b × c) takes a·b·c MACs. For one projection: a = B·L tokens,
# b = c = E.</details>
# <details><summary>Hint 2: the pairs</summary>Pairs are formed within a sentence. So
# there are B·L² of them, not (B·L)².</details>
# <details><summary>Hint 3: heads</summary>Write the attention term for one head of size
# E/heads, then multiply by the number of heads. Then do the same for the scores; only
# one of the two lets the heads cancel.</details>

# %% [markdown]
# #### Experiment: when does attention overtake the rest?
#
# Projections and FFN grow with $L$, attention with $L^2$. Per token: $12E^2$ against
# $2LE$. They are equal at $L=6E$.

# %%
E = 768
lengths = 2 ** np.arange(4, 15)
per_token = {
    "projections": [transformer_macs(1, int(L), E)["projections"] / L / 1e6 for L in lengths],
    "FFN": [transformer_macs(1, int(L), E)["ffn"] / L / 1e6 for L in lengths],
    "attention": [transformer_macs(1, int(L), E)["attention"] / L / 1e6 for L in lengths],
}
per_token["all matrices"] = [
    p + f for p, f in zip(per_token["projections"], per_token["FFN"], strict=True)
]


def overtakes(E: int) -> int:
    """The first length at which attention costs more MACs than everything else in the
    layer.
    """
    parts = (transformer_macs(1, L, E) for L in range(1, 20 * E))
    return next(
        L for L, c in enumerate(parts, start=1) if c["attention"] > c["projections"] + c["ffn"]
    )


print(
    "attention overtakes the rest:",
    ", ".join(
        f"E = {e}: L = {overtakes(e)} = {(overtakes(e) - 1) / e:g}E + 1" for e in (64, 256, E)
    ),
)
at_512 = transformer_macs(1, 512, E)
print(
    f"BERT-base at 512 tokens: attention is {100 * at_512['attention'] / at_512['total']:.0f} % of"
    " the MACs."
)
you_wrote(prediction_0_2)

fig = plots.curves(
    lengths,
    per_token,
    xlabel="tokens in a sentence, L",
    ylabel="million MACs per token",
    title=f"Attention overtakes all the matrices at L = 6E = {6 * E}",
    log=True,
)
ax = fig.axes[0]
ax.set_xscale("log", base=2)
ax.set_xticks(lengths[::2], [f"{L}" for L in lengths[::2]])
ax.axvline(6 * E, color=plots.COLOURS["dense"], linestyle="--", linewidth=1.2)
ax.axvline(512, color=plots.COLOURS["random"], linestyle=":", linewidth=1.2)
for at, word in ((512, "BERT's longest"), (6 * E, "6E")):
    ax.annotate(
        word,
        (at, ax.get_ylim()[0]),
        xytext=(-4, 6),
        textcoords="offset points",
        ha="right",
        rotation=90,
        va="bottom",
    )
plots.show(
    fig,
    alt=(
        "Million MACs per token against sentence length, both logarithmic: projections and FFN are"
        f" flat, attention rises and crosses their sum at {6 * E} tokens."
    ),
)

# %% [markdown]
# Below a few thousand tokens a transformer *is* its matrices, and pruning weights or
# heads is the way to save. Far beyond, the tokens are the problem, and lab 10 drops
# them.
#
# #### Experiment: are heads free?
#
# Your function says: no MAC more for 32 heads than for one. The lecture's slide says
# "the introduction of multiple heads does not change the computational cost". Time it:
# the same queries, keys and values, cut into more and more heads. Once written out step
# by step, once with PyTorch's fused kernel, which works through the scores in small
# blocks and never stores them all.


# %%
def written_out(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Attention of every head, step by step; q, k, v are (heads, L, D)."""
    scores = q @ k.transpose(1, 2) / q.shape[-1] ** 0.5  # (heads, L, L)
    return scores.softmax(-1) @ v  # (heads, L, D)


L, E = 256, 256
heads = (1, 2, 4, 8, 16, 32)
qkv = torch.randn(3, L, E, generator=torch.Generator().manual_seed(0))
timed = {}
for h in heads:
    q, k, v = qkv.view(3, L, h, E // h).transpose(1, 2).contiguous()  # each (h, L, E/h)
    timed["written out", h] = lambda q=q, k=k, v=v: written_out(q, k, v)
    timed["fused kernel", h] = lambda q=q, k=k, v=v: nn.functional.scaled_dot_product_attention(
        q[None], k[None], v[None]
    )
timed = latency.compare(timed, warmup=3, repeats=25)
# times one head; the fastest rounds, since what else runs on a machine can only make a
# call slower
ratio = {
    way: [min(timed[way, h].samples) / min(timed[way, 1].samples) for h in heads]
    for way in ("written out", "fused kernel")
}
counted = {h: transformer_macs(1, L, E, h) for h in heads}
written, fused = (ratio[way][-1] for way in ratio)

fig = plots.curves(
    heads,
    {
        "scores": [counted[h]["scores"] / counted[1]["scores"] for h in heads],
        "time, written out": ratio["written out"],
        "time, fused": ratio["fused kernel"],
        "MACs": [counted[h]["attention"] / counted[1]["attention"] for h in heads],
    },
    xlabel=f"heads (L = {L}, E = {E})",
    ylabel="times what one head takes",
    title=f"{heads[-1]} heads: 1 × the MACs; time {written:.1f} × written out, {fused:.1f} × fused",
    log=True,
)
ax = fig.axes[0]
ax.set_xscale("log", base=2)
ax.set_xticks(heads, heads)
ax.set_yticks(heads, heads)
ax.minorticks_off()
plots.show(
    fig,
    alt=(
        "Relative cost against the number of heads, both logarithmic: MACs stay at 1, scores grow"
        f" to {heads[-1]}, time grows to {written:.1f} written out and to {fused:.1f} with the"
        " fused kernel."
    ),
)

# %% [markdown]
# What the slide says holds for MACs, with $D=E/\text{heads}$. But the softmax works on
# $B\cdot\text{heads}\cdot L^2$ scores, each is written to memory and read back, and
# thin slices keep the arithmetic units less busy. The fused kernel avoids most of the
# traffic and with it much of the bill. **A count of MACs is a model of cost. It leaves
# out what it leaves out**, and this lab ends with a larger example. (Times are the
# fastest of 25 rounds.)

# %% [markdown]
# ### 0.3 What a zero saves
# **18 minutes · 3 points**
#
# If a share $p$ of the weights is zero and somebody's hardware skips products with
# zero, $(1-p)$ of the MACs remain. If a share $q$ of the *inputs* is zero as well (ReLU
# makes many), a product remains only where **both** operands are non-zero. How many is
# that? The lecture's slide says
#
# $$\text{nonzero MACs}\;\ge\;(1-p)(1-q)\cdot\text{MACs},$$
#
# and you will find it in many places. Try it on the smallest layer there is: two
# weights, two inputs, one zero each. $w=(1,0)$ and $x=(0,1)$: no product remains.
# $w=(1,0)$ and $x=(1,0)$: one of two. The formula says a quarter of two, and the first
# count is *below* that. So it is no bound. If the zeros lie at random places,
# independent of each other, then $(1-p)(1-q)$ is the **expectation**; for a linear
# layer the share lies anywhere between $\max(0,\,1-p-q)$ and $\min(1-p,\,1-q)$.
#
# For the truth you have to count. There is one more trap: at the border of the picture
# a weight meets *padding*. Those products are zero whatever the data are. So here,
# unlike in 0.1, products with padding are left out of both numbers: of the count, and
# of the MACs that it is compared with.
#
# *Before you write anything:* in a trained, pruned network, will the real count be
# above or below $(1-p)(1-q)\cdot$MACs, or equal to it?

# %%
### BEGIN SOLUTION
prediction_0_3 = "a little above: training should keep the weights whose inputs are active"
### END SOLUTION


# %%
def nonzero_macs(weight: Tensor, x: Tensor, stride: int = 1, padding: int = 0) -> int:
    """Products whose weight and input are both non-zero, counted exactly, over the
    whole batch.

    Write it yourself: not with ``course_lib.cost``.

    Args:
        weight: (M, C, R, S) of a convolution, or (d_out, d_in) of a linear layer.
        x: its input, (B, C, H, W) or (B, d_in). Padding holds zeros, so products with
            it do not count.
        stride, padding: of the convolution, the same in both directions; a linear layer
            ignores them.

    Returns:
        an int, exact for any size (a float32 cannot hold every whole number above 2²⁴).
        NaN is not zero; -0.0 is.

    Raises:
        ValueError: if the shapes do not belong together.
    """
    require(
        weight.ndim in (2, 4) and x.ndim == weight.ndim,
        "a (M, C, R, S) weight goes with a (B, C, H, W) input, (d_out, d_in) with (B, d_in)",
    )
    require(
        x.shape[1] == weight.shape[1],
        f"the weight has {weight.shape[1]} input channels, x has {x.shape[1]}",
    )
    ### BEGIN SOLUTION
    if weight.ndim == 2:
        # (d_in,) in how many samples each weight of a column meets a non-zero
        met = (x != 0).sum(0)
    else:
        R, S = weight.shape[2:]
        # (B, C·R·S, E·F)
        patches = nn.functional.unfold((x != 0).double(), (R, S), stride=stride, padding=padding)
        met = patches.sum((0, 2)).long()  # (C·R·S,) float64 is exact up to 2⁵³
    users = (weight != 0).flatten(1).sum(0)  # how many filters have a non-zero at this place
    return int((users * met).sum())
    ### END SOLUTION


# %%
check("0.3")

# %% [markdown]
# <details><summary>Hint 1: forget the values</summary>Replace both tensors by "is it
# non-zero?". What does the same layer compute, when every operand is 0 or 1?</details>
# <details><summary>Hint 2: exactly</summary>A convolution of ones and zeros adds up
# counts. In float32, 2²⁴ + 1 is 2²⁴. Which dtype has room?</details>
# <details><summary>Hint 3: with less work</summary>All filters see the same input. So
# for each place (c, r, s) of the kernel you need two numbers: how many filters are
# non-zero there, and how many non-zero inputs pass by.
# <code>torch.nn.functional.unfold</code> lays out what passes by.</details>

# %% [markdown]
# #### Experiment: how far from the expectation can it be?
#
# A linear layer, a share $p$ of weights and of inputs zero. Zeros at random places,
# three layouts drawn for each point; and two built on purpose: the inputs that are zero
# meet exactly the weights that are zero (*aligned*), or meet none of them where that
# can be avoided (*opposed*).

# %%
shares = np.linspace(0, 0.95, 20)
size, batch = 60, 64


def share_of_products(p: float, layout: str, seed: int = 0) -> float:
    """The share of products that remain in a (size × size) layer with p of the weights
    and p of the inputs zero.
    """
    zeros = round(p * size)
    w, x = torch.ones(size, size), torch.ones(batch, size)
    if layout == "random":
        g = torch.Generator().manual_seed(seed)
        w = (torch.rand(size, size, generator=g).argsort(1) >= zeros).float()
        x = (torch.rand(batch, size, generator=g).argsort(1) >= zeros).float()
    else:
        w[:, :zeros] = 0
        x[:, :zeros] = 0
        x = x.flip(1) if layout == "opposed" else x
    return nonzero_macs(w, x) / nonzero_macs(torch.ones_like(w), torch.ones_like(x))


fig = plots.curves(
    shares,
    {"most": 1 - shares, "expected": (1 - shares) ** 2, "least": np.maximum(0, 1 - 2 * shares)},
    points={
        "most": [share_of_products(p, "aligned") for p in shares],
        "expected": np.mean(
            [[share_of_products(p, "random", s) for p in shares] for s in range(3)], 0
        ),
        "least": [share_of_products(p, "opposed") for p in shares],
    },
    xlabel="zeros among the weights and among the inputs, p = q",
    ylabel="share of products that remain",
    title="(1−p)(1−q) is what to expect of random zeros, not a bound",
    xaxis="sparsity",
)
fig.axes[0].fill_between(
    shares, np.maximum(0, 1 - 2 * shares), 1 - shares, color=plots.COLOURS["random"], alpha=0.15
)
plots.show(
    fig,
    alt=(
        "Share of products that remain against sparsity: random zeros, counted, lie on the curve"
        " (1-p) squared; aligned zeros lie on the upper line 1-p and opposed zeros on the lower"
        " line max(0, 1-2p)."
    ),
)

# %% [markdown]
# Lines are formulas, markers are your function's counts. Now the real thing: `conv4` of
# the trained networks, its smallest weights set to zero, and the activations that flow
# into it from test images. The control has as many zeros at *random* places of the same
# weights.


# %%
def pruned(weight: Tensor, sparsity: float, random: int | None = None) -> Tensor:
    """A copy with round(sparsity · n) zeros: the smallest |w| (lab 01's subject), or by
    a random seed.
    """
    score = (
        weight.abs()
        if random is None
        else torch.rand(weight.shape, generator=torch.Generator().manual_seed(random))
    )
    keep = local_masks({"weight": score}, sparsity)["weight"]
    return weight * keep


weights = [net.get_submodule("conv4").weight.detach() for net in nets]  # (M, C, 3, 3) per seed
batch_of = data.test.images[:64]
inputs = [layer_inputs(net, batch_of)["conv4"] for net in nets]  # (64, C, H, W) per seed
zeros_in = [float((x == 0).double().mean()) for x in inputs]


def against_expectation(w: Tensor, x: Tensor) -> float:
    """Counted products ÷ (1-p)(1-q) × the products that do not touch padding."""
    p, q = (w == 0).double().mean(), (x == 0).double().mean()
    possible = nonzero_macs(torch.ones_like(w), torch.ones_like(x), padding=1)
    return nonzero_macs(w, x, padding=1) / float((1 - p) * (1 - q) * possible)


levels = np.array([0, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95])
counted = {
    "magnitude": np.array(
        [
            [against_expectation(pruned(w, s), x) for s in levels]
            for w, x in zip(weights, inputs, strict=True)
        ]
    ),
    "random": np.array(
        [
            [against_expectation(pruned(w, s, seed), x) for s in levels]
            for seed, w, x in zip(SEEDS, weights, inputs, strict=True)
        ]
    ),
}
at = list(levels).index(0.9)
at_90, control_90 = counted["magnitude"][:, at].mean(), counted["random"][:, at].mean()
side = "below" if at_90 < 1 else "above"
fig = plots.method_curves(
    levels,
    counted,
    xlabel="weights of conv4 set to zero",
    ylabel="counted ÷ expected",
    title=f"At 90 % sparsity the count is {100 * abs(at_90 - 1):.1f} % {side} the supposed bound",
    xaxis="sparsity",
)
fig.axes[0].axhline(1, color=plots.COLOURS["dense"], linestyle="--", linewidth=1.3)
fig.axes[0].annotate("(1−p)(1−q)", (0, 1), xytext=(0, 4), textcoords="offset points")
plots.show(
    fig,
    alt=(
        f"Counted over expected products against sparsity for conv4, {len(SEEDS)} networks with"
        f" intervals: magnitude pruning ends at {counted['magnitude'][:, -1].mean():.3f}, random"
        f" zeros stay near {counted['random'].mean():.3f}."
    ),
)
print(f"Zeros among the inputs of conv4: {100 * min(zeros_in):.0f} to {100 * max(zeros_in):.0f} %.")
print(
    f"The weights that survive meet {'fewer' if at_90 < control_90 else 'more'} non-zero inputs"
    " than random ones."
)
you_wrote(prediction_0_3)

# %% [markdown]
# Two things to see. The random control is not at 1 either: the zeros of the *input* are
# not spread evenly, and a pixel at the border takes part in fewer products than one in
# the middle. And what magnitude pruning leaves of a trained layer is off by more, in
# the same direction for every network: which weights are large has something to do with
# how active their inputs are. The expectation is a fair first estimate here, within
# some per cent; **if your hardware's speed depends on the count, count**. (The lecture
# says that ReLU makes about half of a CNN's activations zero, in no regular pattern.
# The share printed above agrees.)

# %% [markdown]
# ## Part 2 · Storing zeros
#
# A pruned weight still takes 32 bits, unless you stop writing it down. But then you
# must write down where the others belong. Every sparse format is a different answer to
# *how do I say where?* Throughout: $L$ elements, a share $p$ of them zero, $n$ bits a
# value. Dense storage takes $L\,n$ bits.
#
# A rule for all of them: **a zero is whatever equals zero**. So `-0.0` is a zero (and
# comes back as `+0.0`); NaN and ±∞ are values and come back. That is no hair-splitting:
# `-0.3 * 0` *is* `-0.0`, so every mask that multiplies leaves thousands of them.
#
# Not allowed in 0.4 – 0.7, because they do the exercise for you: `Tensor.to_sparse*`,
# `torch.sparse_*_tensor`, `Tensor.to_dense`, `scipy.sparse`.

# %% [markdown]
# ### 0.4 Bitmap: one bit for every place
# **8 minutes · 2 points**
#
# The simplest answer: one bit per element says whether there is a value, and the values
# follow in row-major order.
#
# $$\text{bits}=(1-p)\,L\,n+L$$
#
# The map costs $L$ bits, however sparse the tensor is. *Before you write anything:*
# with $n=32$, from which sparsity on is that smaller than dense? With $n=8$? With
# $n=1$?

# %%
### BEGIN SOLUTION
prediction_0_4 = "p > 1/n: from 3.1 % for 32 bits, 12.5 % for 8 bits, never for 1 bit"
### END SOLUTION


# %%
def bitmap_encode(x: Tensor) -> tuple[Tensor, Tensor]:
    """Any shape and dtype -> (bool tensor of x's shape, True where x is not zero; 1-D
    values in row-major order).

    Write all three yourself: not with the sparse tensors of torch (``to_sparse``,
    ``torch.sparse_…``) or ``scipy.sparse``, nor with ``course_lib.cost``.
    """
    ### BEGIN SOLUTION
    bitmap = x != 0
    return bitmap, x[bitmap]
    ### END SOLUTION


def bitmap_decode(bitmap: Tensor, values: Tensor) -> Tensor:
    """The tensor that was encoded: shape of ``bitmap``, dtype of ``values``.

    Raises:
        ValueError: if there are not as many values as True bits.
    """
    require(
        int(bitmap.sum()) == len(values), f"{int(bitmap.sum())} places for {len(values)} values"
    )
    ### BEGIN SOLUTION
    x = values.new_zeros(bitmap.shape)
    x[bitmap] = values
    return x
    ### END SOLUTION


def bitmap_bits(x: Tensor, n: int = 32) -> int:
    """Bits of the encoding with n bits a value: values and map."""
    ### BEGIN SOLUTION
    return int((x != 0).sum()) * n + x.numel()
    ### END SOLUTION


# %%
check("0.4")

# %% [markdown]
# <details><summary>Hint 1: one question for all</summary>The map is the answer to a
# question that every element is asked at once. Look up "boolean indexing": in which
# order do the elements come?</details>
# <details><summary>Hint 2: decode</summary>Most elements of the result are zeros. Which
# dtype should these have: the map's or the values'? And what you have used for reading
# can also stand on the left of <code>=</code>.</details>

# %% [markdown]
# ### 0.5 Run lengths: count the zeros in between
# **30 minutes · 4 points**
#
# If zeros come in runs, say how long the run is. Each **pair** (run, value) means:
# *this many zeros, then this value*. The run has a field of $k$ bits, so it goes from 0
# to $2^k-1$. With $k=2$:
#
# | x | 0 0 5 | 0 0 0 0 | 0 7 | 0 |
# |---|---|---|---|---|
# | pair | (2, 5) | (3, 0) | (1, 7) | (0, 0) |
#
# - Before the 7 there are five zeros, and 3 is the longest run that the field can say.
#   So a **filler** pair (3, 0) comes first: three zeros, then the value 0, four zeros
#   in all. In general $(2^k-1,\,0)$ stands for $2^k$ zeros.
# - At the end $r>0$ zeros are left with no value behind them. The last of them plays
#   the value: $(r-1,\,0)$. (Fillers first, if $r>2^k$.)
# - A filler is a pair like any other. It takes $n+k$ bits.
#
# How many pairs will that be? The slide says *hard to formulate analytically*. For
# zeros at random places it takes three lines. Read the stream pair by pair. A pair ends
# at the first non-zero, or at the $2^k$-th zero at the latest. It is longer than $j$
# elements if the first $j$ are all zeros, which has probability $p^j$, for $j<2^k$. So
# its mean length is $\sum_{j=0}^{2^k-1}p^j=\frac{1-p^{2^k}}{1-p}$, and
#
# $$\frac{\text{pairs}}{L}=\frac{1-p}{1-p^{2^k}},\qquad \text{bits}=\text{pairs}\cdot(n+k).$$
#
# *Before you write anything:* the smallest weights of a trained layer are set to zero.
# With $k=4$, will RLE need more pairs than this formula says, fewer, or as many? Why?

# %%
### BEGIN SOLUTION
prediction_0_5 = (
    "fewer: zeros of a trained layer come in clusters, and runs are what RLE is good at"
)
### END SOLUTION


# %%
def rle_encode(x: Tensor, run_bits: int = 2) -> tuple[Tensor, Tensor, tuple[int, ...]]:
    """Run-length encoding of x, read in row-major order.

    Write all three yourself: not with the sparse tensors of torch (``to_sparse``,
    ``torch.sparse_…``) or ``scipy.sparse``, nor with ``course_lib.cost``.

    Returns:
        runs (int64, each from 0 to 2**run_bits - 1) and values (x's dtype), 1-D, one
        entry per pair; and x's shape as a tuple of ints.

    Raises:
        ValueError: if ``run_bits`` is below 1.
    """
    require(run_bits >= 1, f"a run needs a field of at least 1 bit, got {run_bits}")
    ### BEGIN SOLUTION
    full = 2**run_bits  # zeros in a filler pair
    flat = x.flatten()
    # -0.0 becomes +0.0: the last element may be written as a value
    flat = flat.masked_fill(flat == 0, 0)
    stops = (flat != 0).nonzero().flatten()  # where a pair ends: at every non-zero ...
    if len(flat) and flat[-1] == 0:
        stops = torch.cat([stops, stops.new_tensor([len(flat) - 1])])  # ... and at the end
    gaps = stops.diff(prepend=stops.new_tensor([-1])) - 1  # zeros before each stop
    fillers = gaps // full
    place = (fillers + 1).cumsum(0) - 1  # of each stop's own pair: its fillers stand before it
    pairs = int((fillers + 1).sum())
    runs = torch.full((pairs,), full - 1)
    values = flat.new_zeros(pairs)
    runs[place] = gaps % full
    values[place] = flat[stops]
    return runs, values, tuple(x.shape)
    ### END SOLUTION


def rle_decode(runs: Tensor, values: Tensor, shape: tuple[int, ...]) -> Tensor:
    """The tensor of this shape, with the dtype of ``values``, that the pairs describe;
    they fill it exactly.

    Raises:
        ValueError: if there are not as many runs as values.
    """
    require(
        len(runs) == len(values),
        f"{len(runs)} runs and {len(values)} values: a pair has one of each",
    )
    ### BEGIN SOLUTION
    x = values.new_zeros(math.prod(shape))
    x[(runs + 1).cumsum(0) - 1] = values
    return x.view(shape)
    ### END SOLUTION


def rle_bits(x: Tensor, n: int = 32, run_bits: int = 2) -> int:
    """Bits of the encoding: every pair, fillers included, takes n + run_bits."""
    ### BEGIN SOLUTION
    runs, _, _ = rle_encode(x, run_bits)
    return len(runs) * (n + run_bits)
    ### END SOLUTION


# %%
check("0.5")

# %% [markdown]
# <details><summary>Hint 1: a loop will do</summary>Walk through
# <code>x.flatten().tolist()</code> with a counter of zeros. Three things can happen: a
# non-zero comes; a zero comes and the counter is already full; the end comes. The
# grader's inputs are small enough for a loop.</details>
# <details><summary>Hint 2: the full counter</summary>The filler's own value is a zero
# of the tensor. So when the counter stands at 2^k − 1 and one more zero comes, that
# zero is the filler's value, and the counter starts again at 0. Try exactly 2^k zeros
# before a value, and exactly 2^k zeros at the end.</details>
# <details><summary>Hint 3: without a loop over elements</summary>Take the positions of
# the non-zeros (and the last position, if a zero is there). The gaps between
# neighbours, divided by 2^k: the quotient is the number of fillers, the rest is the
# run. <code>cumsum</code> says where each pair goes.</details>
# <details><summary>Hint 4: decode</summary>Pair i ends at element
# (run₀ + 1) + … + (runᵢ + 1) − 1.</details>

# %% [markdown]
# #### Experiment: pairs per element, formula and measurement

# %%
levels = np.array([0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.93, 0.95, 0.97, 0.99])
fine = np.linspace(0, 0.99, 100)


def pairs_formula(p: np.ndarray | float, k: int) -> np.ndarray | float:
    """RLE pairs per element for zeros at random places, p < 1."""
    return (1 - p) / (1 - p ** (2**k))


def pairs_measured(x: Tensor, k: int) -> float:
    """RLE pairs per element that your encoder writes."""
    return len(rle_encode(x, k)[0]) / x.numel()


widths = (1, 2, 3, 5)
fig = plots.curves(
    fine,
    {f"k = {k}": pairs_formula(fine, k) for k in widths},
    points={
        f"k = {k}": (
            levels,
            np.mean([[pairs_measured(pruned(w, s), k) for s in levels] for w in weights], 0),
        )
        for k in widths
    },
    xlabel="sparsity of conv4",
    ylabel="pairs per element",
    title="With k-bit runs at least one pair in 2ᵏ elements is left, however sparse the layer",
    xaxis="sparsity",
)
plots.show(
    fig,
    alt=(
        "RLE pairs per element against sparsity for run fields of 1, 2, 3 and 5 bits: the points"
        " measured on the trained layer lie close to the formula's curves, which level off at 1/2,"
        " 1/4, 1/8 and 1/32."
    ),
)

# %% [markdown]
# The markers (trained `conv4`, magnitude pruning, mean over the networks) lie close to
# the lines (formula). How close? The same points as a deviation from the formula, with
# random zeros as the control.

# %%
K = 4
deviation = {
    "magnitude": np.array(
        [
            [100 * (pairs_measured(pruned(w, s), K) / pairs_formula(s, K) - 1) for s in levels]
            for w in weights
        ]
    ),
    "random": np.array(
        [
            [
                100 * (pairs_measured(pruned(w, s, seed), K) / pairs_formula(s, K) - 1)
                for s in levels
            ]
            for seed, w in zip(SEEDS, weights, strict=True)
        ]
    ),
}
worst = int(np.abs(deviation["magnitude"].mean(0)).argmax())
most = deviation["magnitude"].mean(0)[worst]
# empty 3×3 kernels
dead = np.mean([float((pruned(w, 0.9).flatten(2) == 0).all(2).double().mean()) for w in weights])
fig = plots.method_curves(
    levels,
    deviation,
    xlabel="sparsity of conv4",
    ylabel=f"pairs beyond the formula, % (k = {K})",
    title=(
        f"Trained zeros clump: up to {abs(most):.1f} % {'more' if most > 0 else 'fewer'} pairs than"
        " by formula"
    ),
    xaxis="sparsity",
    ylim=(min(-2, 1.2 * deviation["magnitude"].min()), max(2, 1.2 * deviation["magnitude"].max())),
)
plots.show(
    fig,
    alt=(
        f"Deviation of RLE pairs from the formula against sparsity, {len(SEEDS)} networks with"
        f" intervals: random zeros stay near 0 %, zeros by magnitude deviate by up to {most:.1f} %."
    ),
)
print(
    f"At 90 % sparsity {100 * dead:.0f} % of the 3×3 kernels are empty; of random ones"
    f" {100 * 0.9**9:.0f} % would be."
)
you_wrote(prediction_0_5)

# %% [markdown]
# The control sits on the formula: the derivation is right. The trained layer is off by
# a few per cent, because whole kernels die together. And clumping does not *help* a
# run-length code of this kind: a run that is longer than the field can say is paid for
# in fillers of $n+k$ bits, while the values that are left stand together and spend $k$
# bits each on short runs.
#
# In the literature the field is wide: Eyeriss stores activations with 5-bit runs beside
# 16-bit values (Chen et al. 2016), Deep Compression stores weights with gaps of 8 bits
# in convolutions and 5 bits in fully connected layers, with fillers as here (Han et al.
# 2016). The lecture's $k=2$ is for drawing on a slide. For 3 or more bits a value, with
# zeros at random places, it is *never* smaller than the bitmap: compare the two
# formulas if you like.

# %% [markdown]
# ### 0.6 Coordinates: write the address
# **10 minutes · 2 points**
#
# COO (*coordinates*) stores each value with its position in the flattened tensor. An
# address among $L$ places takes $\lceil\log_2 L\rceil$ bits, rounded **up**, since
# there are no fractions of a bit:
#
# $$\text{bits}=(1-p)\,L\,\big(n+\lceil\log_2 L\rceil\big)$$
#
# The tidy way to that number is `(L - 1).bit_length()`: the bits of the largest
# address. It has no rounding errors, and it says the right thing for $L=1$: a tensor
# with one place needs *no* address.
#
# *Before you write anything:* `conv4` has 64 · 64 · 3 · 3 = 36,864 weights of 32 bits.
# From which sparsity on is COO smaller than dense?

# %%
### BEGIN SOLUTION
prediction_0_6 = (
    "a 64x64x3x3 layer has 16-bit addresses: COO is smaller than dense only from 16/48 = 33 % on"
)
### END SOLUTION


# %%
def coo_encode(x: Tensor) -> tuple[Tensor, Tensor, tuple[int, ...]]:
    """Any shape and dtype -> (increasing row-major positions of the non-zeros, int64;
    their values; x's shape).

    Write all three yourself: not with the sparse tensors of torch (``to_sparse``,
    ``torch.sparse_…``) or ``scipy.sparse``, nor with ``course_lib.cost``.
    """
    ### BEGIN SOLUTION
    flat = x.flatten()
    index = (flat != 0).nonzero().flatten()
    return index, flat[index], tuple(x.shape)
    ### END SOLUTION


def coo_decode(index: Tensor, values: Tensor, shape: tuple[int, ...]) -> Tensor:
    """The tensor of this shape, with the dtype of ``values``.

    Raises:
        ValueError: if there are not as many positions as values, or a position lies
            outside the shape.
    """
    length = math.prod(shape)
    require(len(index) == len(values), f"{len(index)} positions for {len(values)} values")
    require(bool(((index >= 0) & (index < length)).all()), f"positions go from 0 to {length - 1}")
    ### BEGIN SOLUTION
    x = values.new_zeros(length)
    x[index] = values
    return x.view(shape)
    ### END SOLUTION


def coo_bits(x: Tensor, n: int = 32) -> int:
    """Bits of the encoding: each non-zero takes n bits and an address of
    (L - 1).bit_length() bits.
    """
    ### BEGIN SOLUTION
    address = (x.numel() - 1).bit_length()
    return int((x != 0).sum()) * (n + address)
    ### END SOLUTION


# %%
check("0.6")

# %% [markdown]
# <details><summary>Hint 1: positions</summary><code>nonzero()</code> of a 1-D tensor
# gives a column of positions: flatten it.</details>
# <details><summary>Hint 2: check the width</summary>L = 1, 2, 3, 4, 5 need 0, 1, 2, 2,
# 3 bits.</details>

# %% [markdown]
# ### 0.7 CSR and CSC: row by row, column by column
# **30 minutes · 3 points**
#
# COO repeats the row for every value in it. *Compressed sparse row* stores, for a
# matrix of $R$ rows and $C$ columns: the values row by row, the **column** of each, and
# for each row how many values there are *before* it. The lecture's matrix:
#
# $$\begin{pmatrix} 10 & 20 & 0 & 0 & 0 & 0 \\ 0 & 30 & 0 & 40 & 0 & 0 \\ 0 & 0 & 50 & 60 & 70 & 0 \\ 0 & 0 & 0 & 0 & 0 & 80 \end{pmatrix}
# \quad\begin{aligned}v&=[10\;20\;30\;40\;50\;60\;70\;80]\\ \text{COL\_INDEX}&=[0\;1\;1\;3\;2\;3\;4\;5]\\ \text{ROW\_INDEX}&=[0\;2\;4\;7\;8]\end{aligned}$$
#
# Row $i$ is the stretch from `ROW_INDEX[i]` to `ROW_INDEX[i+1]`: so there are $R+1$ entries, cumulative, starting at 0
# and ending at the number of values. An empty row repeats its entry. A kernel that multiplies row by row loves this.
# With $\mathit{nnz}$ values (the *number of non-zeros*) the widths are what must be told apart: a column is one of $C$,
# an entry of ROW_INDEX one of $\mathit{nnz}+1$ counts:
#
# $$\text{bits}=\mathit{nnz}\,\big(n+\lceil\log_2 C\rceil\big)+(R+1)\,\lceil\log_2(\mathit{nnz}+1)\rceil$$
#
# *Compressed sparse column* is the same with rows and columns exchanged: values column by column, the row of each, and
# a COL_POINTER.


# %%
def csr_encode(x2d: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """(R, C) -> (v: values row by row; COL_INDEX: column of each, int64; ROW_INDEX:
    (R + 1,) cumulative counts, int64).

    Write all five yourself: not with the sparse tensors of torch (``to_sparse``,
    ``torch.sparse_…``) or ``scipy.sparse``, nor with ``course_lib.cost``.

    Raises:
        ValueError: if ``x2d`` is not two-dimensional.
    """
    require(x2d.ndim == 2, f"CSR is for matrices, got {x2d.ndim} dimensions")
    ### BEGIN SOLUTION
    rows, columns = (x2d != 0).nonzero(as_tuple=True)  # in row-major order
    per_row = (x2d != 0).sum(1)  # (R,)
    return x2d[rows, columns], columns, torch.cat([per_row.new_zeros(1), per_row.cumsum(0)])
    ### END SOLUTION


def csr_decode(v: Tensor, COL_INDEX: Tensor, ROW_INDEX: Tensor, shape: tuple[int, int]) -> Tensor:
    """The (R, C) matrix with the dtype of ``v``.

    Raises:
        ValueError: if the arrays do not belong together, or not to the shape.
    """
    R, C = shape
    require(
        len(ROW_INDEX) == R + 1 and ROW_INDEX[0] == 0, f"ROW_INDEX: {R + 1} counts, the first 0"
    )
    require(
        ROW_INDEX[-1] == len(v) == len(COL_INDEX),
        "values, columns and the last entry of ROW_INDEX must agree",
    )
    require(bool(((COL_INDEX >= 0) & (COL_INDEX < C)).all()), f"columns go from 0 to {C - 1}")
    ### BEGIN SOLUTION
    x = v.new_zeros(R, C)
    x[torch.arange(R).repeat_interleave(ROW_INDEX.diff()), COL_INDEX] = v
    return x
    ### END SOLUTION


def csc_encode(x2d: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """(R, C) -> (v: values column by column; ROW_INDEX: row of each, int64;
    COL_POINTER: (C + 1,) cumulative, int64).

    Raises:
        ValueError: if ``x2d`` is not two-dimensional.
    """
    require(x2d.ndim == 2, f"CSC is for matrices, got {x2d.ndim} dimensions")
    ### BEGIN SOLUTION
    return csr_encode(x2d.T)
    ### END SOLUTION


def csc_decode(v: Tensor, ROW_INDEX: Tensor, COL_POINTER: Tensor, shape: tuple[int, int]) -> Tensor:
    """The (R, C) matrix with the dtype of ``v``; ``shape`` is (R, C), as for CSR, and
    the arrays belong together and to it.
    """
    ### BEGIN SOLUTION
    R, C = shape
    return csr_decode(v, ROW_INDEX, COL_POINTER, (C, R)).T.contiguous()
    ### END SOLUTION


def csr_bits(x2d: Tensor, n: int = 32) -> int:
    """Bits of the CSR encoding: a value and a column for each non-zero, and R + 1
    counts between 0 and nnz.

    Raises:
        ValueError: if ``x2d`` is not two-dimensional.
    """
    require(x2d.ndim == 2, f"CSR is for matrices, got {x2d.ndim} dimensions")
    ### BEGIN SOLUTION
    R, C = x2d.shape
    nnz = int((x2d != 0).sum())
    return nnz * (n + (C - 1).bit_length()) + (R + 1) * nnz.bit_length()
    ### END SOLUTION


# %%
check("0.7")

# %% [markdown]
# <details><summary>Hint 1: ROW_INDEX</summary>First the number of non-zeros in each
# row. "How many before row i" is a running sum of those; it begins with the 0 before
# the first row.</details>
# <details><summary>Hint 2: back again</summary>The differences of ROW_INDEX are the
# counts per row.
# <code>repeat_interleave</code> turns counts into "row of each value".</details>
# <details><summary>Hint 3: CSC for free</summary>The columns of x are the rows of its
# transpose. For the way back, mind which shape you hand over and which you
# return.</details>
# <details><summary>Hint 4: widths</summary>⌈log₂(m + 1)⌉ of an int m ≥ 0 is
# <code>m.bit_length()</code>. Which m is it for a column, and which for a
# count?</details>

# %% [markdown]
# ## Part 3 · Does a zero pay?
#
# You can now store a layer in five ways and count what each takes. Time to let them
# loose.
#
# ### 0.8 Two answers from your own run
# **40 minutes · 1 point · needs 0.3, 0.4, 0.5, 0.6, 0.7**
#
# Three experiments, each with a prediction. The two questions to answer stand at the
# end.
#
# #### Experiment 1: a real layer in every format
#
# The patient is `conv4`, smallest weights set to zero, 32-bit values. For CSR the
# filters are the rows: a matrix of $M$ rows and $C\cdot R\cdot S$ columns. *Write down:
# which format is smallest at 50 %, at 90 %, at 99 % sparsity?*

# %%
### BEGIN SOLUTION
prediction_0_8_sizes = "50 %: bitmap, 90 %: RLE with a wide field, 99 %: COO"
### END SOLUTION


# %%
layer = pruned(weights[0], 0.9)
matrix = layer.flatten(1)  # (M, C·R·S)
decoded = {
    "bitmap (0.4)": bitmap_decode(*bitmap_encode(layer)),
    "RLE (0.5)": rle_decode(*rle_encode(layer)),
    "COO (0.6)": coo_decode(*coo_encode(layer)),
    "CSR (0.7)": csr_decode(*csr_encode(matrix), tuple(matrix.shape)).reshape(layer.shape),
    "CSC (0.7)": csc_decode(*csc_encode(matrix), tuple(matrix.shape)).reshape(layer.shape),
}
lost = [name for name, x in decoded.items() if not torch.equal(x, layer)]
print(
    "Does every format give the layer back?",
    f"Not {', '.join(lost)}: look there again." if lost else "Yes.",
)


# %%
def formula(name: str, p: float, n: int, L: int, rows: int = 1, k: int = 2) -> float:
    """Bits of a format by its formula, for L elements of n bits with a share p < 1 of
    zeros at random places.
    """
    kept = (1 - p) * L
    if name == "dense":
        return L * n
    if name == "bitmap":
        return kept * n + L
    if name == "RLE":
        return L * pairs_formula(p, k) * (n + k)
    if name == "COO":
        return kept * (n + math.ceil(math.log2(L)))
    # CSR
    return kept * (n + math.ceil(math.log2(L / rows))) + (rows + 1) * math.ceil(math.log2(kept + 1))


measures = {
    "bitmap": bitmap_bits,
    "RLE k=2": lambda x: rle_bits(x, run_bits=2),
    "RLE k=5": lambda x: rle_bits(x, run_bits=5),
    "COO": coo_bits,
    "CSR": lambda x: csr_bits(x.flatten(1)),
}
size = weights[0].numel()


def by_formula(name: str, p: float) -> float:
    """Bits of conv4 by the formula, values of 32 bits."""
    short, _, k = name.partition(" k=")
    return formula(short, p, 32, size, rows=len(weights[0]), k=int(k or 2))


dots = np.array(
    [0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.93, 0.95, 0.97, 0.98, 0.99]
)
measured = {  # bits per weight: (seeds, dots)
    name: np.array([[bits(pruned(w, s)) / size for s in dots] for w in weights])
    for name, bits in measures.items()
}
lines = {
    name: np.array([by_formula(name, p) for p in fine]) / size for name in ("dense", *measures)
}
fig = plots.curves(
    fine,
    lines,
    points={name: (dots, bits.mean(0)) for name, bits in measured.items()},
    xlabel="sparsity of conv4",
    ylabel="bits per weight (32-bit values)",
    title="Every format shrinks; the values are most of the bill",
    xaxis="sparsity",
)
fig.axes[0].set_ylim(0, 50)
plots.show(
    fig,
    alt=(
        "Bits per weight of the trained layer against sparsity: formula lines with measured points"
        " on them. All formats fall from above 32 bits almost linearly, the dense line stays at 32;"
        " RLE with 2-bit runs levels off near 8 bits."
    ),
)


def shrinks_from(name: str) -> tuple[float, float]:
    """The sparsity in % from which on a format takes less than dense storage: by its
    formula, and measured on conv4.
    """
    grid = np.linspace(0, 0.99, 991)
    formal = next((p for p in grid if by_formula(name, p) < 32 * size), math.nan)
    real = next((p for p in grid if measures[name](pruned(weights[0], p)) < 32 * size), math.nan)
    return 100 * formal, 100 * real


in_bits = {name: shrinks_from(name) for name in measures}
print(f"Smaller than dense from a sparsity of ... ({size:,} values of 32 bits)")
for name, (formal, real) in in_bits.items():
    print(f"  {name:8} formula {formal:5.1f} %   measured {real:5.1f} %")

# %% [markdown]
# The formulas are right, and for bitmap, COO and CSR they are exact, since only the
# *number* of zeros enters. But at 32 bits the values dominate and all curves look
# alike. What is a format's own is the rest: the **bookkeeping**, all bits that are no
# bits of a kept value. Here it is, on a log scale, with a floor: no code can say where
# randomly placed zeros are with less than the entropy $-p\log_2 p-(1-p)\log_2(1-p)$
# bits per place (Shannon 1948).

# %%
inner = fine[1:]
book = {name: lines[name][1:] - 32 * (1 - inner) for name in measures}
entropy = -inner * np.log2(inner) - (1 - inner) * np.log2(1 - inner)
best = [min(book, key=lambda name: book[name][i]) for i in range(len(inner))]
spans = [(name, inner[i]) for i, name in enumerate(best) if i == 0 or best[i - 1] != name]
fig = plots.curves(
    inner,
    book | {"entropy floor": entropy},
    points={name: (dots, bits.mean(0) - 32 * (1 - dots)) for name, bits in measured.items()},
    xlabel="sparsity of conv4",
    ylabel="bookkeeping, bits per weight",
    title=f"Least bookkeeping: {best[0]}"
    + "".join(f", from {100 * p:.0f} % {name}" for name, p in spans[1:]),
    log=True,
    xaxis="sparsity",
)
ax = fig.axes[0]
ax.set_ylim(0.05, 20)
ax.set_yticks((0.1, 0.2, 0.5, 1, 2, 5, 10, 20), ("0.1", "0.2", "0.5", "1", "2", "5", "10", "20"))
ax.minorticks_off()
ax.set_xticks(np.arange(0, 1.01, 0.1))
ax.set_xticks(np.arange(0.8, 1, 0.01), minor=True)  # every 1 % where the lines are steep
ax.grid(visible=True, axis="x", which="minor", alpha=0.4)
plots.show(
    fig,
    alt=(
        "Bookkeeping bits per weight against sparsity, logarithmic: the bitmap is flat at 1; COO"
        " and CSR fall with the values that are left and cross the bitmap between 90 and 95 %; RLE"
        " with 5-bit runs lies below the bitmap from about 80 %, RLE with 2-bit runs rises to 8."
        " All lie above the entropy floor."
    ),
)
you_wrote(prediction_0_8_sizes)

# %% [markdown]
# The lecture's rule of thumb (*bitmap for low and moderate sparsity, run lengths for
# moderate, CSR for high, COO for extremely high*) is this picture, with two corrections
# that you can read off it: run lengths need a field that suits the sparsity, and COO
# beats CSR only where hardly more values are left than there are rows to point to. The
# trained layer's run lengths (markers) lie above the formula, with $k=2$ from about 50
# % on, with $k=5$ around 90 %: the clumps of 0.5 again. And what is left above the
# floor is what entropy coding still gets: Deep Compression ends with a Huffman code for
# that reason.
#
# Find the crossings yourself, for other value widths, sizes and run fields. (Tab goes
# to a slider, arrow keys move it by one step.)


# %%
def explore(sparsity: int, n: int, size_log2: int, k: int) -> tuple[str, Figure]:
    """The bits per element of every format, for a matrix with as many rows as columns
    (or half as many).
    """
    L, rows, p = 2**size_log2, 2 ** (size_log2 // 2), sparsity / 100
    names = ("dense", "bitmap", "RLE", "COO", "CSR")
    bits = {name: formula(name, p, n, L, rows, k) / L for name in names}
    winner = min(bits, key=bits.get)
    text = (
        f"{winner} is smallest: {bits[winner]:.2f} bits per element; dense takes"
        f" {n / bits[winner]:.1f} times as much"
    )

    values = (1 - p) * n  # what all of them must store
    fig = Figure(figsize=(8, 4), layout="constrained")
    ax = fig.add_subplot()
    ax.bar(names, values, color=plots.COLOURS["bitmap"], label="the values that are not zero")
    rest = ax.bar(
        names,
        [b - values for b in bits.values()],
        bottom=values,
        color=plots.COLOURS["RLE"],
        hatch="//",
        edgecolor="white",
        label="the rest: where they are, fillers, stored zeros",
    )
    ax.bar_label(rest, [f"{b:.2f}" for b in bits.values()], padding=2)
    ax.set_ylim(0, 1.25 * max(bits.values()))
    ax.set_ylabel("bits per element")
    ax.grid(axis="x", visible=False)
    ax.legend(loc="upper right", ncols=2)
    ax.set_title(f"{sparsity} % zeros, {n}-bit values, $2^{{{size_log2}}}$ elements, {k}-bit runs")
    return text, plots.alt(
        fig, "Bars of bits per element: " + ", ".join(f"{f} {b:.2f}" for f, b in bits.items()) + "."
    )


widgets.explorer(
    explore,
    sparsity=widgets.slider(0, 99, 1, 90, "zeros p, %"),
    n=widgets.slider(1, 32, 1, 8, "bits a value n"),
    size_log2=widgets.slider(4, 24, 1, 16, "elements L = 2^"),
    k=widgets.slider(1, 10, 1, 4, "bits a run k"),
)

# %% [markdown]
# #### Experiment 2: what does encoding cost?
#
# Weights are encoded once, before the network is shipped. **Activations** are new for
# every input, so they must be encoded *online*, while somebody waits. Below: the input
# of `conv4` for 64 images, encoded with your functions, beside the time of the layer
# itself and the library's bitmap, which is written for speed. The last bar is what it
# takes to *make* more zeros by keeping only the largest tenth, the sorting the lecture
# warns of.
#
# *Write down: how long does your bitmap take, compared with the layer: a hundredth, a
# tenth, as long?*

# %%
### BEGIN SOLUTION
prediction_0_8_encoding = "a tenth: it is only one comparison per element"
### END SOLUTION

# %%
x, layer = inputs[0], nets[0].get_submodule("conv4")
with torch.no_grad():
    spent = latency.compare(
        {
            "conv4\nitself": lambda: layer(x),
            "x ≠ 0": lambda: x != 0,
            "bitmap": lambda: bitmap_encode(x),
            "bitmap\n(library)": lambda: encodings.bitmap_encode(x),
            "RLE k=4": lambda: rle_encode(x, 4),
            "COO": lambda: coo_encode(x),
            "CSR": lambda: csr_encode(x.flatten(1)),
            "keep\ntop 10 %": lambda: x.flatten().topk(x.numel() // 10),
        },
        repeats=30,
    )
yours, tuned = (
    spent[name].median / spent["conv4\nitself"].median for name in ("bitmap", "bitmap\n(library)")
)
fig = plots.bars(
    {"ms": {name: 1e3 * t.median for name, t in spent.items()}},
    errors={"ms": {name: (1e3 * t.low, 1e3 * t.high) for name, t in spent.items()}},
    ylabel="ms for 64 images (median, quartiles)",
    title=f"A bitmap takes {yours:.2f} × as long as the layer; tuned, {tuned:.2f} ×",
    fmt="{:.2g}",
    log=True,
)
plots.show(
    fig,
    alt="Bars of milliseconds, logarithmic: "
    + ", ".join(f"{name} {1e3 * t.median:.2g}" for name, t in spent.items()).replace("\n", " ")
    + ".",
)
smaller = {
    "bitmap": bitmap_bits(x),
    "RLE k=4": rle_bits(x, 32, 4),
    "COO": coo_bits(x),
    "CSR": csr_bits(x.flatten(1)),
}
print(
    f"{100 * zeros_in[0]:.0f} % of the inputs are zero. Compared with dense, the encoded input"
    " takes"
)
print(
    "  "
    + ", ".join(f"{name} {bits / (32 * x.numel()):.2f}" for name, bits in smaller.items())
    + " of the bits."
)
you_wrote(prediction_0_8_encoding)

# %% [markdown]
# With half of the activations zero, a bitmap halves what must be moved. But it has to
# be made. Where this lab was written, the two lines of PyTorch took most of the time of
# the layer they were meant to relieve, the library's tuned version a fifth of it or
# less, and choosing the largest tenth more than the layer itself. (Compare with your
# bars; only the comparison itself is next to nothing.) This is the "additional
# overhead" of the lecture, in figures. An accelerator compares in wires beside the data
# path, and there run lengths for activations are worth it (Eyeriss). On an ordinary
# processor the encoding has to earn its time back first, and Experiment 3 asks whether
# it can.
#
# #### Experiment 3: kernels, on this machine
#
# MACs say: 90 % zeros, ten times faster. Let us see. A layer of 1024 × 1024 weights,
# zeros at random places, times one input vector. The candidates: the dense product; CSR
# in PyTorch and in scipy; scipy's COO; your bitmap, unpacked before a dense product;
# and, as a glimpse of lab 04, **whole rows** removed, which leaves a smaller dense
# matrix.
#
# The formula for memory traffic has an opinion as well. Real CSR does not use
# $\lceil\log_2 C\rceil$ bits for a column: PyTorch's indices have 64 bits, scipy's 32.
# If time is bytes moved, CSR pays where $(1-p)(32+\text{index bits})<32$: from 67 % and
# from 50 %.
#
# *Write down: from which sparsity on is each faster than the dense product here?*

# %%
### BEGIN SOLUTION
prediction_0_8_kernels = (
    "CSR in PyTorch from 70 %, scipy from 60 %, COO from 80 %, bitmap never, rows at once"
)
### END SOLUTION


# %%
Candidates = dict[str, Callable[[], object]]


def speedups(candidates: Candidates, repeats: int = 20) -> dict[str, float]:
    """How many times faster than "dense" each candidate is, by the lower quartile of
    its times.

    What else runs on a machine can only make a call slower, and disturbs long calls
    more often than short ones: so the lower quartile. Each candidate takes turns with
    "dense" alone: with more of them in one round, whoever comes after the largest finds
    the caches emptied, and whoever shares its memory with another finds them filled.
    """
    dense = candidates.pop("dense")
    faster = {}
    for name, candidate in candidates.items():
        times = latency.compare({"dense": dense, name: candidate}, warmup=2, repeats=repeats)
        faster[name] = times["dense"].low / times[name].low
    return faster


def products(w: Tensor, b: Tensor) -> Candidates:
    """Ways to compute w @ b for a sparse w; all that can be done once is done
    before.
    """
    v, column, row = csr_encode(w)
    in_torch = torch.sparse_csr_tensor(row, column, v, size=tuple(w.shape))
    in_scipy = scipy.sparse.csr_matrix(
        (v.numpy(), column.int().numpy(), row.int().numpy()), shape=tuple(w.shape)
    )
    b_numpy = b.numpy()
    return {
        "dense": lambda: w @ b,
        "CSR, torch": lambda: in_torch @ b,
        "CSR, scipy": lambda: in_scipy @ b_numpy,
    }


def more_products(w: Tensor, b: Tensor) -> Candidates:
    """Three more, and a dense layer that has lost whole rows until it has as few
    weights.
    """
    bitmap, values = bitmap_encode(w)
    coo, w_numpy, b_numpy = scipy.sparse.coo_matrix(w.numpy()), w.numpy(), b.numpy()
    shorter = w[: max(1, round(len(values) / w.shape[1]))].contiguous()
    return {
        "COO, scipy": lambda: coo @ b_numpy,
        "bitmap, unpacked": lambda: bitmap_decode(bitmap, values) @ b,
        "whole rows": lambda: shorter @ b,
        "dense, numpy": lambda: w_numpy @ b_numpy,
    }


levels = np.array([0, 0.3, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99])
wide = 1024
rounds = []  # (seeds, levels) of {name: speed-up}
for seed in range(3):
    g = torch.Generator().manual_seed(seed)
    full, vector = torch.randn(wide, wide, generator=g), torch.randn(wide, generator=g)
    sparse = [pruned(full, s, random=seed) for s in levels]
    rounds.append([speedups(products(w, vector) | more_products(w, vector)) for w in sparse])
results = {name: np.array([[at[name] for at in row] for row in rounds]) for name in rounds[0][0]}
better = float(np.median(results.pop("dense, numpy")))


def pays_from(x: np.ndarray, speed: np.ndarray) -> str:
    """The sparsity from which on the mean speed-up stays above 1, interpolated between
    measured points.
    """
    mean = np.log(speed).mean(0)
    if mean[-1] <= 0:
        return f"not by {100 * x[-1]:.0f} %"
    if mean[1:].min() > 0 and mean[0] > -0.1:  # at 0 % whole rows are the dense product itself
        return "at once"
    last = max(i for i in range(len(x)) if mean[i] <= 0)
    return f"{100 * np.interp(0, mean[last : last + 2], x[last : last + 2]):.0f} %"


def speed_figure(
    x: np.ndarray, speed: dict[str, np.ndarray], control: str, xlabel: str, title: str
) -> Figure:
    """Speed-ups on a log axis; their intervals are those of the logarithms, since they
    are ratios.
    """
    fig = plots.method_curves(
        x,
        {name: np.log2(values) for name, values in speed.items()},
        control=control,
        dense=0,
        xlabel=xlabel,
        ylabel="times faster than dense",
        title=title,
        xaxis="sparsity",
    )
    ax = fig.axes[0]
    ax.plot(x, np.log2(1 / (1 - x)), color=plots.COLOURS["dense"], linestyle=":", linewidth=1.6)
    ax.annotate(
        "what MACs promise",
        (0.7, np.log2(1 / 0.3)),
        xytext=(-8, 4),
        textcoords="offset points",
        ha="right",
    )
    ax.set_ylim(np.log2(min(0.1, *(v.mean(0).min() for v in speed.values()))) - 0.5, np.log2(110))
    marks = np.array([0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100])
    marks = marks[np.log2(marks) > ax.get_ylim()[0]]
    ax.set_yticks(np.log2(marks), [f"{m:g}" for m in marks])
    return fig


payoff = {name: pays_from(levels, speed) for name, speed in results.items()}
fig = speed_figure(
    levels,
    results,
    control="CSR, torch",  # all zeros here are at random places
    xlabel=f"sparsity of a {wide} × {wide} layer, one input vector",
    title=(
        f"On this machine CSR pays from {payoff['CSR, torch']} (torch), {payoff['CSR, scipy']}"
        " (scipy)"
    ),
)
plots.show(
    fig,
    alt=(
        "Speed-up over the dense product against sparsity, logarithmic, three random layers with"
        " intervals. "
    )
    + "; ".join(f"{name} pays: {at}" for name, at in payoff.items())
    + ".",
)
print(f"NumPy's dense product is {better:.1f} × as fast as PyTorch's here (one core each).")

# %% [markdown]
# One vector uses every weight for one single product. A convolution uses each for many
# positions of the picture, so that one look at an index serves many products. Once
# more, then, for the trained `conv4` as the matrix product that it is: $M$ rows,
# $C R S$ columns, times all patches of 64 images. Control: as many zeros at random
# places.

# %%
levels_conv = np.array([0, 0.5, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99])
rounds = []
for seed, w, x in zip(SEEDS[:3], weights[:3], inputs[:3], strict=True):
    # (C·R·S, 64·E·F)
    patches = nn.functional.unfold(x, 3, padding=1).transpose(0, 1).flatten(1).contiguous()
    candidates = [
        products(pruned(w, s).flatten(1), patches)
        | {"random": products(pruned(w, s, random=seed).flatten(1), patches)["CSR, torch"]}
        for s in levels_conv
    ]
    rounds.append([speedups(each, repeats=10) for each in candidates])
speed_conv = {name: np.array([[at[name] for at in row] for row in rounds]) for name in rounds[0][0]}
payoff_conv = {name: pays_from(levels_conv, speed) for name, speed in speed_conv.items()}
fig = speed_figure(
    levels_conv,
    speed_conv,
    control="random",
    xlabel="sparsity of conv4, as a product with the patches of 64 images",
    title=(
        f"As a convolution it pays from {payoff_conv['CSR, torch']} (torch),"
        f" {payoff_conv['CSR, scipy']} (scipy)"
    ),
)
plots.show(
    fig,
    alt=(
        "Speed-up over the dense product against sparsity for the trained conv4, logarithmic, three"
        " networks with intervals. "
    )
    + "; ".join(f"{name} pays: {at}" for name, at in payoff_conv.items())
    + ".",
)

print("From which sparsity on does it pay?")
print(
    f"{'':18}{'by MACs':>10}{'by bits':>10}{'by bytes moved':>16}{'measured, 1 vector':>21}{'measured, conv4':>18}"
)
for name, index_bits in (
    ("CSR, torch", 64),
    ("CSR, scipy", 32),
    ("COO, scipy", 64),
    ("bitmap, unpacked", None),
):
    size_pays = f"{in_bits[name.split(',')[0]][1]:.0f} %"
    moved = f"{100 * index_bits / (32 + index_bits):.0f} %" if index_bits else "-"
    print(
        f"{name:18}{'at once':>10}{size_pays:>10}{moved:>16}{payoff[name]:>21}{payoff_conv.get(name, '-'):>18}"
    )
print(
    f"{'whole rows':18}{'at once':>10}{'at once':>10}{'at once':>16}{payoff['whole rows']:>21}{'-':>18}"
)
you_wrote(prediction_0_8_kernels)

# %% [markdown]
# Read the table from left to right. **The same zeros pay at once in MACs, later in
# bits, later still in time**, and never where a format must be unpacked first. A dense
# kernel fetches neighbours together and multiplies eight or sixteen of them at once; a
# sparse one runs after every index. Counting bytes explains a part of that, best where
# the weights come from memory; a layer that sits in the cache, as here, favours the
# dense kernel further. And reuse need not move a crossing to the left (compare the last
# two columns): the dense product gains from it as well. What MACs promise (dotted) no
# sparse kernel reaches. *Which* weights are zero makes no difference to a kernel (the
# random control lies on the curve of magnitude), unless they fill **whole rows**: those
# pay at once, close to what MACs promise. That is the case for structured pruning, lab 04.
#
# The literature agrees in kind. Gale et al. (2020) say of GPUs that the moderate
# sparsity of neural networks is "not sufficient for existing sparse kernels to
# outperform their dense counterparts", and gain 1.2 to 2.1 times on whole networks with
# kernels written for the purpose. And beware of a comparison with a slow dense product:
# against a faster one (NumPy's may be one, see above; two cores are one) every crossing
# moves to the right.
#
# #### The two questions
#
# **a.** A linear layer has half of its weights pruned ($p=0.5$), and half of its inputs
# are zero ($q=0.5$). What can be said about its nonzero MACs?

# %%
choose(
    "0.8a",
    "At least a quarter of all MACs, since (1 − p)(1 − q) is a lower bound.",
    "Exactly a quarter of all MACs.",
    "A quarter on average over random places of the zeros; for given places anything from none to"
    " half.",
    "At most a quarter, since a zero in either operand is enough.",
    "Half: zeros in the inputs save nothing that pruned weights did not save already.",
)

# %% [markdown]
# **b.** In your figure of the bookkeeping: from which sparsity on (in %) does **COO
# need fewer bits than the bitmap** for `conv4`? Type the number as you read it off,
# e.g. `50`. Anything within 1 of the exact crossing counts.

# %%
### BEGIN SOLUTION
answer_0_8a = "C"  # w = (1, 0) with x = (0, 1) refutes a lower bound, with x = (1, 0) an upper one
answer_0_8b = 94  # 16 address bits per value against 1 bit per place: 16 (1 - p) = 1 at p = 93.75 %
### END SOLUTION

# %%
check("0.8")

# %% [markdown]
# <details><summary>Hint for a</summary>Two of the five can be refuted with a layer of
# one output and two inputs, the one from 0.3.</details>
# <details><summary>Hint for b</summary>The bitmap's line is flat at 1. Your own
# <code>coo_bits</code> and
# <code>bitmap_bits</code> on <code>pruned(weights[0], s)</code> find the place to any
# accuracy.</details>

# %% [markdown]
# ## Part 4 · Two more values
#
# ### 0.9 A device to buy, and what weights cannot save
# **12 minutes · 1 point · needs 0.1, 0.2**
#
# **a. A device to buy.** A camera runs the chain of convolutions below, batch 1, 16-bit
# activations, one layer after the other. Each input is thrown away as soon as its layer
# is done. How many **bits** of memory must the device have *for activations* (inputs
# and outputs, no weights)?
#
# **b. What weights cannot save.** You prune 90 % of all weights of a BERT-base layer
# ($E=768$, projections and FFN alike) and your hardware skips every product with a
# pruned weight. Sentences are $L=512$ tokens long. **How many times fewer MACs** does
# the layer then do? (Type a number with two decimals; within 0.05 counts.)
#
# Use your functions in a scratch cell, then type the results in as plain numbers.

# %%
CAMERA = [  # of each convolution: M, C, R, S, H, W, stride, padding; 16 bits a number
    (16, 3, 3, 3, 96, 128, 2, 1),
    (32, 16, 3, 3, 48, 64, 1, 1),
    (48, 32, 3, 3, 48, 64, 2, 1),
    (96, 48, 3, 3, 24, 32, 1, 1),
    (128, 96, 3, 3, 24, 32, 2, 1),
]

# %%
### BEGIN SOLUTION
# a: the largest input + output of the five layers, not their sum (and not the largest
# tensor)
answer_0_9a = 2359296
# b: attention has no weights: what is left is a tenth of projections and FFN, and all
# of attention
answer_0_9b = 5.26
### END SOLUTION

# %%
check("0.9")

# %% [markdown]
# <details><summary>Hint 1 for a</summary>What is alive while layer i works? And what of
# that is still alive while layer i + 1 works?</details>
# <details><summary>Hint 2 for a</summary><code>conv_cost(*layer, bits=16)</code> gives
# both terms. The last question is how to combine five numbers into one: look at the
# second figure of this lab.</details>
# <details><summary>Hint for b</summary>What are the two factors of each
# product?</details>

# %% [markdown]
# Ten times fewer weights are not ten times fewer MACs: attention multiplies activations
# with activations, and no pruned weight can touch it. The longer the text, the larger
# that part. At $L=6E$ it is half of everything, so that even a network without any
# weights left would do half the MACs.

# %% [markdown]
# #### Real data: larger pictures
#
# The same network on MNIST (28×28) and on CIFAR-10 (32×32, in colour), trained and
# counted as above by the library (`course remake lab00_counting_mnist`,
# `lab00_counting_cifar10`). Before you look: which of the columns belong to the
# *pictures*, and which to the *trained weights*?

# %%
counting = {
    name: experiments.read(f"lab00_counting_{key}")["seeds"]
    for name, key in (("digits", "digits"), ("MNIST", "mnist"), ("CIFAR-10", "cifar10"))
}
lines = [
    (
        "| | test accuracy (%) | most MACs | fullest moment | zeros into conv4 (%) | products, % off"
        " (1−p)(1−q): magnitude | random | empty kernels (%) |"
    ),
    "|---" * 8 + "|",
]
for name, runs in counting.items():
    macs, alive = runs[0]["macs"], runs[0]["alive"]  # the same for every seed
    top, full = max(macs, key=macs.get), max(alive, key=alive.get)
    cells = [
        pm([run["test"] for run in runs]),
        f"{top}, {100 * macs[top] / sum(macs.values()):.0f} %",
        f"{full}, {alive[full] / 8e3:.0f} kB",
        pm([run["zeros in"] for run in runs]),
        *(pm([run["beyond"][how][2] for run in runs]) for how in ("magnitude", "random")),
        pm([run["empty kernels"]["magnitude"][2] for run in runs]),
    ]
    lines.append(f"| {name} | {' | '.join(cells)} |")
say("\n".join(lines) + "\n\n(The last three columns: conv4 with 90 % of its weights at 0.)")
say(real_data.table("00"))

# %% [markdown]
# The bill belongs to the *pictures*: products and memory grow with the pixels. (The
# network halves larger pictures once more on the way, so the fullest moment moves to
# `conv1`, whose output is the last in full size.) What lies in the trained *weights* is
# no accident of the digits: on all three sets those that survive meet fewer inputs than
# random ones, and zeros clump, on CIFAR-10 most of all; so the run-length code pays for
# more fillers there. What bitmap, COO and CSR take does not change at all, since they
# see nothing but the number of zeros.

# %% [markdown]
# ## The ledger
#
# All term one table goes along: the same small network, and what each lab did to it. In
# lab 11 you will have half of your report in it. Today's row is the patient before the
# operation: bits of all weights (32 each), MACs for one image, milliseconds of the
# processor for 64 images on one core of this machine, and accuracy on test images over
# the seeds, with its 95 % interval.

# %%
with torch.no_grad():
    time_dense = latency.measure(lambda: nets[0](batch_of), repeats=30)
ledger.add(
    "convnet",
    "dense",
    lab="00",
    bits=total_bits,
    macs=total_macs,
    ms=1e3 * time_dense.median,
    accuracy=accuracy,
)
display(ledger.table())

# %% [markdown]
# ## What to take along
#
# - Arithmetic, memory and time are three budgets. Weights and MACs sit in different
#   layers; peak activation memory is a maximum over layers.
# - $(1-p)(1-q)$ is an expectation. Count if it matters.
# - Every format pays for *where*. A bitmap pays the same at any sparsity, coordinates
#   pay per value, runs pay per value and for what does not fit into the field.
# - A zero pays at once in MACs, later in bits, and much later (or never) in
#   milliseconds, unless zeros come in shapes that a dense kernel can leave out.
#
# ## Going further
#
# 1. **Real data, larger pictures.** Set `DATA = "mnist"` (or `"fashion_mnist"`,
#    `"cifar10"`) in the first cell and run everything again. The bookkeeping figure
#    does not move at all; the picture of MACs and peak memory does. Why each?
# 2. **Order matters to runs.** Encode `conv4` with its dimensions permuted
#    (`weight.permute(...)`) before `rle_bits`. Which order gives the fewest pairs at 90
#    %? Which zeros has it brought together?
# 3. **A field for every sparsity.** For each sparsity find the best $k$ by formula, and
#    add "RLE, best k" to the bookkeeping figure. How close does it come to the entropy
#    floor?
# 4. **When bytes decide.** A layer that is timed again and again stays in the
#    processor's cache. Set `wide = 4096` (and fewer `repeats`), so that the weights
#    come from memory. Do the measured crossings move towards "by bytes moved"? And does
#    PyTorch's CSR gain from int32 indices (`row.int()`, `column.int()`) as that column
#    says it should?
# 5. **A GPU.** Move matrix and vector to `cuda` in Experiment 3 (`latency` waits for
#    the device). In which direction does each crossing move? Repeat with 64 input
#    vectors.
# 6. **Read**: Sze et al. 2017, *Efficient Processing of Deep Neural Networks*
#    (counting, dataflows); Han et al. 2016, *Deep Compression*; Chen et al. 2016,
#    *Eyeriss*; Gale et al. 2020, *Sparse GPU Kernels for Deep Learning*; Hoefler et al.
#    2021, *Sparsity in Deep Learning*.
