"""A random gate that is exactly 0 or exactly 1 most of the time: drawn, stretched, cut."""

from __future__ import annotations

import matplotlib as mpl
import torch
from matplotlib.figure import Figure

from course_lib.pruning.components.hard_concrete import BETA, GAMMA, ZETA
from course_lib.show.output import alt, new_figure
from course_lib.show.style import BLUE, INK, ORANGE, pt, style

_BARS = 24  # of (γ, ζ): 0 and 1 are edges of bars


def stretched_and_cut(log_alpha: float) -> Figure:
    """The hard concrete distribution in three steps: s in (0, 1); stretched to
    (−0.1, 1.1); what lies beyond 0 and 1 cut, and gathered there.

    The bars are exact probabilities, all three times of the same share of the draws.

    Args:
        log_alpha: of the gate; β is 2/3.
    """
    edge = torch.linspace(0, 1, _BARS + 1, dtype=torch.float64)
    # P(s ≤ edge): s = σ((L + log α)/β) with L logistic
    below = (BETA * edge.logit() - log_alpha).sigmoid()
    share = below.diff()  # (bars,)
    stretched = edge * (ZETA - GAMMA) + GAMMA
    middle = (stretched[1:] + stretched[:-1]) / 2
    inside = (middle > 0) & (middle < 1)
    zero, one = float(share[middle < 0].sum()), float(share[middle > 1].sum())
    with mpl.rc_context(style()):
        fig = new_figure(2.6)
        panels = fig.subplots(1, 3, sharey=True)
        for ax, edges, title in zip(
            panels,
            (edge, stretched, stretched),
            ("s", f"stretched to {GAMMA:g} … {ZETA:g}".replace("-", "−"), "cut: the gate g"),
            strict=True,
        ):
            wide = edges.diff()
            if ax is panels[2]:
                ax.bar(middle[inside], share[inside], wide[inside] * 0.9, color=BLUE)
                ax.bar([0, 1], [zero, one], float(wide[0]) * 0.9, color=ORANGE)
            else:
                colours = [BLUE if within or ax is panels[0] else ORANGE for within in inside]
                ax.bar((edges[1:] + edges[:-1]) / 2, share, wide * 0.9, color=colours)
            ax.set(xlim=(GAMMA - 0.05, ZETA + 0.05), xticks=[0, 1], yticks=[])
            ax.set_title(title, fontsize=pt(12), fontweight="normal", loc="center")
            ax.tick_params(labelsize=pt(12))
            ax.grid(visible=False)
            ax.spines["left"].set_visible(False)
        panels[0].set_ylim(0, 1.25 * max(zero, one, float(share.max())))
        for place, value in ((0, zero), (1, one)):
            text = f"{100 * value:.0f} %"
            panels[2].text(place, value, text, ha="center", va="bottom", fontsize=pt(12), color=INK)
    return alt(
        fig,
        f"A hard concrete gate with log α = {log_alpha:g}: s between 0 and 1, the same stretched"
        f" beyond both ends, and cut: then {100 * zero:.0f} % of the draws are exactly 0,"
        f" {100 * one:.0f} % exactly 1, and {100 * (1 - zero - one):.0f} % between.",
    )
