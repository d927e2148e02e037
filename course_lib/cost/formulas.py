"""How many multiply-accumulates (MACs) a layer needs, by its formula: dense, when zeros
are skipped, with fewer heads.

Here are formulas for one layer, then the exact count of the products
whose two factors are both non-zero, for weights and inputs as they are.
:mod:`course_lib.cost.count` counts a whole ``nn.Module`` while it runs on an example.

All counts are Python ints from integer arithmetic: a count kept in float32 stops being
exact at 2^24, which one 3x3 layer of ResNet-50 passes seven times over with a single
image.

Source: Sze, Chen, Yang and Emer 2020, "Efficient Processing of Deep Neural Networks",
chapters 2 and 8.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch.nn.functional as F
from torch import Tensor


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

    Raises:
        ValueError: if a size is not positive, or the kernel is larger than the padded
            input.

    Source: Sze et al. 2020, chapter 2.
    """
    _check_positive(M=M, C=C, R=R, S=S, H=H, W=W, stride=stride, bits=bits)
    E, F_ = (_output_size(size, kernel, stride, padding) for size, kernel in ((H, R), (W, S)))
    return {
        "macs": M * C * R * S * E * F_,
        "weight_bits": bits * M * C * R * S,
        "input_bits": bits * C * H * W,
        "output_bits": bits * M * E * F_,
    }


def linear_cost(batch: int, d_in: int, d_out: int, bits: int = 32) -> dict[str, int]:
    """Cost of a linear layer without bias, with the keys of ``conv_cost``.

    Raises:
        ValueError: if a size is not positive.

    Source: Sze et al. 2020, chapter 2.
    """
    _check_positive(batch=batch, d_in=d_in, d_out=d_out, bits=bits)
    return {
        "macs": batch * d_in * d_out,
        "weight_bits": bits * d_in * d_out,
        "input_bits": bits * batch * d_in,
        "output_bits": bits * batch * d_out,
    }


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

    Raises:
        ValueError: if a size is not positive or ``heads`` does not divide E.

    Source: Kim et al. 2022, "Learned Token Pruning for Transformers", section 4.1.
    """
    _check_positive(B=B, L=L, E=E, heads=heads)
    if E % heads:
        raise ValueError(
            f"heads must divide the embedding: {heads} heads do not share {E} dimensions evenly"
        )
    cost = pruned_transformer_macs(B, L, E, [heads], E // heads)
    return {name: cost[name] for name in cost if name != "weights"}


def pruned_transformer_macs(
    B: int,
    L: int,
    E: int,
    heads: Sequence[int],
    head_size: int,
    ffn: int | None = None,
    S: int | None = None,
) -> dict[str, int]:
    """MACs and weights of transformer layers of which the l-th has ``heads[l]`` heads
    left.

    A layer with h heads of d features each has projections of width h·d where they were
    E wide, and nothing else changes. So half of the heads are half of the attention's
    products, but a sixth of the layer's: the feed-forward block keeps its 8BLE².

    Args:
        B, L, E: batch, sequence length, embedding width.
        heads: heads of each layer; 0 where all are gone.
        head_size: features of a head, E / heads of the full model.
        ffn: inner width of the feed-forward block, 4E unless given; 0 for layers
            without one.
        S: length of the sequence that is attended to, L unless given (cross-attention).

    Returns:
        The keys of ``transformer_macs``: ``projections`` Σ 2BE·hd·(L+S), ``attention``
        Σ 2BLS·hd, ``ffn`` 2BLE·ffn for each layer, their ``total``, and ``scores`` Σ
        BhLS; and ``weights``, Σ (4E·hd + 2E·ffn), biases not counted.

    Raises:
        ValueError: if a size is negative, or B, L, E, S or ``head_size`` is 0.

    Source: Michel et al. 2019, "Are Sixteen Heads Really Better than One?", section
    4.3.
    """
    S = L if S is None else S
    ffn = 4 * E if ffn is None else ffn
    _check_positive(B=B, L=L, E=E, S=S, head_size=head_size)
    if ffn < 0 or min(heads, default=0) < 0:
        raise ValueError(
            f"a width or a number of heads cannot be negative, got ffn {ffn} and heads"
            f" {list(heads)}"
        )
    kept = sum(heads)
    projections = 2 * B * E * kept * head_size * (L + S)
    attention = 2 * B * L * S * kept * head_size
    feed_forward = 2 * B * L * E * ffn * len(heads)
    return {
        "projections": projections,
        "attention": attention,
        "ffn": feed_forward,
        "total": projections + attention + feed_forward,
        "scores": B * kept * L * S,
        "weights": 4 * E * kept * head_size + 2 * E * ffn * len(heads),
    }


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

    Raises:
        ValueError: if the shapes do not fit together.

    Source: Sze et al. 2020, chapter 8.
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
    _check_positive(stride=stride)
    for size, kernel in zip(x.shape[2:], weight.shape[2:], strict=True):
        _output_size(size, kernel, stride, padding)
    return int(F.conv2d(of_x, of_weight, stride=stride, padding=padding).sum())


# ------------------------------------------------------------------ checks of arguments
def _check_positive(**sizes: int) -> None:
    for name, size in sizes.items():
        if size < 1:
            raise ValueError(f"{name} must be at least 1, got {size}")


def _output_size(size: int, kernel: int, stride: int, padding: int) -> int:
    if padding < 0:
        raise ValueError(f"padding must be at least 0, got {padding}")
    if size + 2 * padding < kernel:
        raise ValueError(
            f"the kernel ({kernel}) is larger than the padded input ({size} + 2·{padding})"
        )
    return (size + 2 * padding - kernel) // stride + 1
