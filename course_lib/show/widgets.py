"""Explorers: sliders, choices and switches, all for the keyboard, above a number and a
figure that follow them.

Where no kernel runs (a web page, a notebook just opened) a picture of the first state
stands in their place.
"""

from __future__ import annotations

import hashlib
import html
import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import ipywidgets
import traitlets
from matplotlib.figure import Figure

from course_lib.show import output
from course_lib.show.style import VERMILLION


def slider(min: float, max: float, step: float, value: float, label: str) -> ipywidgets.Widget:
    """A slider from ``min`` to ``max``; the arrow keys move it by ``step``. Whole
    numbers if all four are ints. The label says what it changes, with its unit.
    """
    if all(isinstance(number, int) for number in (min, max, step, value)):
        control = ipywidgets.IntSlider(value, min, max, step)
    else:
        decimals = len(f"{step:.9f}".rstrip("0").split(".")[1])
        control = ipywidgets.FloatSlider(
            value, min=min, max=max, step=step, readout_format=f".{decimals}f"
        )
    control.description = label
    return control


class Choice(ipywidgets.HBox, ipywidgets.ValueWidget):
    """A row of buttons, one for each option, of which one is pressed.

    Buttons, since in JupyterLab the arrow keys and the space bar never reach a
    drop-down list or radio buttons: its notebook takes them for itself. Tab goes from
    button to button, the space bar presses one.

    Args:
        options: the values, or {what is shown: value}.
        value: the one chosen at first; default: the first.
        label: what is chosen; default: the name of the argument of ``update``.

    Attributes:
        value: of the option chosen; setting it moves the buttons.
        options: (what is shown, value) of each. buttons: in the order of the options.
    """

    value = traitlets.Any()
    description = traitlets.Unicode()

    def __init__(
        self, options: Sequence[Any] | Mapping[str, Any], value: Any = None, label: str = ""
    ) -> None:
        if not isinstance(options, Mapping):
            options = {str(option): option for option in options}
        self.options = tuple(options.items())
        value = self.options[0][1] if value is None else value
        self.buttons = [
            ipywidgets.ToggleButton(layout=ipywidgets.Layout(width="auto", margin="1px"))
            for _ in self.options
        ]
        self.name = ipywidgets.Label(label)
        row = ipywidgets.Box(self.buttons, layout=ipywidgets.Layout(flex_flow="row wrap"))
        super().__init__([self.name, row], value=value, description=label)
        for button in self.buttons:
            button.observe(self._on_press, names="value")
        self.observe(self._label_buttons, names=["value", "description"])
        self._label_buttons()

    @traitlets.validate("value")
    def _check(self, proposal: Any) -> Any:
        values = [value for _, value in self.options]
        if proposal["value"] not in values:
            raise traitlets.TraitError(f"{proposal['value']!r} is not among the options {values}")
        return proposal["value"]

    def _on_press(self, change: Any) -> None:
        chosen = self.options[self.buttons.index(change["owner"])][1]
        if change["new"]:
            self.value = chosen
        self._label_buttons()  # the one chosen stays pressed when it is pressed again

    def _label_buttons(self, _: Any = None) -> None:
        self.name.value = self.description
        for button, (shown, value) in zip(self.buttons, self.options, strict=True):
            on = value == self.value
            button.value = on
            button.description = f"{'●' if on else '○'} {shown}"  # colour is never the only sign
            button.tooltip = f"{self.description}: {shown}"


class Switches(ipywidgets.VBox, ipywidgets.ValueWidget):
    """A grid of buttons, each on or off.

    Args:
        names: what each button stands for, row by row, for those who hear or hover over
            it; a button shows its number.
        label: what is switched.
        value: which are on at first, True = on; default: all.

    Attributes:
        value: a tuple of rows, each a tuple of bools, True = on; setting it moves the
            buttons.
        buttons: the buttons, row by row.
    """

    value = traitlets.Tuple()
    description = traitlets.Unicode()

    def __init__(
        self, names: Sequence[Sequence[str]], label: str, value: Sequence[Sequence[bool]] = ()
    ) -> None:
        self._moving = False
        value = value or [[True] * len(row) for row in names]
        self.buttons = [
            [
                ipywidgets.ToggleButton(
                    bool(on), tooltip=name, layout=ipywidgets.Layout(width="3.4em", margin="1px")
                )
                for name, on in zip(row, row_value, strict=True)
            ]
            for row, row_value in zip(names, value, strict=True)
        ]
        rows = [
            ipywidgets.HBox(
                [ipywidgets.Label(f"{i + 1}", layout=ipywidgets.Layout(width="1.5em")), *row]
            )
            for i, row in enumerate(self.buttons)
        ]
        super().__init__(
            [ipywidgets.Label(label), *rows],
            value=tuple(tuple(bool(on) for on in row) for row in value),
            description=label,
        )
        for row in self.buttons:
            for button in row:
                button.observe(self._on_press, names="value")
        self.observe(self._move_buttons, names="value")
        self._label_buttons()

    def _on_press(self, _: Any) -> None:
        if not self._moving:
            self.value = tuple(tuple(button.value for button in row) for row in self.buttons)

    def _move_buttons(self, _: Any) -> None:
        # or each button moved would tell of a grid that is neither the old one nor the
        # new
        self._moving = True
        for row, values in zip(self.buttons, self.value, strict=True):
            for button, on in zip(row, values, strict=True):
                button.value = bool(on)
        self._moving = False
        self._label_buttons()

    def _label_buttons(self) -> None:
        for row in self.buttons:
            for j, button in enumerate(row):
                # colour is never the only sign
                button.description = f"{'✓' if button.value else '✗'} {j + 1}"


class Explorer:
    """Controls above a number and a figure that follow them; a picture of the first
    state where no kernel runs. A notebook shows it where it is the last thing in a cell.

    An error while a control is moved is told in the place of the number, with its
    traceback folded away.

    Args:
        update: is called with the values of the controls by name; returns the number as
            a short text, and the figure.
        alt: what the figures show; the number is added to it. Not needed where
            ``update`` returns ``alt(fig, "...")``.
        controls: ``slider(...)``, ``choice(...)`` and ``switches(...)`` under the names
            of ``update``'s arguments.

    Attributes:
        controls: by name; setting ``.value`` moves one.
        number, figure: the HTML widgets that hold what ``update`` returned last.
        box: everything together.
        error: what ``update`` raised last, or None.

    Raises:
        ValueError: if the first figure has no text alternative.
        Exception: whatever ``update`` raises in its first call.
    """

    def __init__(
        self,
        update: Callable[..., tuple[str, Figure]],
        /,
        *,
        alt: str | None = None,
        **controls: ipywidgets.Widget,
    ) -> None:
        self.update, self.controls, self.alt = update, controls, alt
        self.error: Exception | None = None
        for name, control in controls.items():
            control.description = control.description or name.replace("_", " ")
        self.number, self.figure = ipywidgets.HTML(), ipywidgets.HTML()
        # The first call's errors are the caller's: raised here, so that a lab that is
        # not finished says so and a broken one does not pass for a running one.
        self._first = self._draw()
        self._lay_out()
        for control in self.controls.values():
            control.observe(self._redraw, names="value")

    @property
    def values(self) -> dict[str, Any]:
        """What the controls say, by name; a slider's 0.30000000000000004 is 0.3."""
        return {
            name: round(control.value, 9) if isinstance(control.value, float) else control.value
            for name, control in self.controls.items()
        }

    def _draw(self) -> tuple[str, dict[str, Any], dict[str, Any]]:
        number, fig = self.update(**self.values)
        try:
            if self.alt and not hasattr(fig, "course_alt"):
                output.alt(fig, f"{self.alt} {number}")
            data, metadata = output.mimebundle(fig, output.alt_of(fig), "course-picture")
        finally:
            output.close(fig)
        self.number.value = (
            f'<div role="status" style="font-size: 1.25em">{html.escape(number)}</div>'
        )
        self.figure.value = data["text/html"]
        return number, data, metadata

    def _redraw(self, _: Any) -> None:
        try:
            self._draw()
            self.error = None
        except Exception as error:  # noqa: BLE001 - whatever it is, the reader is told
            self.error = error
            state = ", ".join(f"{name} = {value!r}" for name, value in self.values.items())
            message = f"With {state} there is no figure: {type(error).__name__}: {error}"
            trace = "".join(traceback.format_exception(error))
            self.number.value = (
                '<div role="alert" class="course-error" style="border-left: 4px solid'
                f" {VERMILLION}; padding-left:"
                f' 0.6em">{html.escape(message)}</div><details><summary>Where it'
                f" happened</summary><pre>{html.escape(trace)}</pre></details>"
            )
            self.figure.value = ""

    def _lay_out(self) -> None:
        lines = [control for control in self.controls.values() if not isinstance(control, Switches)]
        longest = max((len(control.description) for control in lines), default=0)
        width = f"{0.55 * min(longest, 40) + 1:.1f}em"
        for control in lines:
            if isinstance(control, Choice):
                control.name.layout = ipywidgets.Layout(
                    width=width, flex="0 0 auto", justify_content="flex-end", margin="0 8px 0 0"
                )
                continue
            control.tooltip = control.description  # without one, the label's is the word "null"
            control.style.description_width = width
            control.layout.width = "min(42em, 98%)"
        _, data, _ = self._first
        # The picture for pages without a kernel is an output of its own, beside the
        # controls. This class is its picture's fingerprint, so that an unchanged
        # notebook executed again is the same file; the style sheet that hides it is a
        # widget, so it is there exactly where the controls are.
        self._fallback = (
            "course-fallback-" + hashlib.sha256(data["text/html"].encode()).hexdigest()[:12]
        )
        hide = ipywidgets.HTML(f"<style>.{self._fallback} {{ display: none }}</style>")
        hide.layout.display = "none"
        self.box = ipywidgets.VBox([*self.controls.values(), self.number, self.figure, hide])
        for widget, name in (
            (self.box, "explorer"),
            (self.number, "number"),
            (self.figure, "figure"),
        ):
            widget.add_class(f"course-{name}")

    def _ipython_display_(self) -> None:
        labels = ", ".join(control.description for control in self.controls.values())
        live = dict(self.box._repr_mimebundle_())
        live["text/plain"] = f"In a running notebook this cell has controls for: {labels}."
        output.display_bundle(live)
        output.display_bundle(*self.fallback())

    def fallback(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """The first state as a picture with its number: (data, metadata) of a notebook
        output.
        """
        number, data, metadata = self._first
        text = f"{number}\n{data['text/plain']}"
        page = (
            '<div class="course-fallback'
            f' {self._fallback}"><p>{html.escape(number)}</p>{data["text/html"]}</div>'
        )
        return {**data, "text/html": page, "text/plain": text}, metadata


# the names that notebooks call
choice, switches, explorer = Choice, Switches, Explorer
