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
import copy

import pandas as pd
import torch
from IPython.display import Markdown, display

from course_lib import experiments
from course_lib.cost import latency
from course_lib.experiments import lab06
from course_lib.pruning import weights
from course_lib.pruning.weights import encoder_weights
from course_lib.show import plots, tables
from course_lib.show.words import pm

torch.set_num_threads(1)
names = ("starts", "regimes", "learned", "l1", "ranks", "components", "open")
stored = {name: experiments.read(f"lab06_weights/{name}") for name in names}
starts = {name: rows["accuracy"] for name, rows in stored["starts"].groupby("method")}
learned = stored["learned"].copy()
learned["setting"] = learned["rate"] + (100 * learned["keep"]).map(", {:.0f} %".format)
model = lab06.pretrained(0, head=False)
encoder = sum(w.numel() for w in encoder_weights(model).values())


# %% [markdown] slideshow={"slide_type": "slide"}
# # Which weights does fine-tuning need?
#
# Neural-network pruning · lecture to lab 06
#
# *A model was pre-trained for weeks, and is now fine-tuned for minutes. Nine tenths of
# its weights must be removed. Should pre-training or fine-tuning decide which?*

# %% slideshow={"slide_type": "notes"}
display(
    Markdown(
        f"All figures, unless stated otherwise: three small BERTs, {encoder:,} encoder weights,"
        ' trained on the sentiment of generated reviews ("pre-trained"), fine-tuned to '
        "another label of the same grammar, is the main clause negated, with 1,000 texts:"
        f" {pm(starts['pre-trained'])} %, from scratch {pm(starts['from scratch'])} %, majority"
        f" {starts['majority'].iloc[0]:.1f} %."
    )
)

# %% slideshow={"slide_type": "slide"}
display(
    Markdown(
        "## The set-up\n\n"
        "| | BERT in the papers | here |\n|---|---|---|\n"
        "| pre-training | a masked language model, weeks | sentiment of generated reviews |\n"
        "| task | MNLI, SQuAD, SST-2 | is the main clause negated? 1,000 texts |\n"
        f"| what is counted | encoder matrices | the same: {encoder:,} weights |\n\n"
        f"Fine-tuned **{pm(starts['pre-trained'])} %**; the same network from scratch"
        f' {pm(starts["from scratch"])} %; always "no" {starts["majority"].iloc[0]:.1f} %. '
        "So there is something to lose."
    )
)

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Prune, then fine-tune: two ways to lose
#
# **Information**: the knowledge from pre-training in these weights is lost.
#
# **Capacity**: too few weights are left to fit the new task.
#
# Gordon, Duh & Andrews (2020) separate them by a second arm:
#
# | arm | before fine-tuning | while fine-tuning |
# |---|---|---|
# | zeros **held** | smallest set to 0 | remain 0 |
# | zeros **let go** | smallest set to 0 | may become anything |
#
# In both the information is lost. The second keeps the capacity.

# %% [markdown] slideshow={"slide_type": "notes"}
# Trained for ever, the arm that lets go cannot have the higher training loss. After
# finitely many steps its accuracy can be lower.

# %% slideshow={"slide_type": "slide"}
display(Markdown("## Three regimes"))
title = "Three models (dots) and their mean"
plots.show(
    plots.curves(stored["regimes"], x="sparsity", y="accuracy", xaxis="sparsity", title=title)
)

# %% slideshow={"slide_type": "slide"}
display(Markdown("## What was lost?"))
some = stored["regimes"][stored["regimes"]["sparsity"].isin([0.5, 0.7, 0.8, 0.9, 0.95])]
arms = some[some["method"].isin(["zeros held", "let go"])]
old = arms.query("method == 'zeros held'").assign(method="old task, untrained")
both = pd.concat([old.assign(accuracy=old["old"]), arms])
display(tables.means(both, "accuracy", columns="sparsity"))
display(tables.compare(arms, "accuracy", against="zeros held", columns="sparsity"))

# %% [markdown]
# Around 80 % we could not detect that letting go helps: knowledge from pre-training may
# be missing. At 90 % it helps by more than ten points: *capacity* is missing.

# %% [markdown] slideshow={"slide_type": "notes"}
# The old task is a poor forecast of the new one. Gordon et al. on BERT-base: 30–40 % free, then information, then capacity. Ours ends
# later: an easier task, a network larger than its grammar needs.

# %% [markdown] slideshow={"slide_type": "notes"}
# {{claim 06.1}}
#
# {{claim 06.3}}

# %% slideshow={"slide_type": "slide"}
display(Markdown("## On real sentences"))
real = experiments.read("lab06_sst2/regimes").dropna(subset="sparsity")
sentences = experiments.settings("lab06_sst2")["sentences"]
dense = experiments.read("lab06_sst2/regimes").query("method == 'dense'")["accuracy"].iloc[0]
display(
    Markdown(
        f"MiniLM, 6 layers of width 384, SST-2, {sentences:,} sentences, **one** run: an example,"
        f" not a proof. Accuracy in %; dense {dense:.1f}.\n\n"
        + tables.means(real, "accuracy", columns="sparsity").markdown()
        + "\n\nBoth losses come earlier: English is richer than our grammar."
    )
)

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Two minutes: which criterion?
#
# You fine-tune a pre-trained model and may keep 10 % of its weights.
#
# **1.** Magnitude uses the weights *before* fine-tuning. Which task do they reflect?
#
# **2.** Fine-tuning moves a small weight away from 0 in every step, and a large one
# towards 0. Which would you keep, and which does magnitude keep?

# %% [markdown] slideshow={"slide_type": "notes"}
# 1: the task of pre-training. 2: magnitude keeps the large one, which fine-tuning
# reduces. Movement keeps the small one: the next two slides. Is that always right? A
# few steps predict little about the final weight; the recipe decides.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Movement
#
# Sanh, Wolf & Rush (2020): a score $S$ for each weight, the network computes with
#
# $$W' = W \circ M, \qquad M = \text{1 for the largest scores}$$
#
# and $S$ is **learned by gradient**. $M$ is a step function of $S$; the
# *straight-through* gradient treats $M$ as $S$:
#
# $$\frac{\partial L}{\partial S} = \frac{\partial L}{\partial W'} \circ W \qquad\text{at every entry, also where } M = 0$$
#
# A pruned weight's score still changes, and the weight can return.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## What a score accumulates
#
# SGD at rate $\eta$, scores from 0:
#
# $$S = -\eta \sum_t g_t \circ w_t$$
#
# - $g\,w < 0$: SGD moves the weight **away from zero**; the score rises.
# - $g\,w > 0$: towards zero; it falls.
# - The *sign* does not depend on the weight's size. The speed does: $|g|\cdot|w|$.
#
# One gradient is lab 02's saliency with a sign. The sum over a training shows what the
# **task** did with the weight.

# %% [markdown] slideshow={"slide_type": "notes"}
# Movement depends on size: the score of a weight of 0.001 rises a thousand times more
# slowly than that of 1 under the same gradient. The lab prints it.

# %% slideshow={"slide_type": "slide"}
display(Markdown("## Movement or size?"))
display(
    Markdown(
        "A careful rate (5·10⁻⁵, 400 steps) and a bold one (3·10⁻⁴, 200 steps); 10 % and 3 % of the"
        " encoder's weights kept. Accuracy in %:\n\n"
        + tables.means(learned, "accuracy", columns="setting").markdown()
    )
)

# %% slideshow={"slide_type": "slide"}
display(Markdown("## The recipe decides"))
display(tables.compare(learned, "accuracy", against="magnitude", columns="setting"))

# %% [markdown]
# At a careful rate weights hardly move: size still reflects pre-training, and movement
# is ahead. At a bold rate the *sizes can adapt*, and are ahead at 10 %, not at 3 %.
# Soft movement, which learns its share, is far ahead of all. Sanh et al., MNLI, with
# distillation: soft 81.2, hard 80.1, size 78.3 at 10 %; 79.5, 76.5, 69.4 at 3 %.

# %% [markdown] slideshow={"slide_type": "notes"}
# {{claim 06.4}}

# %% slideshow={"slide_type": "slide"}
display(Markdown("## Why is the soft one ahead? One difference at a time"))
arms = experiments.read("lab06_soft/arms")
title = "Accuracy (%) at the careful rate, as many weights left"
rows = lab06.one_difference(arms).query("method != 'matrices and schedule'")
look = {"fmt": "{:.0f}", "constant": starts["majority"].iloc[0]}
fig = plots.bars(rows, x="arm", y="accuracy", title=title, **look)
plots.show(fig, inches=(8, 3.2))
drawn = arms.query("method == 'penalty, signs drawn'")["accuracy"].mean()
display(
    Markdown(
        r"The penalty matters: Adam divides its gradient $p$, too: $-(m + p)/\sqrt v$. Scores"
        rf" with small gradients fall. Signs of the movement drawn: {drawn:.0f} %."
    )
)

# %% [markdown] slideshow={"slide_type": "notes"}
# {{claim 06.5}}

# %% slideshow={"slide_type": "slide"}
display(Markdown("## What each of them keeps"))
careful = learned.query("rate == 'careful' and keep == 0.1").copy()
ways = ["away", "toward", "flipped"]
careful[ways] = 100 * careful[ways].div(careful[ways].sum(axis=1), axis=0)
heads = {"away": "away from 0 (%)", "toward": "towards it (%)", "flipped": "flipped (%)"}
heads["before"] = "size before, median of all = 1"
display(tables.means(careful, heads))

# %% [markdown]
# Nearly all weights that movement keeps have moved away from zero: that is what its
# scores measure.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## After Adam's step
#
# L1 in the loss, with Adam: the penalty's gradient is divided by $\sqrt v$ like all
# others, so its strength loses its meaning.
#
# Guo et al. (2019), **reweighted proximal pruning**: take it *out* of the loss,
#
# $$w_i \leftarrow \operatorname{soft}(w_i,\; \eta\,\lambda\,\alpha_i) \quad\text{after Adam's step},\qquad \alpha_i = \frac{1}{|w_i| + \varepsilon}$$
#
# Small weights are penalised more, large ones hardly. (Lab 02 has the proximal step,
# and why a subgradient makes no zeros.)

# %% slideshow={"slide_type": "slide"}
display(Markdown("## Exact zeros, at what cost?"))
strengths = stored["l1"].assign(zeros=100 * stored["l1"]["zeros"])
strengths = strengths.query("method != 'loss' or strength == 0.001")  # its largest
heads = {"zeros": "exact zeros (%)", "accuracy": "accuracy (%)"}
display(tables.means(strengths, heads, rows=["method", "strength"]))

# %% [markdown]
# In the loss: not one zero, at any strength. At two thirds of zeros, reweighting is
# more than ten points ahead of plain L1.

# %% [markdown] slideshow={"slide_type": "notes"}
# Plain L1 also shrinks the weights that should be kept. Guo et al. prune while
# pre-training, and report no loss at 59.3 % of BERT.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Two minutes: how small is a factored layer?
#
# A matrix is a sum of components: $W = \sum_k p_k q_k^\top = PQ$ with $P$ out × r and
# $Q$ r × in. Each removed component makes the layer smaller on any hardware.
#
# **1.** From which rank on is a factored 128×128 layer *larger* than the dense one? And
# 256×128?
#
# **2.** "We removed 35 % by low rank, and nothing was lost." Which baseline would you
# ask for first?

# %% [markdown] slideshow={"slide_type": "notes"}
# 1: out·in/(out+in): 64 and 85.3. With all components the factored layer is twice as
# large. 2: the largest singular values, nothing trained: see the next slide.

# %% slideshow={"slide_type": "slide"}
display(Markdown("## How low-rank is it already?"))
ranks = stored["ranks"]
removed = tables.means(ranks, "accuracy", columns="sparsity").markdown()
display(
    Markdown(f"The old task, **nothing trained**, by share of the encoder removed:\n\n{removed}")
)

# %% [markdown]
# Two thirds of the encoder can be removed without any training. A method that "removes
# 35 %" would prove nothing here.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## A target size
#
# Random gates $z_k$ between the factors (hard concrete: lab 08), each open with some
# probability. Which λ gives the size that you want? Wang, Wohlwend & Lei (2020)
# **learn** it,
#
# $$\min_{W, z}\;\max_{\lambda_1, \lambda_2}\quad L + \lambda_1 (s - t) + \lambda_2 (s - t)^2$$
#
# $s$: size, $t$: target. Too large: both λ grow. Too small: $\lambda_1$ falls, may
# become negative, and makes the model larger again.

# %% slideshow={"slide_type": "slide"}
display(Markdown("## Gates, or singular values?"))
kinds = stored["components"].replace(
    {"gates": "learned gates", "largest": "largest singular values", "random": "random components"}
)
met = 100 * kinds.query("method == 'learned gates'")["share"]
display(tables.means(kinds, {"accuracy": "accuracy (%)"}))
display(tables.compare(kinds, {"accuracy": "points"}, against="largest singular values"))
display(
    Markdown(
        f"The Lagrangian leaves {pm(met)} %. Gates are not distinguishable from singular values that"
        " are trained as long."
    )
)

# %% [markdown] slideshow={"slide_type": "notes"}
# {{claim 06.6}}

# %% slideshow={"slide_type": "slide"}
display(Markdown("## Measured latency"))
small = lab06.low_rank(stored["open"], model)
texts = lab06.texts_to_time()
thin = copy.deepcopy(model)
matrices = encoder_weights(thin)
weights.apply(thin, weights.global_masks(weights.magnitude(matrices), 0.9))
nets = {"dense": model, "zeros": thin, "low rank": small}
times = latency.compare(
    {name: latency.forward(net, texts) for name, net in nets.items()}, repeats=9, threads=1
)
faster = {name: times["dense"].times_slower_than(times[name]) for name in ("zeros", "low rank")}
display(
    Markdown(
        "| 64 texts, one thread | zeros | time |\n|---|---|---|\n| magnitude (or any other choice"
        f" of zeros) | 90 % | {faster['zeros']:.2f} times faster |\n| low rank, the ranks that the"
        f" gates left | none | **{faster['low rank']:.2f} times faster** |\n\nA dense kernel does"
        " not skip zeros; two thin matrices save time on every machine."
    )
)

# %% [markdown] slideshow={"slide_type": "slide"}
# ## What to take along
#
# - Two ways to lose, and an experiment that separates them: **hold the zeros, or let
#   them go**.
# - Movement measures fine-tuning, size measures pre-training. Which is ahead **depends
#   on the rate**.
# - Apply penalties *after* Adam's step; reweighted, they spare large weights.
# - Low rank is structure, so it saves time. Its first baseline is the SVD, trained as
#   long.
# - A Lagrangian meets a size; a λ by hand does not.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Lab 06, and where to read on
#
# - Gordon, Duh & Andrews (2020). [Compressing BERT: studying the effects of weight
#   pruning on transfer learning](https://arxiv.org/abs/2002.08307). *RepL4NLP*.
# - Sanh, Wolf & Rush (2020). [Movement pruning: adaptive sparsity by
#   fine-tuning](https://arxiv.org/abs/2005.07683). *NeurIPS*.
# - Guo, Liu, Mungall, Lin & Wang (2019). [Reweighted proximal pruning for large-scale
#   language representation](https://arxiv.org/abs/1909.12486).
# - Wang, Wohlwend & Lei (2020). [Structured pruning of large language
#   models](https://aclanthology.org/2020.emnlp-main.496). *EMNLP*.
# - Louizos, Welling & Kingma (2018). [Learning sparse neural networks through L0
#   regularization](https://arxiv.org/abs/1712.01312). *ICLR*.
