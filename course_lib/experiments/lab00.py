"""The experiments of lab 00: the cost of a network by layer, zeros in products and in
storage, and times. Functions that a student writes are arguments.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse
import torch
from matplotlib.figure import Figure
from torch import Tensor, nn

from course_lib import models
from course_lib.cost import encodings, latency
from course_lib.data.images import ImageData
from course_lib.experiments import common
from course_lib.intervals import summarise
from course_lib.modes import evaluating
from course_lib.parallel import sweep
from course_lib.pruning.weights import local_masks
from course_lib.show import plots
from course_lib.training import fit

Write = Callable[..., Any]  # a function that the student writes
Calls = dict[str, Callable[[], object]]

#: The sparsities at which formats are compared, and those for lines of formulas.
SPARSITIES = (0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.93, 0.95, 0.97, 0.98, 0.99)
FINE = tuple(np.linspace(0, 0.99, 100).round(4).tolist())


# ------------------------------------------------------------------------ the networks
def network(data: ImageData, epochs: int, seed: int, progress: bool = False) -> nn.Module:
    """The convolutional network of the course, trained with Adam on a cosine schedule."""
    model = models.build("convnet", data, seed)
    fit(
        model, data.train, epochs=epochs, lr=3e-3, schedule="cosine", seed=seed, progress=progress
    )  # fmt: skip
    return model.eval()


def layer_inputs(net: nn.Module, x: Tensor) -> dict[str, Tensor]:
    """The input of each convolution and linear layer for the images ``x``, by name."""
    seen: dict[str, Tensor] = {}
    hooks = [
        module.register_forward_pre_hook(lambda _, given, name=name: seen.update({name: given[0]}))
        for name, module in net.named_modules()
        if isinstance(module, (nn.Conv2d, nn.Linear))
    ]
    with evaluating(net), torch.no_grad():
        net(x)
    for hook in hooks:
        hook.remove()
    return seen


def layer_costs(
    net: nn.Module, image: Tensor, conv_cost: Write, linear_cost: Write
) -> pd.DataFrame:
    """The cost of each layer for one image (1, C, H, W).

    Returns:
        Columns ``layer``, ``macs``, ``weight_bits``, ``input_bits``, ``output_bits``, and
        ``kb_alive``: input and output together, in kB.
    """
    rows = []
    for name, x in layer_inputs(net, image).items():
        layer = net.get_submodule(name)
        if isinstance(layer, nn.Conv2d):
            sizes = (*layer.weight.shape, *x.shape[2:], layer.stride[0], layer.padding[0])
            rows.append({"layer": name, **conv_cost(*sizes)})
        elif isinstance(layer, nn.Linear):
            rows.append({"layer": name, **linear_cost(len(x), *layer.weight.shape[::-1])})
    table = pd.DataFrame(rows)
    return table.assign(kb_alive=(table["input_bits"] + table["output_bits"]) / 8e3)


def shares(costs: pd.DataFrame) -> pd.DataFrame:
    """MACs and weights of each layer in % of the network's.

    Args:
        costs: of :func:`layer_costs`.

    Returns:
        Columns ``layer``, ``of`` ("MACs" or "weights"), ``percent``.
    """
    totals = costs.set_index("layer")[["macs", "weight_bits"]].set_axis(["MACs", "weights"], axis=1)
    percent = 100 * totals / totals.sum()
    return percent.melt(var_name="of", value_name="percent", ignore_index=False).reset_index()


# ---------------------------------------------------------------- transformers, heads
def macs_per_token(transformer_macs: Write, E: int, lengths: Iterable[int]) -> pd.DataFrame:
    """Millions of MACs per token in one layer of width E.

    Returns:
        Columns ``tokens``, ``part``, ``million_macs_per_token``.
    """
    rows = []
    for L in lengths:
        cost = transformer_macs(1, int(L), E)
        cost["all matrices"] = cost["projections"] + cost["ffn"]
        for part in ("projections", "ffn", "all matrices", "attention"):
            macs = cost[part] / L / 1e6
            rows.append({"tokens": int(L), "part": part, "million_macs_per_token": macs})
    return pd.DataFrame(rows)


def written_out(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Attention of every head, step by step; q, k, v are (heads, L, D)."""
    scores = q @ k.transpose(1, 2) / q.shape[-1] ** 0.5  # (heads, L, L)
    return scores.softmax(-1) @ v  # (heads, L, D)


def many_heads(
    transformer_macs: Write, heads: Sequence[int], L: int = 256, E: int = 256, repeats: int = 25
) -> pd.DataFrame:
    """Attention with E / heads columns per head, counted and timed, relative to one
    head. Times are the shortest of all rounds: other work on a machine can only
    lengthen a call.

    Returns:
        Columns ``heads``, ``what``, ``times_one_head``.
    """
    qkv = torch.randn(3, L, E, generator=torch.Generator().manual_seed(0))
    calls: dict[tuple[str, int], Callable[[], object]] = {}
    for h in heads:
        q, k, v = qkv.view(3, L, h, E // h).transpose(1, 2).contiguous()  # each (h, L, E/h)
        calls["time, written out", h] = partial(written_out, q, k, v)
        fused = nn.functional.scaled_dot_product_attention
        calls["time, fused", h] = partial(fused, q[None], k[None], v[None])
    names = {f"{what} {h}": (what, h) for what, h in calls}
    timed = latency.compare(
        {name: calls[key] for name, key in names.items()}, warmup=3, repeats=repeats
    )
    found = {names[name]: min(time.samples) for name, time in timed.items()}
    for h in heads:
        cost = transformer_macs(1, L, E, h)
        found |= {("scores", h): cost["scores"], ("MACs", h): cost["attention"]}
    return pd.DataFrame(
        {"heads": h, "what": what, "times_one_head": value / found[what, 1]}
        for (what, h), value in found.items()
    )


# -------------------------------------------------------------------- zeros in products
def placed_zeros(nonzero_macs: Write, both_zero: Iterable[float], size: int = 60) -> pd.DataFrame:
    """A linear layer and its inputs, a share p of both zero: at random places (mean of
    three draws), at the same places ("most"), at other places ("least").

    Returns:
        Columns ``both_zero`` (p), ``zeros``, ``products_left`` (the share of products
        without a factor 0, by formula) and ``counted``.
    """
    rows = []
    for p in both_zero:
        kept = torch.arange(size) >= round(p * size)
        w, x = kept.float().repeat(size, 1), kept.float().repeat(64, 1)
        drawn = []
        for seed in range(3):
            g = torch.Generator().manual_seed(seed)
            drawn.append([_shuffled(w, g), _shuffled(x, g)])
        cases: dict[str, tuple[float, list[list[Tensor]]]] = {
            "most": (1 - p, [[w, x]]),
            "expected": ((1 - p) ** 2, drawn),
            "least": (max(0.0, 1 - 2 * p), [[w, x.flip(1)]]),
        }
        for name, (formula, pairs) in cases.items():
            counted = np.mean([nonzero_macs(*pair) for pair in pairs]) / (64 * size**2)
            row = {"both_zero": p, "zeros": name, "products_left": formula, "counted": counted}
            rows.append(row)
    return pd.DataFrame(rows)


def pruned(weight: Tensor, sparsity: float, random: int | None = None) -> Tensor:
    """A copy with round(sparsity · n) zeros: the smallest weights, or by a random seed."""
    score = (
        weight.abs()
        if random is None
        else torch.rand(weight.shape, generator=torch.Generator().manual_seed(random))
    )
    return weight * local_masks({"": score}, sparsity)[""]


def beyond(weight: Tensor, x: Tensor, nonzero_macs: Write) -> float:
    """Products with two non-zero factors beyond (1-p)(1-q), in % of it; ``x`` is the
    input of a convolution with padding 1, and products with padding do not count.
    """
    p, q = (weight == 0).double().mean(), (x == 0).double().mean()
    possible = nonzero_macs(torch.ones_like(weight), torch.ones_like(x), padding=1)
    expected = float((1 - p) * (1 - q) * possible)
    return 100 * (nonzero_macs(weight, x, padding=1) / expected - 1)


def trained_and_random(
    weights: Sequence[Tensor],
    sparsities: Iterable[float],
    **measures: Callable[[int, Tensor], float],
) -> pd.DataFrame:
    """Measures of trained layers: with the smallest weights at 0 ("magnitude"), and with
    as many zeros at random places.

    Args:
        weights: a layer per seed.
        measures: column -> function of the seed and the weights with zeros.

    Returns:
        Columns ``seed``, ``method``, ``sparsity``, and one per measure.
    """

    def measured(seed: int, method: str, sparsity: float) -> dict[str, float]:
        w = pruned(weights[seed], sparsity, seed if method == "random" else None)
        return {column: of(seed, w) for column, of in measures.items()}

    seeds, methods = range(len(weights)), ("magnitude", "random")
    return sweep(measured, seed=seeds, method=methods, sparsity=sparsities)


# --------------------------------------------------------------------- zeros in storage
def pairs_formula(p: float, k: int) -> float:
    """Pairs per element of run lengths of k bits, for a share p of zeros at random."""
    return (1 - p) / (1 - p ** (2**k)) if p < 1 else 2.0**-k


def pairs_beyond(weight: Tensor, rle_encode: Write, k: int = 4) -> float:
    """Run-length pairs beyond :func:`pairs_formula`, in % of it."""
    expected = pairs_formula(float((weight == 0).double().mean()), k) * weight.numel()
    return 100 * (len(rle_encode(weight, k)[0]) / expected - 1)


def empty_kernels(weight: Tensor) -> float:
    """Share of the 3×3 kernels in which all weights are 0, in %."""
    return 100 * float((weight.flatten(2) == 0).all(2).double().mean())


def run_lengths(rle_encode: Write, layers: Sequence[Tensor], widths: Iterable[int]) -> pd.DataFrame:
    """Pairs per element for runs of several widths, by formula and (mean over the
    layers) as encoded.

    Returns:
        Columns ``sparsity``, ``run``, ``pairs_per_element``, ``counted`` (NaN between the
        :data:`SPARSITIES`).
    """
    rows = []
    for k in widths:
        for p in FINE:
            found = [len(rle_encode(pruned(w, p), k)[0]) / w.numel() for w in layers if _marked(p)]
            counted = np.mean(found) if found else math.nan
            row = {"sparsity": p, "run": f"k = {k}", "pairs_per_element": pairs_formula(p, k)}
            rows.append(row | {"counted": counted})
    return pd.DataFrame(rows)


def formula_bits(format: str, p: float, L: int, n: int = 32, rows: int = 1) -> float:
    """Bits of L values of n bits by formula; ``format`` is "dense", "bitmap", "COO",
    "CSR" (with ``rows``) or "RLE k=5".
    """
    name, _, k = format.lower().partition(" k=")
    return encodings.formula_bits(name, L, p, n, run_bits=int(k or 2), shape=(rows, L // rows))


def sizes(formats: Mapping[str, Write], layers: Sequence[Tensor]) -> pd.DataFrame:
    """Bits per weight of 32-bit layers: by formula, and (mean over the layers) as
    counted by ``formats[name](weight)``.

    Returns:
        Columns ``sparsity``, ``format``, ``bits_per_weight``, ``counted`` (NaN between the
        :data:`SPARSITIES`, and for "dense").
    """
    L, M = layers[0].numel(), len(layers[0])
    rows = []
    for p in FINE:
        rows.append({"sparsity": p, "format": "dense", "bits_per_weight": 32.0})
        cut = [pruned(w, p) for w in layers] if _marked(p) else []
        for name, bits in formats.items():
            row = {"sparsity": p, "format": name}
            row |= {"bits_per_weight": formula_bits(name, p, L, 32, M) / L}
            rows.append(row | ({"counted": np.mean([bits(w) / L for w in cut])} if cut else {}))
    return pd.DataFrame(rows)


def bookkeeping(sizes: pd.DataFrame) -> pd.DataFrame:
    """Of :func:`sizes`, all bits but those of the values that are kept; and the entropy
    of random places, below which no code can be.
    """
    table = sizes[(sizes["format"] != "dense") & (sizes["sparsity"] > 0)].copy()
    table[["bits_per_weight", "counted"]] -= 32 * (1 - table[["sparsity"]].to_numpy())
    p = np.array(FINE[1:])
    entropy = -p * np.log2(p) - (1 - p) * np.log2(1 - p)
    floor = pd.DataFrame({"sparsity": p, "format": "entropy floor", "bits_per_weight": entropy})
    return pd.concat([table, floor], ignore_index=True)


def smaller_from(formats: Mapping[str, Write], weight: Tensor) -> pd.DataFrame:
    """The sparsity in % from which on a format takes less than 32 bits per weight.

    Returns:
        Columns ``format``, ``by formula (%)``, ``measured (%)``.
    """
    grid, L = np.linspace(0, 0.99, 991), weight.numel()

    def first(bits: Callable[[float], float]) -> float:
        return 100 * next((p for p in grid if bits(p) < 32 * L), math.nan)

    rows = []
    for name, bits in formats.items():
        formula = first(partial(formula_bits, name, L=L, n=32, rows=len(weight)))
        measured = first(lambda p, bits=bits: bits(pruned(weight, p)))  # type: ignore[misc]
        rows.append({"format": name, "by formula (%)": formula, "measured (%)": measured})
    return pd.DataFrame(rows)


def explore(sparsity: int = 90, bits: int = 8, log2_size: int = 16, k: int = 4) -> Figure:
    """For the explorer: bits per element of each format by formula, of values with so many
    ``bits`` in a matrix of 2**log2_size elements with as many rows as columns, or half as
    many, and runs of k bits. The line is what the values alone need.
    """
    L, rows, p = 2**log2_size, 2 ** (log2_size // 2), sparsity / 100
    names = ("without a format", "bitmap", f"RLE k={k}", "COO", "CSR")
    table = pd.DataFrame({"format": names})
    table["bits"] = [
        formula_bits("dense" if name == names[0] else name, p, L, bits, rows) / L for name in names
    ]
    best, values = table.loc[table["bits"].idxmin()], (1 - p) * bits
    title = (
        f"{best['format']} is smallest: {best['bits']:.2f} bits per element, of which"
        f" {values:.2f} (line) are values; dense takes {bits / best['bits']:.1f} times as much"
    )
    label = "bits per element"
    fig = plots.bars(table, x="format", y="bits", ylabel=label, title=title, fmt="{:.2f}")
    fig.axes[0].axhline(values, color=plots.COLOURS["RLE"], linewidth=2, zorder=4)
    return fig


# -------------------------------------------------------------------------------- times
def timed(calls: Calls, repeats: int = 30) -> pd.DataFrame:
    """Median time of each call; the calls take turns.

    Returns:
        Columns ``call``, ``ms``.
    """
    with torch.no_grad():
        found = latency.compare(calls, repeats=repeats)
    return pd.DataFrame({"call": name, "ms": 1e3 * t.median} for name, t in found.items())


def csr_kernels(w: Tensor, b: Tensor, csr_encode: Write) -> Calls:
    """w @ b for a sparse w, dense and in CSR: what can be done once is done before."""
    v, column, row = csr_encode(w)
    with warnings.catch_warnings(action="ignore"):  # torch calls its CSR tensors a beta
        in_torch = torch.sparse_csr_tensor(row, column, v, size=tuple(w.shape))
    arrays = (v.numpy(), column.int().numpy(), row.int().numpy())
    in_scipy = scipy.sparse.csr_matrix(arrays, shape=tuple(w.shape))
    b_numpy = b.numpy()
    return {
        "dense": lambda: w @ b,
        "CSR, torch": lambda: in_torch @ b,
        "CSR, scipy": lambda: in_scipy @ b_numpy,
    }


def more_kernels(w: Tensor, b: Tensor, bitmap_encode: Write, bitmap_decode: Write) -> Calls:
    """COO, a bitmap, a dense layer that has lost whole rows until it has as few weights,
    and NumPy's dense product.
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


def speedups(calls: Calls, repeats: int = 20) -> dict[str, float]:
    """How many times faster than "dense" each call is, by the lower quartile of its
    times: other work disturbs long calls more often than short ones. Each takes turns
    with "dense" alone: after a large call, another one would find the caches emptied.
    """
    faster = {}
    for name in list(calls)[1:]:
        pair = {"dense": calls["dense"], name: calls[name]}
        times = latency.compare(pair, warmup=2, repeats=repeats)
        faster[name] = times["dense"].low / times[name].low
    return faster


def one_vector(
    csr_encode: Write,
    bitmap_encode: Write,
    bitmap_decode: Write,
    sparsities: Sequence[float],
    size: int = 1024,
    repeats: int = 20,
) -> pd.DataFrame:
    """A layer of size × size weights, zeros at random places, times one vector; three
    layers. "by MACs" is what the number of MACs predicts.

    Returns:
        Columns ``seed``, ``method``, ``sparsity``, ``faster`` (times faster than dense).
    """
    rows = []
    for seed in range(3):
        g = torch.Generator().manual_seed(seed)
        full, vector = torch.randn(size, size, generator=g), torch.randn(size, generator=g)
        for p in sparsities:
            w = pruned(full, p, random=seed)
            calls = csr_kernels(w, vector, csr_encode)
            calls |= more_kernels(w, vector, bitmap_encode, bitmap_decode)
            found = speedups(calls, repeats) | {"by MACs": 1 / (1 - p)}
            rows += _speeds(found, seed, p)
    return pd.DataFrame(rows)


def convolution(
    weights: Sequence[Tensor],
    inputs: Sequence[Tensor],
    csr_encode: Write,
    sparsities: Sequence[float],
    repeats: int = 10,
) -> pd.DataFrame:
    """A trained convolution as the product of its (M, C·R·S) weights with all patches of
    its input, smallest weights zero; "random" has as many zeros at random places.

    Returns:
        Columns as of :func:`one_vector`; a seed per layer.
    """
    rows = []
    for seed, (w, x) in enumerate(zip(weights, inputs, strict=True)):
        patches = nn.functional.unfold(x, 3, padding=1).transpose(0, 1).flatten(1).contiguous()
        for p in sparsities:
            anywhere = pruned(w, p, random=seed).flatten(1)
            calls = csr_kernels(pruned(w, p).flatten(1), patches, csr_encode)
            calls["random"] = csr_kernels(anywhere, patches, csr_encode)["CSR, torch"]
            rows += _speeds(speedups(calls, repeats) | {"by MACs": 1 / (1 - p)}, seed, p)
    return pd.DataFrame(rows)


def pays_from(speeds: pd.DataFrame) -> dict[str, str]:
    """Method -> the sparsity from which on the (geometric) mean speed-up stays above 1,
    interpolated between measured points.
    """
    logs = speeds.assign(log=np.log(speeds["faster"]))
    found = {}
    for method, part in summarise(logs, "log", ["method", "sparsity"]).groupby(
        "method", sort=False
    ):
        x, mean = part["sparsity"].to_numpy(), part["mean"].to_numpy()
        if mean[-1] <= 0:
            found[str(method)] = f"not by {100 * x[-1]:.0f} %"
        elif mean[1:].min() > 0 and mean[0] > -0.1:  # at 0 % whole rows are the dense product
            found[str(method)] = "at once"
        else:
            last = max(i for i in range(len(x)) if mean[i] <= 0)
            found[str(method)] = (
                f"{100 * np.interp(0, mean[last : last + 2], x[last : last + 2]):.0f} %"
            )
    return found


def when_a_zero_pays(
    by_bits: pd.DataFrame, one_vector: pd.DataFrame, convolution: pd.DataFrame
) -> pd.DataFrame:
    """A row per kernel: from which sparsity on it pays by MACs, by bits (of
    :func:`smaller_from`), by the bytes that it moves, and as measured.
    """
    bits = by_bits.set_index("format")["measured (%)"]
    vector, conv = pays_from(one_vector), pays_from(convolution)
    kernels = {"CSR, torch": 64, "CSR, scipy": 32, "COO, scipy": 64, "bitmap, unpacked": 0}
    rows = [
        {
            "kernel": name,
            "by MACs": "at once",
            "by bits": f"{bits[name.partition(',')[0]]:.0f} %",
            "by bytes moved": f"{100 * index / (32 + index):.0f} %" if index else "–",
            "measured, 1 vector": vector[name],
            "measured, conv4": conv.get(name, "–"),
        }
        for name, index in kernels.items()
    ]
    rows.append(
        dict(zip(rows[0], ["whole rows", *["at once"] * 3, vector["whole rows"], "–"], strict=True))
    )
    return pd.DataFrame(rows)


# ------------------------------------------------------------------------- larger images
def on_larger_images(table: str) -> pd.DataFrame:
    """One table of the stored results on all three sets of images, with a column
    ``images``; of "layers", which are the same for all seeds, a row per layer, with
    ``kb_alive``.
    """
    names = {"digits": "digits", "MNIST": "mnist", "CIFAR-10": "cifar10"}
    results = {name: f"lab00_counting_{key}" for name, key in names.items()}
    found = common.read_all(results, table, "images")
    if table != "layers":
        return found
    return found[found["seed"] == 0].assign(kb_alive=found["alive"] / 8e3).drop(columns="seed")


def _speeds(found: Mapping[str, float], seed: int, p: float) -> list[dict[str, Any]]:
    return [
        {"seed": seed, "method": name, "sparsity": p, "faster": faster}
        for name, faster in found.items()
    ]


def _shuffled(x: Tensor, g: torch.Generator) -> Tensor:
    """Each row in a random order."""
    return x.gather(1, torch.rand(x.shape, generator=g).argsort(1))


def _marked(p: float) -> bool:
    return any(math.isclose(p, at) for at in SPARSITIES)
