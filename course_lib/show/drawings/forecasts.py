"""The loss along one weight, and what its derivatives forecast at 0."""

from __future__ import annotations

from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from course_lib.show.drawings.canvas import format_number
from course_lib.show.output import alt, new_figure
from course_lib.show.style import BLACK, BLUE, INK, SLIDE_TEXT, VERMILLION, style

W, BEST, BEND = 0.8, 1.3, 0.5  # the weight, the best one, and a part of the loss


def forecast_step() -> Figure:
    """Setting a weight to 0 is a step of −w: the loss along it, and two forecasts made at
    w, by the gradient alone and with the curvature.

    The loss is (w − best)² + bend·(w − best)⁴/2: nearly a parabola, but not one.
    """
    w, best, bend = W, BEST, BEND

    def loss(at: np.ndarray | float) -> np.ndarray:
        from_best = np.asarray(at, dtype=float) - best
        return from_best**2 + bend * from_best**4 / 2

    g = 2 * (w - best) + 2 * bend * (w - best) ** 3
    h = 2 + 6 * bend * (w - best) ** 2
    here, truth = float(loss(w)), float(loss(0))
    first, second = here - g * w, here - g * w + h * w**2 / 2
    offset: dict[str, Any] = {"textcoords": "offset points", "fontsize": SLIDE_TEXT}
    with mpl.rc_context(style()):
        fig = new_figure(3.6)
        ax = fig.subplots()
        x = np.linspace(-0.12 * w, w * 1.5, 200)
        back = np.linspace(0, w, 50)
        ax.plot(x, loss(x), color=BLACK, linewidth=2.4)
        ax.plot(back, here + g * (back - w), color=VERMILLION, linestyle="--")
        ax.plot(back, here + g * (back - w) + h * (back - w) ** 2 / 2, color=BLUE, linestyle=":")
        ax.plot([w], [here], "o", color=BLACK, markersize=11)
        for value, colour, marker, text in (
            (truth, BLACK, "o", "true loss at 0"),
            (second, BLUE, "s", "−gw + ½hw²"),
            (first, VERMILLION, "^", "−gw alone"),
        ):
            ax.plot([0], [value], marker, color=colour, markersize=11, zorder=4)
            ax.annotate(
                text, (0, value), xytext=(-14, 0), **offset, ha="right", va="center", color=colour
            )
        arrow = {"arrowstyle": "-|>", "color": INK, "linewidth": 1.6}
        ax.annotate("", (0, -0.04 * truth), xytext=(w, -0.04 * truth), arrowprops=arrow)
        ax.text(w / 2, 0, "a step of −w", ha="center", va="bottom", fontsize=SLIDE_TEXT, color=INK)
        ax.annotate("g and h are computed here", (w, here), xytext=(8, 12), **offset, color=INK)
        ax.set(xticks=[0, w], yticks=[], xlim=(-0.85 * w, 2.1 * w), ylim=(-0.16 * truth, None))
        ax.set_xticklabels(["0", "w"], fontsize=SLIDE_TEXT)
        ax.set_ylabel("loss", fontsize=SLIDE_TEXT)
        ax.grid(visible=False)
    return alt(
        fig,
        f"The loss as a function of one weight w. At w it is {format_number(here)}; setting w"
        f" to 0 makes it {format_number(truth)}. The gradient at w alone forecasts"
        f" {format_number(first)}, gradient and curvature together {format_number(second)}.",
    )
