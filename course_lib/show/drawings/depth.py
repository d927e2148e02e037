"""A pile of layers of which some are left out."""

from __future__ import annotations

from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from course_lib.show.drawings.canvas import arrow, canvas, write
from course_lib.show.output import alt
from course_lib.show.style import GREY, INK, SKY

_STEPS = {
    "one step": (True, True, False, True),
    "the next": (False, True, False, True),
    "half, for use": (True, False, True, False),
}
_WIDE, _GAP, _LEFT = 3.3, 1.0, 6.6  # of a layer, between two, of the first


def layers_skipped() -> Figure:
    """LayerDrop: two steps of training in which some of four layers are skipped, and the
    same network cut to half of its depth.
    """
    fig, ax = canvas(24, 2.1 * len(_STEPS))
    for row, (name, runs) in enumerate(_STEPS.items()):
        y = 0.4 + 2.1 * row
        write(ax, 0.2, y + 0.65, name, ha="left")
        arrow(ax, (5.2, y + 0.65), (23.8, y + 0.65))
        for layer, here in enumerate(runs):
            x = _LEFT + layer * (_WIDE + _GAP)
            if here:
                ax.add_patch(Rectangle((x, y), _WIDE, 1.3, facecolor=SKY, edgecolor=INK, zorder=3))
                write(ax, x + _WIDE / 2, y + 0.67, f"layer {layer}", zorder=4)
            else:
                ax.add_patch(
                    Rectangle((x, y), _WIDE, 1.3, facecolor="none", edgecolor=GREY, linestyle="--")
                )
    said = "; ".join(
        f"{name}: {', '.join(str(layer) for layer, here in enumerate(runs) if here)}"
        for name, runs in _STEPS.items()
    )
    return alt(
        fig,
        "A network of four layers in two steps of training and, cut to half of its depth, in use."
        f" Layers that run, {said}. The others let their input through.",
    )
