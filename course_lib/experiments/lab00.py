"""The experiments of lab 00: the cost of a network by layer, zeros in products and in
storage, and times. Functions that a student writes are arguments.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
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
from course_lib.pruning.weights import prune_lowest
from course_lib.show import plots
from course_lib.training import fit

Write = Callable[..., Any]  # a function that the student writes
Calls = dict[str, Callable[[], object]]

#: The sparsities at which formats are compared, and those for lines of formulas.
SPARSITIES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.93, 0.95, 0.97, 0.98, 0.99)
FINE = tuple(np.linspace(0, 0.99, 100).round(4).tolist())


# ------------------------------------------------------------------------ the networks
def network(data: ImageData, epochs: int, seed: int) -> nn.Module:
    """The convolutional network of the course, trained with Adam on a cosine schedule."""
    model = models.build("convnet", data, seed)
    fit(
        model, data.train, epochs=epochs, lr=3e-3, schedule="cosine", seed=seed, progress=False
    )  # fmt: skip
    return model.eval()


def layer_costs(
    net: nn.Module, image: Tensor, conv_cost: Write, linear_cost: Write
) -> pd.DataFrame:
    """The cost of each layer for one image (1, C, H, W).

    Returns:
        Columns ``layer``, ``macs``, ``weight_bits``, ``input_bits``, ``output_bits``, and
        ``kb_alive``: input and output together, in kB.
    """
    rows = []
    for name, x in common.layer_inputs(net, image).items():
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
        g = torch.Generator().manual_seed(0)
        drawn = [[_shuffled(w, g), _shuffled(x, g)] for _ in range(3)]
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
    g = torch.Generator().manual_seed(random or 0)
    score = weight.abs() if random is None else torch.rand(weight.shape, generator=g)
    return weight * prune_lowest(score, round(sparsity * weight.numel()))


# --------------------------------------------------------------------- zeros in storage
def formula_bits(format: str, p: float, L: int, n: int = 32, rows: int = 1) -> float:
    """Bits of L values of n bits by formula; ``format`` is "dense", "bitmap", "COO",
    "CSR" (with ``rows``) or "RLE k=5".
    """
    name, _, k = format.lower().partition(" k=")
    return encodings.formula_bits(name, L, p, n, run_bits=int(k or 2), shape=(rows, L // rows))


def bookkeeping(formats: Mapping[str, Write], layers: Sequence[Tensor]) -> pd.DataFrame:
    """Bits per weight of 32-bit layers without those of the kept values: by formula, and (mean
    over the layers) as counted by ``formats[name](weight)``; and the entropy of random places,
    below which no code can be.

    Returns:
        Columns ``sparsity``, ``format``, ``bits_per_weight``, ``counted`` (NaN between the
        :data:`SPARSITIES`, and for the entropy).
    """
    L, M = layers[0].numel(), len(layers[0])
    rows = []
    for p in FINE[1:]:
        cut = [pruned(w, p) for w in layers] if p in SPARSITIES else []
        entropy = -p * np.log2(p) - (1 - p) * np.log2(1 - p)
        rows.append({"sparsity": p, "format": "entropy floor", "bits_per_weight": entropy})
        for name, bits in formats.items():
            row = {"sparsity": p, "format": name}
            row |= {"bits_per_weight": formula_bits(name, p, L, 32, M) / L - 32 * (1 - p)}
            found = {"counted": np.mean([bits(w) / L for w in cut]) - 32 * (1 - p)} if cut else {}
            rows.append(row | found)
    return pd.DataFrame(rows)


def explore(sparsity: int = 90, bits: int = 8, log2_size: int = 16, k: int = 4) -> Figure:
    """For the explorer: bits per element of each format by formula, of values with so many
    ``bits`` in a matrix of 2**log2_size elements with as many rows as columns, or half as
    many, and runs of k bits. The line is what the values alone need.
    """
    L, rows, p = 2**log2_size, 2 ** (log2_size // 2), sparsity / 100
    names = ("dense", "bitmap", f"RLE k={k}", "COO", "CSR")
    of = {name: formula_bits(name, p, L, bits, rows) / L for name in names}
    best, values = min(of, key=lambda name: of[name]), (1 - p) * bits
    title = f"{best} is smallest: {of[best]:.2f} bits per element (line: values only)"
    table = pd.DataFrame({"format": names, "bits": of.values()})
    label = "bits per element"
    fig = plots.bars(table, x="format", y="bits", ylabel=label, title=title, fmt="{:.2f}")
    fig.axes[0].axhline(values, color=plots.COLOURS["RLE"], linewidth=2, zorder=4)
    return fig


# -------------------------------------------------------------------------------- times
def kernels(w: Tensor, b: Tensor) -> Calls:
    """w @ b for a sparse w: dense, in CSR, and dense after rows have gone until as many weights
    are left as w keeps. What can be done once is done before.
    """
    v, column, row = encodings.csr_encode(w)
    with warnings.catch_warnings(action="ignore"):  # torch calls its CSR tensors a beta
        in_torch = torch.sparse_csr_tensor(row, column, v, size=tuple(w.shape))
    arrays = (v.numpy(), column.int().numpy(), row.int().numpy())
    in_scipy, b_numpy = scipy.sparse.csr_matrix(arrays, shape=tuple(w.shape)), b.numpy()
    shorter = w[: max(1, round(len(v) / w.shape[1]))].contiguous()
    return {
        "dense": lambda: w @ b,
        "CSR, torch": lambda: in_torch @ b,
        "CSR, scipy": lambda: in_scipy @ b_numpy,
        "whole rows": lambda: shorter @ b,
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


def machine(size: int = 1024, repeats: int = 20) -> tuple[float, float]:
    """What one core does at most: MACs per second, by one large multiplication, and bytes per
    second, by a copy of a matrix of the same size (read and written).
    """
    a, b, to = torch.randn(3, size, size, generator=torch.Generator().manual_seed(0))

    def fastest(call: Callable[[], object]) -> float:  # alone: the other would empty the caches
        return min(latency.measure(call, repeats=repeats).samples)

    return size**3 / fastest(lambda: a @ b), 2 * 4 * size**2 / fastest(lambda: to.copy_(a))


def predicted_and_measured(
    product_work: Write,
    least_seconds: Write,
    peak: float,
    bandwidth: float,
    sparsities: Sequence[float] = (0.5, 0.7, 0.8, 0.9, 0.95, 0.98),
    size: int = 1024,
    repeats: int = 20,
) -> pd.DataFrame:
    """A matrix of size × size weights, zeros at random places, times 1 vector and times 64: how
    many times faster than its dense product a kernel is at best, by the roofline, and measured.

    Returns:
        Columns ``times``, ``method``, ``sparsity``, ``faster`` (bound), ``measured``.
    """
    g = torch.Generator().manual_seed(0)
    full, to = torch.randn(2, size, size, generator=g)
    index_bits = {"CSR, torch": 64, "CSR, scipy": 32, "whole rows": 0}
    copy, rows = "copy the dense matrix", []
    for vectors, p in itertools.product((1, 64), sparsities):
        b, w = torch.randn(size, vectors, generator=g), pruned(full, p, random=0)
        kept = int((w != 0).sum())

        def bound(kept: int, bits: int = 0, vectors: int = vectors) -> float:
            work = product_work(size, size, vectors, kept, bits)
            return float(least_seconds(work, peak, bandwidth))

        best = {name: bound(size**2) / bound(kept, bits) for name, bits in index_bits.items()}
        best[copy] = bound(size**2) / (2 * 4 * size**2 / bandwidth)
        calls = kernels(w, b) | {copy: lambda: to.copy_(full)}
        found = speedups(calls, repeats)
        case = {"times": f"times {vectors} vector{'s' * (vectors > 1)}", "sparsity": p}
        for name in best:
            row = {"method": name, "faster": best[name], "measured": found[name]}
            rows.append(case | row)
    return pd.DataFrame(rows)


def convolution(
    weights: Sequence[Tensor],
    inputs: Sequence[Tensor],
    sparsities: Sequence[float],
    repeats: int = 10,
) -> pd.DataFrame:
    """A trained convolution as the product of its (M, C·R·S) weights with all patches of
    its input, smallest weights zero; "random" is PyTorch's CSR with as many zeros at random
    places, "by MACs" what the number of MACs predicts.

    Returns:
        Columns ``seed`` (of the layer), ``method``, ``sparsity``, ``faster`` (than dense).
    """
    rows = []
    for seed, (w, x) in enumerate(zip(weights, inputs, strict=True)):
        patches = nn.functional.unfold(x, 3, padding=1).transpose(0, 1).flatten(1).contiguous()
        for p in sparsities:
            calls = kernels(pruned(w, p).flatten(1), patches)
            anywhere = pruned(w, p, random=seed).flatten(1)
            calls["random"] = kernels(anywhere, patches)["CSR, torch"]
            rows += [
                {"seed": seed, "method": name, "sparsity": p, "faster": faster}
                for name, faster in (speedups(calls, repeats) | {"by MACs": 1 / (1 - p)}).items()
            ]
    return pd.DataFrame(rows)


def _shuffled(x: Tensor, g: torch.Generator) -> Tensor:
    """Each row in a random order."""
    return x.gather(1, torch.rand(x.shape, generator=g).argsort(1))
