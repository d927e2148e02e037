"""An explorer in the page, driven by the keyboard alone through the whole range of its
controls.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PICTURES = Path(__file__).parents[2] / "build" / "browser"  # what the page looked like, to look at
PAGE = 5  # steps that a page key moves a slider
CONTROLS = ".noUi-handle, .widget-toggle-buttons button, .widget-text input, .widget-checkbox input"
STOPS = 2  # places between the ends of a slider at which we wait for number and figure


@dataclass(frozen=True)
class State:
    """What an explorer shows: the figure, and its text alternative."""

    picture: str
    alt: str


class Explorer:
    """The explorer number ``index`` of a notebook that has run."""

    def __init__(self, notebook: Any, index: int) -> None:
        self.page = notebook.page
        self.box = self.page.locator(".course-explorer").nth(index)
        self.box.scroll_into_view_if_needed()
        # what controls have told the kernel and it has not yet dealt with
        self.page.evaluate("""() => {
            const told = window.courseTold = new Set();
            jupyterapp.shell.currentWidget.sessionContext.session.kernel.anyMessage.connect((_, {msg, direction}) => {
                if (direction === 'send' && msg.header.msg_type === 'comm_msg') told.add(msg.header.msg_id);
                if (msg.header.msg_type === 'status' && msg.content.execution_state === 'idle')
                    told.delete(msg.parent_header.msg_id);
            });
        }""")

    def controls(self) -> list[Any]:
        """What the keyboard can move, in the order of the page."""
        return self.box.locator(CONTROLS).all()

    def tabs(self) -> int:
        """How many controls the Tab key comes by, from the first one on."""
        controls = self.controls()
        controls[0].focus()
        met = 1
        for control in controls[1:]:
            # a slider's value in figures, which can be typed over, lies in between
            for _ in range(3):
                self.page.keyboard.press("Tab")
                if control.evaluate("element => element === document.activeElement"):
                    met += 1
                    break
        return met

    def press(self, key: str, times: int = 1) -> None:
        for _ in range(times):
            self.page.keyboard.press(key)

    def walk(self, steps: int, page: str, arrow: str) -> None:
        """So many steps of a slider: by the page keys, and what is left by the arrows."""
        self.press(page, steps // PAGE)
        self.press(arrow, steps % PAGE)

    def state(self) -> State:
        """What is shown now.

        Raises:
            AssertionError: with the traceback, where it shows one.
        """
        error = self.box.locator("[data-mime-type$='stderr'], [data-mime-type$='error']")
        assert error.count() == 0, error.first.inner_text()
        figure = self.box.locator("img.course-plot")
        return State(figure.get_attribute("src") or "", figure.get_attribute("alt") or "")

    def settled(self, seconds: float = 60) -> State:
        """What is shown once the kernel has dealt with everything that the controls
        told it.
        """
        script = """async ([box, seconds]) => {
            const turn = () => new Promise((done) => setTimeout(done, 15)); // no frame drawn for it
            const end = performance.now() + seconds * 1000;
            for (let quiet = 0; quiet < 3; ) {  // what a control kept back while the kernel was busy is told only then
                if (performance.now() > end) return false;
                await turn();
                quiet = window.courseTold.size ? 0 : quiet + 1;
            }
            await box.querySelector('img.course-plot')?.decode();
            await turn();
            return true;
        }"""
        assert self.page.evaluate(script, [self.box.element_handle(), seconds]), (
            f"it did not settle in {seconds} s"
        )
        return self.state()

    def photograph(self, name: str) -> None:
        """Keep a picture of the page, the explorer's lower end in view."""
        PICTURES.mkdir(parents=True, exist_ok=True)
        self.box.evaluate("box => box.scrollIntoView({block: 'end'})")
        self.page.screenshot(path=PICTURES / f"{name}.png")

    def drive(self, control: Any) -> Iterator[tuple[str, State]]:
        """Move a control through its whole range and back to where it was: (what it
        says, what is shown) at each stop.
        """
        kind = control.evaluate("element => element.type ?? 'slider'")
        ways = {"submit": self._press, "button": self._press, "checkbox": self._check}
        yield from ways.get(kind, self._write if kind == "text" else self._slide)(control)

    def _slide(self, handle: Any) -> Iterator[tuple[str, State]]:
        figures = handle.locator("xpath=ancestor::*[contains(@class, 'widget-slider')]").locator(
            ".widget-readout"
        )

        def at() -> float:
            return float(figures.inner_text().replace("\u2212", "-"))

        begin = at()
        handle.focus()
        self.press("End")
        high = at()
        self.press("Home")
        low = at()
        assert low < high, "Home and End go to the ends"
        yield f"{low:g}", self.settled()
        self.press("ArrowRight")
        step = at() - low
        assert step > 0, "an arrow key moves the slider by a step"
        steps = round((high - low) / step)
        done = 1
        for stop in range(1, STOPS + 2):
            to = max(1, round(steps * stop / (STOPS + 1)))
            self.walk(to - done, "PageUp", "ArrowRight")
            done = to
            yield f"{at():g}", self.settled()
        assert abs(at() - high) < step / 2, "the keys reach the right end"
        self.walk(round((high - begin) / step), "PageDown", "ArrowLeft")
        assert abs(at() - begin) < step / 2, "the keys lead back"

    def _press(self, button: Any) -> Iterator[tuple[str, State]]:
        """One of a choice's buttons; then the one that was pressed before."""
        row = button.locator("xpath=..").locator("button").all()
        before = next(one for one in row if "mod-active" in one.get_attribute("class"))
        button.focus()
        self.press("Space")
        shown = self.settled()
        assert "mod-active" in button.get_attribute("class"), "the space bar presses a button"
        yield button.inner_text(), shown
        before.focus()
        self.press("Space")

    def _check(self, box: Any) -> Iterator[tuple[str, State]]:
        box.focus()
        self.press("Space")
        yield "checked", self.settled()
        self.press("Space")

    def _write(self, field: Any) -> Iterator[tuple[str, State]]:
        """Two heads, in the only explorer that is written to (lab 07)."""
        field.focus()
        for text in ("1.1 2.3", ""):
            field.fill(text)
            self.press("Enter")
            if text:
                yield text, self.settled()
