"""How many multiply-accumulates (MACs) a layer needs, by its formula: dense, and when
zeros are skipped. (:mod:`course_lib.cost.tokens`: with fewer heads or tokens.)

:mod:`course_lib.cost.count` counts a whole ``nn.Module`` while it runs on an example.
A size that is not positive is refused by name (ValueError).

All counts are Python ints from integer arithmetic: a count kept in float32 stops being
exact at 2^24, which one 3x3 layer of ResNet-50 passes seven times over with a single
image.

Source: Sze, Chen, Yang and Emer 2020, "Efficient Processing of Deep Neural Networks",
chapters 2 and 8.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch.nn.functional as F
from torch import Tensor

from course_lib.checks import check_count


# ------------------------------------------------------------ one layer, by its formula
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
    """Cost of a 2-D convolution of one image, without bias.

    Args:
        M, C: output and input channels.
        R, S: height and width of the kernel.
        H, W: height and width of the input; the output is E x F with
            E = (H + 2·padding - R) // stride + 1, F alike.
        stride, padding: the same in both directions.
        bits: width of a weight and of an activation.

    Returns:
        ``macs`` = M·C·R·S·E·F (products with padding included), and
        the storage in bits: ``weight_bits`` of MCRS, ``input_bits`` of CHW and
        ``output_bits`` of MEF numbers. Weights stay; activations are transient, so what
        a network needs at once is the maximum over its layers, not the sum.
    """
    _check_sizes(M=M, C=C, R=R, S=S, H=H, W=W, bits=bits)
    E, F_ = (_output_size(size, kernel, stride, padding) for size, kernel in ((H, R), (W, S)))
    return _cost(M * C * R * S * E * F_, bits, M * C * R * S, C * H * W, M * E * F_)


def linear_cost(batch: int, d_in: int, d_out: int, bits: int = 32) -> dict[str, int]:
    """Cost of a linear layer without bias, with the keys of ``conv_cost``."""
    _check_sizes(batch=batch, d_in=d_in, d_out=d_out, bits=bits)
    return _cost(batch * d_in * d_out, bits, d_in * d_out, batch * d_in, batch * d_out)


def _cost(macs: int, bits: int, *numbers: int) -> dict[str, int]:
    names = ("weight_bits", "input_bits", "output_bits")
    return {"macs": macs} | {name: bits * n for name, n in zip(names, numbers, strict=True)}


def transformer_macs(B: int, L: int, E: int, heads: int = 1) -> dict[str, int]:
    """MACs of one transformer layer: self-attention, and a feed-forward block of width
    4E.

    Args:
        B, L, E: batch, sequence length, embedding width.
        heads: attention heads, each E / heads wide. They change no MAC, only the number
            of attention scores.

    Returns:
        ``projections`` 4BLE² (query, key, value, output), ``attention`` 2BL²E (Q·Kᵀ and
        A·V), ``ffn`` 8BLE², their ``total``, and ``scores`` = B·heads·L², the numbers
        that the softmax reads and writes.

    Source: Kim et al. 2022, "Learned Token Pruning for Transformers", section 4.1.
    """
    _check_sizes(B=B, L=L, E=E, heads=heads)
    if E % heads:
        raise ValueError(
            f"heads must divide the embedding: {heads} heads do not share {E} dimensions evenly"
        )
    cost = {"projections": 4 * B * L * E**2, "attention": 2 * B * L**2 * E, "ffn": 8 * B * L * E**2}
    return cost | {"total": sum(cost.values()), "scores": B * heads * L**2}


# ------------------------------------------------------------ a product's time at best
def product_work(
    rows: int, columns: int, vectors: int, kept: int, index_bits: int = 0
) -> dict[str, int]:
    """What a (rows, columns) matrix with ``kept`` weights times ``vectors`` vectors takes at
    least: ``macs``, and the ``bytes`` of kept weights with an index of ``index_bits`` each (0:
    dense), inputs and outputs, every one moved once, with 4 bytes per number.
    """
    _check_sizes(rows=rows, columns=columns, vectors=vectors)
    _check_sizes(0, kept=kept, index_bits=index_bits)
    stored = kept * (32 + index_bits) // 8
    return {"macs": kept * vectors, "bytes": stored + 4 * vectors * (rows + columns)}


def least_seconds(work: Mapping[str, int], peak: float, bandwidth: float) -> float:
    """The roofline: a lower bound for the time of ``work`` (:func:`product_work`) where at most
    ``peak`` MACs and ``bandwidth`` bytes are done in a second, both at once.

    Source: Williams et al. 2009, "Roofline: An Insightful Visual Performance Model".
    """
    return max(work["macs"] / peak, work["bytes"] / bandwidth)


# ----------------------------------------------------- one layer, with the zeros it has
def nonzero_macs(weight: Tensor, x: Tensor, stride: int = 1, padding: int = 0) -> int:
    """Exact number of products whose weight and input are both non-zero.

    Every weight at channel c and tap (r, s) meets the same inputs, whichever filter it
    belongs to. So it is enough to count, for each (c, r, s), the non-zero weights over
    the filters and the non-zero inputs over all images, and to convolve the two counts.

    Args:
        weight: (M, C, R, S), or (d_out, d_in) for a linear layer.
        x: (B, C, H, W), or (B, d_in).
        stride, padding: of the convolution, the same in both directions.

    Returns:
        An int. NaN and the infinities count as non-zero, padding as zero.
    """
    if weight.ndim != x.ndim or weight.ndim not in (2, 4) or weight.shape[1] != x.shape[1]:
        raise ValueError(
            "a weight (d_out, d_in) needs x (B, d_in), a weight (M, C, R, S) needs x (B, C, H, W);"
            f" got {tuple(weight.shape)} and {tuple(x.shape)}"
        )
    # float64 holds these sums of integers exactly
    of_weight, of_x = ((t.detach() != 0).sum(0, keepdim=True).cpu().double() for t in (weight, x))
    if weight.ndim == 2:
        return int((of_weight * of_x).sum())
    for size, kernel in zip(x.shape[2:], weight.shape[2:], strict=True):
        _output_size(size, kernel, stride, padding)
    return int(F.conv2d(of_x, of_weight, stride=stride, padding=padding).sum())


# ------------------------------------------------------------------ checks of arguments
def _check_sizes(least: int = 1, **sizes: int) -> None:
    for name, size in sizes.items():
        check_count(size, name, least)


def _output_size(size: int, kernel: int, stride: int, padding: int) -> int:
    _check_sizes(stride=stride)
    _check_sizes(0, padding=padding)
    if size + 2 * padding < kernel:
        raise ValueError(
            f"the kernel ({kernel}) is larger than the padded input ({size} + 2·{padding})"
        )
    return (size + 2 * padding - kernel) // stride + 1
