"""Which inputs each weight of a convolution meets, and how many of those products have
two non-zero factors.

A tap is one position of the kernel. Every weight at one tap meets the same inputs,
those that a slice of the input picks out. So a product of sums counts the products: the
non-zero weights at the tap, times the non-zero inputs in its slice.

Source: Dumoulin and Visin 2016, "A guide to convolution arithmetic for deep learning".
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

PerAxis = int | Sequence[int]  # one number for all axes, or one for each


def conv_taps(
    sizes: Sequence[int],
    kernel: Sequence[int],
    outputs: Sequence[int],
    stride: PerAxis = 1,
    left: PerAxis = 0,
    dilation: PerAxis = 1,
) -> list[list[slice]]:
    """For each axis and each tap of the kernel: the inputs that this tap is multiplied
    with, as a slice.

    Tap k of a convolution reads input e·stride + k·dilation - left for output e; what
    lies outside the input is padding. ``left`` is the padding before the first element;
    the padding at the end shows in ``outputs``.
    """
    taps = []
    for axis, (size, k, out) in enumerate(zip(sizes, kernel, outputs, strict=True)):
        step = _along(stride, axis)
        offsets = [tap * _along(dilation, axis) - _along(left, axis) for tap in range(k)]
        reads = [(offset, _inside(offset, step, out, size)) for offset in offsets]
        taps.append(
            [slice(e.start * step + offset, e.stop * step + offset, step) for offset, e in reads]
        )
    return taps


def transposed_taps(
    sizes: Sequence[int],
    kernel: Sequence[int],
    outputs: Sequence[int],
    stride: PerAxis = 1,
    padding: PerAxis = 0,
    dilation: PerAxis = 1,
) -> list[list[slice]]:
    """As ``conv_taps`` for a transposed convolution, where input h adds to output
    h·stride + k·dilation - padding.
    """
    taps = []
    for axis, (size, k, out) in enumerate(zip(sizes, kernel, outputs, strict=True)):
        offsets = [tap * _along(dilation, axis) - _along(padding, axis) for tap in range(k)]
        taps.append([_inside(offset, _along(stride, axis), size, out) for offset in offsets])
    return taps


def left_padding(padding: PerAxis | str, kernel: Sequence[int], dilation: PerAxis) -> PerAxis:
    """Padding before the first element of each axis, also where it is given as "same"
    or "valid".
    """
    if padding == "same":  # an odd one goes to the end
        return [_along(dilation, axis) * (k - 1) // 2 for axis, k in enumerate(kernel)]
    return 0 if isinstance(padding, str) else padding


def _inside(offset: int, step: int, count: int, size: int) -> slice:
    """The i in 0..count-1 with 0 <= i·step + offset < size."""
    first = max(0, -(offset // step))  # rounded up
    return slice(first, max(first, min(count, (size - 1 - offset) // step + 1)))


def _along(value: PerAxis, axis: int) -> int:
    if isinstance(value, int):
        return value
    return value[axis] if len(value) > 1 else value[0]


def sum_at_taps(counts: Tensor, taps: list[list[slice]]) -> Tensor:
    """``(C, *sizes) -> (C, *kernel)``: for every tap the sum of the counts that it meets.

    One axis after the other, so that a kernel of R x S costs R + S passes and not R·S.
    """
    for axis, slices in enumerate(taps, start=1):
        sums = [counts[(slice(None),) * axis + (s,)].sum(axis) for s in slices]
        counts = torch.stack(sums, axis)
    return counts


def hits(x: Tensor, *axes: int) -> Tensor:
    """How many elements are not zero, summed over ``axes`` (over none if none are
    given), int64.
    """
    present = x.detach() != 0
    return present.sum(axes) if axes else present.long()


def nonzeros(x: Tensor) -> int:
    """How many elements are not zero; NaN and the infinities are not."""
    return int(torch.count_nonzero(x.detach()))


def sum_of_products(a: Tensor, b: Tensor) -> int:
    """Σ a·b of two int64 tensors of one shape."""
    return int((a * b).sum())
