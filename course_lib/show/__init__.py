"""Figures with an interval, a random control and a text alternative; explorers with
sliders and switches.
"""

from course_lib.show.plots import (
    COLOURS,
    LOOKS,
    Look,
    alt,
    bars,
    curves,
    frontier,
    grid,
    heat_map,
    histogram_before_after,
    interval,
    remaining_axis,
    save,
    scatter,
    show,
    sparsity_axis,
    use_style,
)
from course_lib.show.widgets import Explorer, choice, explorer, slider, switches

__all__ = [
    "COLOURS",
    "LOOKS",
    "Explorer",
    "Look",
    "alt",
    "bars",
    "choice",
    "curves",
    "explorer",
    "frontier",
    "grid",
    "heat_map",
    "histogram_before_after",
    "interval",
    "remaining_axis",
    "save",
    "scatter",
    "show",
    "slider",
    "sparsity_axis",
    "switches",
    "use_style",
]
