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

# %% slideshow={"slide_type": "skip"}
import numpy as np
import pandas as pd

from course_lib import experiments
from course_lib.experiments import lab12
from course_lib.pruning.weights.column_loop import bits_per_weight
from course_lib.show import plots, tables
from course_lib.show.words import pm_text, say, versus

weights, bits = (experiments.read(f"lab12_{name}/windows") for name in ("weights", "bits"))
texts = dict(list(weights[weights.pattern == "50 %"].groupby("text")))
half, docs = texts["calibration"], texts["docstrings"]
METHODS, ABOVE = ["magnitude", "Wanda", "SparseGPT"], "log perplexity above dense"


def minus(table, one, other, by="method"):
    """One arm minus another in log perplexity, paired by test window; bold: not 0."""
    nll = table.pivot_table("nll", "window", by)
    return versus(nll[one], nll[other], digits=2, cell=True)


def tasks(row, name, where):
    """A row of a table: perplexity, and right answers of the two tasks."""
    found = (experiments.read(f"lab12_{name}/{table}") for table in ("windows", "tasks"))
    windows, right = (table.query(f"seed == 0 and {where}") for table in found)
    return {"": row, "perplexity": np.exp(windows.nll.mean()), **right.set_index("task").right}


# %% [markdown] slideshow={"slide_type": "slide"}
# # A language model, pruned without training
#
# Neural-network pruning · lecture to lab 12
#
# *A language model costs more to train than you can pay. Which layers and weights can be
# removed without training? And are zeros better than fewer bits?*

# %% [markdown] slideshow={"slide_type": "notes"}
# All figures: SmolLM2-135M-Instruct, 30 layers of width 576; 64 test windows of 256 tokens of WikiText-2; 32 windows of
# other articles calibrate; dots are draws of these. ± is half of the 95 % interval over test windows, paired; **bold**
# where it excludes 0. MB: the embedding as in the file, 8.5 bits. `course remake lab12_weights`, `_bits`, `_depth`, `_healing`.

# %% slideshow={"slide_type": "slide"}
say("## Why no training?")
N, rate = 7e9, 0.5 * 312e12  # weights; FLOP per second of an A100 at half of its peak, bf16
step, once = 6 * N * 4e6, 2 * 2 * N * 128 * 2048
say(
    "| 7 billion weights | one training step | passes of one calibration |\n|---|---|---|\n"
    f"| FLOP | $6N$ · 4 million: {step / 1e17:.1f}·10¹⁷ | $2 · 2N$ · 128 · 2,048: {once / 1e15:.1f}·10¹⁵ |\n"
    f"| time, at one A100's speed | {step / rate / 60:.0f} min | {once / rate:.0f} s |\n"
    f"| memory | 16 bytes each: {16e-9 * N:.0f} GB | one of 32 layers: {2e-9 * N / 32:.1f} GB, its inputs 2.1 GB |"
)

# %% slideshow={"slide_type": "fragment"}
say(
    f"LLaMA-7B read 10¹² tokens: {6 * N * 1e12 / rate / 3600:,.0f} GPU hours by this formula; its"
    " paper reports 82,432. A user has the weights and a few texts. So we **observe the inputs of"
    " a layer and solve for the kept weights**."
)

# %% [markdown] slideshow={"slide_type": "notes"}
# Bytes per weight: 2 for the weight, 2 for its gradient, 4 for the copy in fp32, 8 for Adam's two means;
# activations come on top. Inputs of a layer: 128 · 2,048 tokens of width 4,096, 16 bits. 4 million tokens are LLaMA's batch (Touvron et al. 2023; hours: table 15).

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Perplexity
#
# $$\exp\Big(\tfrac1T \sum_t -\ln p(x_t \mid x_{<t})\Big)$$
#
# - 37: as uncertain as an even choice among 37 tokens.
# - One pass predicts every token; the causal mask hides later ones.
# - $T$ counts the predicted tokens of the **whole** text: no padding, no mean of means.
# - We compare **logs**, paired by window: +0.10 is 10 % more, +0.69 is twice as much.
#
# **Our dense model is not dense**: its layers have 4 bits per weight, and groups of 32 share two numbers of 16
# bits. This is 5 bits per weight. The fair question is what it costs to save *more*.

# %% slideshow={"slide_type": "slide"}
say("## Which layer changes least?")
scores = experiments.read("lab12_depth/scores").query("method == 'influence'")
look = {"x": "layer", "y": "score", "log": True, "control": None, "ylabel": "influence"}
plots.show(plots.curves(scores, title="Influence of each layer", **look), inches=(5.4, 4))

# %% [markdown]
# $$1 - \mathbb E\,\cos(x, y)$$
#
# $x$: a layer's input, $y = x + f(x)$ (Men et al. 2024). Read $y$ **at the layer**: a library's last hidden state is *after* the final norm.

# %% [markdown] slideshow={"slide_type": "notes"}
# Cosine per token, then the mean over real tokens. Three draws of windows nearly agree; the lowest three scores are almost equal. *Guess,
# on the board:* two layers are removed. Which perplexity, by influence and for a random pair?

# %% slideshow={"slide_type": "slide"}
say("## Two layers removed")
depth = experiments.read("lab12_depth/windows")
two = lab12.by_run(depth[depth["count"].isin([0, 2])], ["method", "count"])
two = two.replace("last before the end", "last\u00a0before the\u00a0end")  # two lines
fig, ax = plots.subplots(1, 1, 4)
lab12.draw_rules(two, ax, {})
fig.suptitle("A dot is a choice of two layers; the line is the dense model")
ax.set_ylabel("perplexity")
plots.show(fig, inches=(8, 3.2))

# %% slideshow={"slide_type": "fragment"}
at = two.groupby("method").perplexity.agg(list)
drawn, chosen = (np.array(at[rule]) for rule in ("random", "influence"))
say(
    f"Influence: {chosen.min():.1f} to {chosen.max():.1f}. Of {len(drawn)} random pairs"
    f" **{(drawn < chosen.max()).sum()} are better**; their median is {np.median(drawn):.0f}, the worst {drawn.max():,.0f}."
)

# %% [markdown] slideshow={"slide_type": "notes"}
# A random baseline is a distribution, here with a heavy tail: no mean ± t of three draws. A typical pair
# has 22 to 31 % more perplexity. The score mainly avoids the few layers that must be kept.

# %% slideshow={"slide_type": "slide"}
say("## Healing, and its baseline")
look = {"x": "steps", "y": "lost", "control": None, "ylabel": ABOVE}
fig = plots.curves(lab12.healed(), title="Four layers removed, all weights tuned", **look)
plots.show(fig, inches=(8, 2.9))

# %% slideshow={"slide_type": "fragment"}
healing = experiments.read("lab12_healing/windows").query("steps == 40")
after = lab12.lost(healing, ["method"]).set_index("method").drop("dense")
above = (f"{rule} {pm_text(row.difference, row.half, 2)}" for rule, row in after.iterrows())
say(f"Log perplexity above the dense model, which gets the same 40 steps: {', '.join(above)}.")

# %% [markdown] slideshow={"slide_type": "notes"}
# Without the dense arm healing gets the credit for learning the domain. Gromov et al. (2024): up to half of the
# layers, healed by QLoRA, measured by answers to questions. Lu et al. (2024), at 8 to 70 billion weights: the
# *last* layers, then head and last three layers tuned: better than chosen ones. What differs from our runs?

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Wanda, in the order of the layers
#
# $|w_{ij}|\,\lVert x_j \rVert_2$, compared within each output (lab 02; Sun et al. 2023). For each layer:
#
# 1. pass the texts through it, and add up $x_j^2$ for each of its matrices;
# 2. prune all its matrices;
# 3. pass the texts through the **pruned** layer: the input of the next.
#
# Only one layer's inputs are in memory. Usual mistakes: norms of the dense model; padding that counts.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## One row: remove a weight, move the others
#
# $H = \sum_t x_t x_t^\top$. Minimise the change of the row's outputs:
#
# $$\min_v\ (v - w)^\top H\,(v - w) \quad\text{with } v_j = 0$$

# %% [markdown] slideshow={"slide_type": "fragment"}
# Lagrange: $2H(v - w) + \lambda e_j = 0$, so $v = w - \tfrac{\lambda}{2} H^{-1} e_j$.
#
# $v_j = 0$ gives $\tfrac{\lambda}{2} = w_j / [H^{-1}]_{jj}$:
#
# $$v = w - \frac{w_j}{[H^{-1}]_{jj}}\,H^{-1}e_j, \qquad \text{error } \frac{w_j^2}{[H^{-1}]_{jj}}$$

# %% [markdown] slideshow={"slide_type": "notes"}
# Optimal Brain Surgeon (lab 02; Hassibi & Stork 1993), with one layer's squared error as the loss: H is
# exact, and the same for all rows. With a diagonal H the error is w_j² H_jj: Wanda's score, squared.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Two minutes, with pen and paper
#
# $$w = (1, 1), \qquad H = \begin{pmatrix}2 & 1\\ 1 & 2\end{pmatrix}, \qquad H^{-1} = \tfrac13\begin{pmatrix}2 & -1\\ -1 & 2\end{pmatrix}$$
#
# **1.** Remove weight 1. What becomes of weight 2? **2.** What is the error, with and without the update?
#
# **3.** And if $H = 2I$?

# %% [markdown] slideshow={"slide_type": "notes"}
# 1: the step is −1 / (2/3) · (2/3, −1/3) = (−1, +½): v = (0, 1.5). 2: 1 / (2/3) = 1.5; without the update 2.
# 3: nothing moves, the error is 2: the update needs correlated inputs.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## The second weight, and the next row
#
# Weight $j$ must stay 0. Delete row and column $j$ of $H$. Its inverse is one step of **elimination** away:
#
# $$H^{-1} \leftarrow H^{-1} - \frac{H^{-1}e_j\,e_j^\top H^{-1}}{[H^{-1}]_{jj}}$$
#
# After all steps: least squares on the kept weights, in any order.

# %% [markdown] slideshow={"slide_type": "fragment"}
# But each of $r$ rows removes *other* weights and needs its own inverse: about $r\,d^3$ operations. With
# **one** inverse for all rows: $d^3 + r\,d^2$. For $r = d = 4{,}096$ this is 2,048 times fewer.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## One inverse for all rows
#
# Go through the *columns*, in all rows at once. After column $i$ is decided, it is **frozen** in every row,
# pruned or not. All rows eliminate the same columns: one $H^{-1}$.
#
# Cholesky: $H^{-1} = U^\top U$. Row 1 of $U$ is $H^{-1}_{1,:}/\sqrt{[H^{-1}]_{11}}$, so elimination subtracts
# $U_{1,:}^\top U_{1,:}$, and rows $2, 3, \dots$ are left: **$U$ holds all steps**.

# %% [markdown] slideshow={"slide_type": "fragment"}
# $$e = \frac{W_{:,i} - q}{U_{ii}}, \qquad W_{:,j} \leftarrow W_{:,j} - e\,U_{ij} \quad (j > i)$$
#
# The cost: only columns to the **right** make up for an error.

# %% [markdown] slideshow={"slide_type": "notes"}
# SparseGPT, section 3. The example: U₁₁ = √(2/3), U₁₂ = −⅓/√(2/3), e = 1/√(2/3), weight 2 becomes 1.5. Masks by
# w²/U_jj², for 128 columns when the loop reaches them, 2:4 for 4. 1 % of the mean diagonal is added to H.

# %% slideshow={"slide_type": "slide"}
say("## Magnitude, Wanda, SparseGPT")
runs = lab12.by_run(weights, ["method", "pattern", "text"])
main = runs[runs.method.isin(METHODS) & (runs.text == "calibration")]
look = {"x": "pattern", "y": "lost", "by": "method", "fmt": "{:.2f}", "ylabel": ABOVE}
plots.show(plots.bars(main, title="Without training", **look), inches=(8, 3.1))

# %% slideshow={"slide_type": "fragment"}
gaps = [minus(table, "Wanda", "SparseGPT") for table in (half, docs)]
say(
    f"Wanda minus SparseGPT, 50 %: {gaps[0]}. Calibrated on docstrings of Python: {gaps[1]}. The update is"
    " fitted to the text that calibrates."
)

# %% slideshow={"slide_type": "slide"}
say("## Is it the mask or the update?")
both = runs[(runs.pattern == "50 %") & (runs.text == "calibration")]
both = both.assign(mask=both.method.str.extract("(Wanda|SparseGPT)", expand=False) + "'s mask")
updated = both.method.isin(["SparseGPT", "Wanda's mask, updated"])
both["kept weights"] = updated.map({True: "updated", False: "as they were"})
look |= {"x": "mask", "by": "kept weights"}
plots.show(plots.bars(both.dropna(subset="mask"), title="50 % pruned", **look), inches=(8, 3.1))

# %% slideshow={"slide_type": "fragment"}
alone, moved = "SparseGPT's mask alone", "Wanda's mask, updated"
say(
    f"{alone} minus Wanda: {minus(half, alone, 'Wanda')}. {moved}, minus SparseGPT:"
    f" {minus(half, moved, 'SparseGPT')}."
)

# %% [markdown] slideshow={"slide_type": "notes"}
# The update makes most of the lead. SparseGPT's mask is chosen for weights that move: alone it is slightly
# worse than Wanda's. Exchange one part at a time before you explain a method. Sun et al. ask this at 7 billion
# weights (`ablate_wanda_seq`, `ablate_wanda_iter` in their code).

# %% slideshow={"slide_type": "slide"}
say("## What perplexity hides")
arms = {"dense": ("depth", "method == 'dense'")}
for gone in (2, 4):
    arms[f"{gone} layers removed"] = ("depth", f"method == 'influence' and count == {gone}")
for method in ("SparseGPT", "Wanda's mask, updated", "Wanda"):
    where = f'method == "{method}" and pattern == "50 %" and text == "calibration"'
    arms[f"{method}, 50 %"] = ("weights", where)
arms = pd.DataFrame(tasks(row, *where) for row, where in arms.items())
tables.show(tables.plain(arms, {"brackets": 0, "names": 0}))

# %% slideshow={"slide_type": "fragment"}
first, closed = depth[depth.seed == 0].set_index("window"), arms.set_index("").brackets
four = first.query("method == 'influence' and count == 4").nll
one = half.query("method == 'SparseGPT' and seed == 0").set_index("window").nll
say(
    f"SparseGPT minus 4 layers removed: {versus(one, four, digits=2, cell=True)} in log perplexity, and"
    f" {closed['4 layers removed'] - closed['SparseGPT, 50 %']:.0f} fewer brackets of 100. **Models with equal"
    " perplexity can have lost different abilities.**"
)

# %% [markdown] slideshow={"slide_type": "notes"}
# Brackets: close two or three, after six examples. Names: who of three people lives in this town? With 100
# questions, less than 14 points may be luck. Most tokens of a text are easy, and perplexity averages. The table
# has the first draw of windows; other slides average three.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## The same loop rounds
#
# ```
# for i in range(inputs):
#     q = where(keep[:, i], nearest(W[:, i]), 0)
#     e = (W[:, i] - q) / U[i, i]
#     W[:, i+1:] -= outer(e, U[i, i+1:])
#     W[:, i] = q
# ```
#
# `nearest`: of $2^b$ values, from the smallest to the largest weight (or 0) of a group of 64. All kept: **GPTQ**
# (Frantar et al. 2022). Nothing rounded: **SparseGPT**. Or both at once.

# %% slideshow={"slide_type": "fragment"}
gain = {form: minus(bits[bits.format == form], "nearest", "the loop") for form in ("int4", "int3")}
say(f"Each weight to the nearest, minus the loop: int4 {gain['int4']}, int3 {gain['int3']}.")

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Two minutes: add up the bits
#
# Kept weights store $b$ bits. Zeros need a bitmap, 1 bit per weight. 2:4 stores 2 bits per *kept* weight for
# its place. A group of 64 shares 32 bits. How many bits per weight, kept or not:
#
# **1.** half of 16-bit weights, also in 2:4? **2.** int8, int4, int3 in groups? **3.** half of int4?

# %% slideshow={"slide_type": "fragment"}
row = {"half of 16 bits": bits_per_weight(16, 0.5), "2:4 of 16 bits": bits_per_weight(16, 2 / 4)}
row |= {f"int{b}": bits_per_weight(b, 1.0, 64) for b in (8, 4, 3)}
row |= {"half of int4": bits_per_weight(4, 0.5, 64)}
tables.show(tables.plain(pd.DataFrame([row])))

# %% [markdown] slideshow={"slide_type": "notes"}
# 1: 8 + 1, both. 2: b + 32/64. 3: 2 + 1 + ½ = 3.5, as many as int3: the next slide.

# %% slideshow={"slide_type": "slide"}
say("## Zeros, or fewer bits?")
rounded, main = lab12.by_run(bits, ["method", "format", "bits"]), main.assign(group=main.pattern)
points = lab12.by_bits(rounded, main, bits_per_weight(16, 0.5))
look = {"x": "bits", "y": "lost", "control": None, "xaxis": "log", "xlabel": "bits per weight"}
plots.show(plots.curves(points, title="What is lost", ylabel=ABOVE, **look), inches=(8, 3.4))

# %% slideshow={"slide_type": "fragment"}
gap = minus(bits[bits["method"] == "the loop"], "int3", "50 % of int4", "format")
say(f"3.5 bits, here: int3 minus half of int4 {gap}. And at 7 billion weights?")

# %% slideshow={"slide_type": "slide"}
say("## What does it save?")
plan = ["the file's int4", "int8", "int4", "50 % of int4", "4 layers removed"]
menu = lab12.menu(bits_per_weight).set_index("").loc[plan].reset_index()
tables.show(tables.plain(menu, {"MB": 0}))

# %% slideshow={"slide_type": "fragment"}
speed = experiments.read("lab12_speed/speed").set_index("removed").loc[[0, 4]]
prompt, new = (speed[f"{part} (ms)"].tolist() for part in ("prompt", "generation"))
say(
    f"Four of 30 layers removed, one thread: a token of the prompt {prompt[0]:.1f} → {prompt[1]:.1f} ms,"
    f" a generated token {new[0]:.0f} → {new[1]:.0f} ms (−{1 - new[1] / new[0]:.0%}). Zeros and small"
    " integers save time only in kernels that read them."
)

# %% [markdown] slideshow={"slide_type": "notes"}
# Removed layers keep the file's 4 bits. A prompt token saves 15 % with 13 % of the layers: these times, of one
# session, are uncertain by a few points. int4 (90 MB) is better than two layers removed (92 MB, 50.4).

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 2:4 was fast
#
# | Llama-3-8B, one A100 (torchao) | tokens per second | GB |
# |---|---|---|
# | bfloat16 | 96 | 15.0 |
# | int4 weights | 181 | 4.2 |
# | int4 and 2:4 | 226 | 3.1 |

# %% [markdown] slideshow={"slide_type": "fragment"}
# - It needs compute capability 8.0 or more. int4 alone is 1.9 times faster, 2:4 on top of it 1.25 times.
# - Without fine-tuning, torchao's README warns of "extremely high" degradation.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Why 2:4 ended
#
# - **2020**: the A100 multiplies 2:4 matrices at up to twice the speed.
# - **January 2025**: a pull request adds 2:4 models of LLM Compressor to vLLM (12097).
# - **March 2026**: vLLM removes them (36799), "not widely used"; a reviewer: "no downloads on the models".
# - **2026**: LLM Compressor 0.11 removes them. Its docs: "lack of hardware support and user interest".

# %% [markdown] slideshow={"slide_type": "fragment"}
# Our reading: fewer bits saved more, lost less, on more machines. **A format needs someone who serves it.**

# %% [markdown] slideshow={"slide_type": "notes"}
# github.com/vllm-project/vllm: 12097 (15 January 2025), 36799 (11 March 2026, review of 23 March). LLM
# Compressor: release notes 0.11.0 (it may return), docs/guides/compression_schemes.md.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## What is deployed now
#
# - **Experts.** REAP (Lasby et al. 2025): mean of gate × output norm; the lowest experts of each layer
#   are removed. No new kernel. In LLM Compressor since 2026.
# - **Depth and width, then distillation.** Minitron (Muralidharan et al. 2024): 15 billion → 8 and 4 billion
#   weights, up to 40 times fewer training tokens per model.
#
# | GSM8K kept (examples of llm-compressor) | 25 % of experts removed | 50 % |
# |---|---|---|
# | Qwen3-30B-A3B, 128 experts | 98.9 % | 99.8 % |
# | Moonlight-16B-A3B, 64 experts | 79.8 % | 17.0 % |

# %% slideshow={"slide_type": "slide"}
say("## Where 135 million weights mislead")
ours = main[main.pattern == "50 %"].groupby("method").lost.mean()
rows = [(0.135, name, ours[name]) for name in METHODS]
papers = {7: (5.12, 14.89, 6.42, 6.51), 13: (4.57, 6.37, 5.56, 5.63), 70: (3.12, 4.98, 3.98, 3.98)}
for size, (base, *pruned) in papers.items():
    rows += [(size, *one) for one in zip(METHODS, np.log(np.array(pruned) / base), strict=True)]
sizes = pd.DataFrame(rows, columns=["billions of weights", "method", "lost"])
look = {"x": "billions of weights", "y": "lost", "xaxis": "log", "ylabel": ABOVE}
fig = plots.curves(sizes, title="50 % pruned: our model, and LLaMA-2 (Sun et al.)", **look)
plots.show(fig, inches=(8, 2.9))

# %% slideshow={"slide_type": "fragment"}
lead = sizes.pivot_table("lost", "billions of weights", "method").eval("Wanda - SparseGPT")
lead = lead.map("{:+.2f}".format).str.replace("-", "−")
say(
    f"Wanda minus SparseGPT: {lead[0.135]} here, {lead[7]} for LLaMA-2-7B, calibrated on C4. LLaMA-7B:"
    " dense 5.68, int3 (3.25 bits) 6.61, half of 16 bits (9 bits) 7.22: there zeros probably lose."
)

# %% [markdown] slideshow={"slide_type": "notes"}
# LLaMA-2: README of the code of Sun et al. (windows of 2,048 tokens). Also there: 2:4 at 7 billion, SparseGPT 10.17,
# Wanda 11.02. int3, groups of 128, columns reordered: README of GPTQ's code. 7.22: SparseGPT. Half of int4 can hardly
# be better than that; on OPT the authors of SparseGPT found the opposite. **Measure it.** What transfers: loop, count of bits, baselines.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## What to take along
#
# - Perplexity: Σ nll / Σ tokens, compared as logs, paired by window; **and a task**.
# - Depth: test a score against many random draws, and tune the dense model, too.
# - Wanda is the diagonal of OBS. SparseGPT and GPTQ are **one loop**, with one inverse for all rows:
#   exchange mask and update before you explain a lead.
# - **Count bits.** Half of 16 bits is 9: int8 is smaller and, for this 4-bit file, almost free.
# - What would *you* deploy, and at how many bytes?

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Lab 12, and where to read on
#
# - Frantar & Alistarh (2023). [SparseGPT](https://arxiv.org/abs/2301.00774). Frantar et al. (2022).
#   [GPTQ](https://arxiv.org/abs/2210.17323). Sun et al. (2023). [Wanda](https://arxiv.org/abs/2306.11695).
# - Men et al. (2024). [ShortGPT](https://arxiv.org/abs/2403.03853). Gromov et al. (2024). [The deeper
#   layers](https://arxiv.org/abs/2403.17887). Lu et al. (2024). [Layer pruning](https://arxiv.org/abs/2411.15558).
# - Muralidharan et al. (2024). [Minitron](https://arxiv.org/abs/2407.14679). Lasby et al. (2025).
#   [REAP](https://arxiv.org/abs/2510.13999).
