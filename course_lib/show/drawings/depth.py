"""A pile of layers of which some are left out."""

from __future__ import annotations

from matplotlib.figure import Figure

from course_lib.show.drawings.canvas import arrow, box, canvas, write
from course_lib.show.output import alt
from course_lib.show.style import GREY, SKY

_STEPS = {  # the layers that run
    "one step": (0, 1, 3),
    "the next": (1, 3),
    "half, for use": (0, 2),
}


def layers_skipped() -> Figure:
    """LayerDrop: two steps of training in which some of four layers are skipped, and the
    same network cut to half of its depth.
    """
    fig, ax = canvas(24, 2.1 * len(_STEPS))
    for row, (name, runs) in enumerate(_STEPS.items()):
        y = 0.4 + 2.1 * row
        write(ax, 0.2, y + 0.65, name, ha="left")
        arrow(ax, (5.2, y + 0.65), (23.8, y + 0.65))
        for layer in range(4):
            x, size = 6.6 + 4.3 * layer, (3.3, 1.3)
            if layer in runs:
                box(ax, x, y, size=size, fill=SKY, linewidth=1, zorder=3)
                write(ax, x + 1.65, y + 0.67, f"layer {layer}")
            else:
                box(ax, x, y, size=size, fill="none", edge=GREY, linewidth=1, linestyle="--")
    ran = "; ".join(f"{name}: {', '.join(map(str, runs))}" for name, runs in _STEPS.items())
    return alt(
        fig,
        "A network of four layers in two steps of training and, cut to half of its depth, in use."
        f" Layers that run, {ran}. The others let their input through.",
    )
