"""Plots with an interval, a random control and a text alternative; explorers that run in a notebook."""

from course_lib.show.plots import (
    COLOURS,
    alt,
    bars,
    curves,
    grid,
    heat_map,
    histogram_before_after,
    method_curves,
    remaining_axis,
    save,
    show,
    sparsity_axis,
    use_style,
)
from course_lib.show.widgets import choice, explorer, slider

__all__ = [
    "COLOURS",
    "alt",
    "bars",
    "choice",
    "curves",
    "explorer",
    "grid",
    "heat_map",
    "histogram_before_after",
    "method_curves",
    "remaining_axis",
    "save",
    "show",
    "slider",
    "sparsity_axis",
    "use_style",
]
