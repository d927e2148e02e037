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
STOPS = 2  # places between the ends of a slider at which we wait for number and figure


@dataclass(frozen=True)
class State:
    """What an explorer shows: the number, the figure, its text alternative."""

    number: str
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
        return self.box.locator(".noUi-handle, button.jupyter-button").all()

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
            AssertionError: with the explorer's own words, where it shows an error.
        """
        error = self.box.locator(".course-error")
        assert error.count() == 0, error.first.inner_text()
        number, figure = self.box.locator(".course-number"), self.box.locator(".course-figure img")
        return State(
            number.inner_text(),
            figure.get_attribute("src") or "",
            figure.get_attribute("alt") or "",
        )

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
            await box.querySelector('.course-figure img')?.decode();
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
        button = control.evaluate("element => element.tagName === 'BUTTON'")
        yield from self._press(control) if button else self._slide(control)

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
        before = next(one for one in row if one.inner_text().startswith("●"))
        button.focus()
        self.press("Space")
        shown = self.settled()
        assert button.inner_text().startswith("●"), "the space bar presses a button"
        yield button.inner_text(), shown
        before.focus()
        self.press("Space")

    def throw(self, switches: list[Any]) -> Iterator[State]:
        """Throw these switches, one after the other, with a look at every eighth and
        after the last.
        """
        for number, switch in enumerate(switches, start=1):
            before = switch.inner_text()
            switch.focus()
            self.press("Space")
            if number % 8 == 0 or number == len(switches):
                shown = self.settled()
                assert switch.inner_text() != before, "the space bar throws a switch"
                yield shown
