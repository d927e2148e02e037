"""Explorers: sliders and choices above a number and a figure that follow them, with a picture where no kernel runs."""

from __future__ import annotations

import html
import itertools
import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import ipywidgets
from matplotlib.figure import Figure

from course_lib.show import plots

_ids = itertools.count(1)


def slider(min: float, max: float, step: float, value: float, label: str) -> ipywidgets.Widget:
    """A slider from ``min`` to ``max``; whole numbers if all four are ints. Arrow keys move it by ``step``.

    Raises:
        ValueError: if ``value`` is outside the range, or the label is empty.
    """
    if not min <= value <= max:
        raise ValueError(f"slider {label!r}: value {value} is outside [{min}, {max}]")
    whole = all(isinstance(v, int) for v in (min, max, step, value))
    kind = ipywidgets.IntSlider if whole else ipywidgets.FloatSlider
    extra = {} if whole else {"readout_format": f".{_decimals(step)}f"}
    return _labelled(kind(value=value, min=min, max=max, step=step, **extra), label)


def choice(options: Sequence[Any] | Mapping[str, Any], value: Any = None, label: str = "") -> ipywidgets.Widget:
    """A drop-down list of ``options`` (a list, or shown text -> value); the first is chosen unless ``value`` says."""
    pairs = list(options.items()) if isinstance(options, Mapping) else [(str(o), o) for o in options]
    if not pairs:
        raise ValueError("choice needs at least one option")
    return _labelled(ipywidgets.Dropdown(options=pairs, value=pairs[0][1] if value is None else value), label)


def _decimals(step: float) -> int:
    text = f"{step:.10f}".rstrip("0")
    return len(text.split(".")[1])


def _labelled(widget: ipywidgets.Widget, label: str) -> ipywidgets.Widget:
    widget.description = label
    widget.style.description_width = "12em"
    widget.layout.width = "min(36em, 100%)"
    return widget


class Explorer:
    """What ``explorer`` returns: ``controls`` by name, ``number`` and ``figure`` (the HTML widgets), ``box``, ``error``."""

    def __init__(
        self, update: Callable[..., tuple[str, Figure]], controls: dict[str, ipywidgets.Widget], alt: str | None
    ) -> None:
        self.update, self.controls, self._alt = update, controls, alt
        self.error: Exception | None = None
        self.id = f"course-fallback-{next(_ids)}"
        self.number = ipywidgets.HTML()
        self.number.add_class("course-number")
        self.figure = ipywidgets.HTML()
        self.figure.add_class("course-figure")
        self.box = ipywidgets.VBox([*controls.values(), self.number, self.figure])
        self.box.add_class("course-explorer")
        for control in controls.values():
            control.observe(self._changed, names="value")
        self._fallback = self._render()  # an error in the first call is the caller's: it is raised, not shown

    @property
    def values(self) -> dict[str, Any]:
        """The controls' values by name."""
        return {name: control.value for name, control in self.controls.items()}

    def _render(self) -> tuple[dict[str, Any], dict[str, Any]]:
        number, fig = self.update(**self.values)
        text = getattr(fig, "course_alt", None) or (f"{self._alt} {number}" if self._alt else None)
        text = plots._checked_alt(text)
        data, metadata = plots.mimebundle(fig, text)
        plots._close(fig)
        self.number.value = f'<p role="status" aria-live="polite">{html.escape(number)}</p>'
        self.figure.value = data["text/html"]
        return data, metadata

    def _changed(self, _: Any) -> None:
        try:
            self._render()
            self.error = None
        except Exception as error:  # noqa: BLE001 - shown to the reader as a sentence
            self.error = error
            at = ", ".join(f"{name} = {value!r}" for name, value in self.values.items())
            trace = "".join(traceback.format_exception(error))
            self.number.value = (
                f'<p role="alert" class="course-error">With {html.escape(at)} this stopped with '
                f"{type(error).__name__}: {html.escape(str(error))}</p>"
                f"<details><summary>Where</summary><pre>{html.escape(trace)}</pre></details>"
            )
            self.figure.value = ""

    def _ipython_display_(self) -> None:
        from IPython.display import display

        display(self.box)


def explorer(
    update: Callable[..., tuple[str, Figure]], /, *, alt: str | None = None, **controls: ipywidgets.Widget
) -> Explorer:
    """Controls above a number and a figure; both follow the controls.

    Args:
        update: called with the controls' values by name, returns (the number as a short text, the figure).
        alt: what the figure shows, for readers who cannot see it; the number's text is put behind it. Not needed
            where ``update`` returns ``plots.alt(fig, "...")``.
        controls: ``slider(...)`` and ``choice(...)`` by the names of ``update``'s parameters.
    """
    return Explorer(update, controls, alt)
