"""Explorers follow their controls, tell errors, and leave a picture where nothing
runs.
"""

import re
from pathlib import Path

import ipywidgets
import pytest
import traitlets
from matplotlib.figure import Figure

from course_lib.show.output import alt
from course_lib.show.widgets import choice, explorer, slider, switches

calls = []


def update(p, kind="weights"):
    calls.append((p, kind))
    if p == 0.5:
        raise ZeroDivisionError("half of <nothing>")
    fig = Figure(figsize=(4, 3))
    fig.add_subplot().plot([0, p], label=kind)
    return f"{100 * p:.0f} % of {kind}", fig


def make(**more):
    return explorer(
        update,
        alt="A line up to p.",
        p=slider(0.0, 1.0, 0.1, 0.3, "sparsity p"),
        kind=choice(["weights", "inputs"]),
        **more,
    )


def test_number_and_figure_follow_a_slider_and_a_choice():
    view = make()
    assert "30 % of weights" in view.number.value
    first = view.figure.value
    assert 'alt="A line up to p. 30 % of weights"' in first
    view.controls["p"].value = 0.8
    assert "80 % of weights" in view.number.value
    assert 'alt="A line up to p. 80 % of weights"' in view.figure.value
    assert view.figure.value.count("<img") == 1  # replaced, not stacked
    assert _picture(view.figure.value) != _picture(first)
    view.controls["kind"].value = "inputs"
    assert "80 % of inputs" in view.number.value


def _picture(html: str) -> str:
    (source,) = re.findall(r'src="([^"]*)"', html)
    return source


def test_update_gets_the_numbers_on_the_sliders_not_their_rounding_errors():
    view = make()
    view.controls["p"].value = 0.1 + 0.2
    assert view.values == {"p": 0.3, "kind": "weights"}
    assert calls[-1] == (0.3, "weights")


def test_an_error_is_told_in_a_sentence_and_gone_when_the_slider_moves_on():
    view = make()
    view.controls["p"].value = 0.5
    assert isinstance(view.error, ZeroDivisionError)
    told = view.number.value
    assert (
        "With p = 0.5, kind = &#x27;weights&#x27; there is no figure: ZeroDivisionError: half of &lt;nothing&gt;"
        in told
    )
    assert 'role="alert"' in told and Path(__file__).name in told  # the traceback, folded away
    assert view.figure.value == ""  # not the figure of another state
    view.controls["p"].value = 0.6
    assert view.error is None
    assert "60 % of weights" in view.number.value and "<img" in view.figure.value


def test_an_error_in_the_first_call_is_raised():
    with pytest.raises(ZeroDivisionError):
        explorer(update, alt="A line up to p.", p=slider(0.0, 1.0, 0.1, 0.5, "p"))


def test_the_classes_that_browser_tests_look_for_are_there():
    view = make()
    assert "course-explorer" in view.box._dom_classes
    assert "course-number" in view.number._dom_classes
    assert "course-figure" in view.figure._dom_classes
    assert view.number in view.box.children and view.figure in view.box.children


def test_every_control_has_a_label_wide_enough_to_read():
    view = make()
    assert view.controls["p"].description == "sparsity p"
    assert view.controls["kind"].description == "kind"  # by its argument's name
    assert view.controls["p"].tooltip == "sparsity p"
    for width in (
        view.controls["p"].style.description_width,
        view.controls["kind"].name.layout.width,
    ):
        assert float(width.removesuffix("em")) >= 5


def test_displayed_it_leaves_the_controls_and_a_picture_with_words(shown):
    view = make()
    view._ipython_display_()
    (live, _), (still, metadata) = shown
    assert live["application/vnd.jupyter.widget-view+json"]["model_id"] == view.box.model_id
    assert (
        live["text/plain"] == "In a running notebook this cell has controls for: sparsity p, kind."
    )
    assert set(still) == {"text/html", "image/png", "text/plain"}
    assert still["text/plain"] == "30 % of weights\nA line up to p. 30 % of weights"
    assert metadata["image/png"]["alt"] == "A line up to p. 30 % of weights"
    assert 'alt="A line up to p. 30 % of weights"' in still["text/html"]


def test_the_picture_is_hidden_exactly_where_the_controls_are_live(shown):
    view = make()
    view._ipython_display_()
    (name,) = re.findall(r'class="course-fallback (course-fallback-\w+)"', shown[1][0]["text/html"])
    styles = [child.value for child in view.box.children if "<style>" in str(child.value)]
    assert styles == [f"<style>.{name} {{ display: none }}</style>"]
    assert make().fallback() == view.fallback()  # executed again, the notebook is the same
    for stable in ("course-number", "course-figure"):
        # a browser test finds one of each, the live one
        assert stable not in shown[1][0]["text/html"]


def test_in_plain_python_it_prints(capsys):
    make()._ipython_display_()
    assert "30 % of weights" in capsys.readouterr().out


def test_the_figures_own_words_come_first_and_missing_ones_are_asked_for():
    def described(p):
        text, fig = update(p)
        return text, alt(fig, f"A line that ends at {p}.")

    view = explorer(described, p=slider(0.0, 1.0, 0.1, 0.3, "p"))
    assert 'alt="A line that ends at 0.3."' in view.figure.value
    with pytest.raises(ValueError, match="text alternative"):
        explorer(update, p=slider(0.0, 1.0, 0.1, 0.3, "p"))


def test_no_figure_stays_open():
    import matplotlib.pyplot as plt

    def opened(p):
        fig, ax = plt.subplots()
        ax.plot([0, p])
        return f"{p}", fig

    before = plt.get_fignums()
    view = explorer(opened, alt="A line up to p.", p=slider(0, 9, 1, 3, "p"))
    for value in (4, 5, 6):
        view.controls["p"].value = value
    assert plt.get_fignums() == before


def test_sliders_are_whole_or_fractional_by_their_numbers():
    assert isinstance(slider(0, 9, 1, 3, "p"), ipywidgets.IntSlider)
    fine = slider(0, 1, 0.05, 0.5, "p")
    assert isinstance(fine, ipywidgets.FloatSlider) and fine.readout_format == ".2f"


def test_choices_show_text_and_give_values():
    control = choice({"a bitmap": "bitmap", "pairs": "coo"}, value="coo", label="format")
    assert (control.value, control.description) == ("coo", "format")
    assert choice([4, 8]).value == 4
    with pytest.raises(traitlets.TraitError, match="not among the options"):
        choice([4, 8], value=5)


def test_of_a_choice_one_button_is_pressed_and_says_so():
    control = choice({"a bitmap": "bitmap", "pairs": "coo"}, label="format")
    assert [(b.value, b.description) for b in control.buttons] == [
        (True, "● a bitmap"),
        (False, "○ pairs"),
    ]
    control.buttons[1].value = True
    assert (control.value, [b.value for b in control.buttons]) == ("coo", [False, True])
    control.buttons[1].value = False  # pressed again
    assert (control.value, control.buttons[1].value) == ("coo", True)
    control.value = "bitmap"
    assert [b.description for b in control.buttons] == ["● a bitmap", "○ pairs"]
    assert control.buttons[0].tooltip == "format: a bitmap"
    with pytest.raises(traitlets.TraitError, match="not among the options"):
        control.value = "csr"


def test_a_choice_moves_the_figure_once():
    view = make()
    calls.clear()
    view.controls["kind"].buttons[1].value = True
    assert calls == [(0.3, "inputs")]


NAMES = [["a", "b", "c"], ["d", "e"]]


def test_number_and_figure_follow_a_switch():
    def update(on):
        fig = Figure(figsize=(4, 3))
        fig.add_subplot().plot([0, sum(map(sum, on))])
        return f"{sum(map(sum, on))} are on", fig

    view = explorer(update, alt="A line up to what is on.", on=switches(NAMES, "which are on"))
    assert "5 are on" in view.number.value
    grid = view.controls["on"]
    first = _picture(view.figure.value)
    grid.buttons[0][1].value = False
    assert grid.value == ((True, False, True), (True, True))
    assert "4 are on" in view.number.value
    assert _picture(view.figure.value) != first
    assert [button.description for button in grid.buttons[0]] == ["✓ 1", "✗ 2", "✓ 3"], (
        "colour is not the only sign"
    )
    assert grid.buttons[0][1].tooltip == "b"


def test_switches_are_set_together():
    told = []
    grid = switches(NAMES, "which are on", [[True, False, True], [False, False]])
    assert grid.value == ((True, False, True), (False, False))
    grid.observe(lambda change: told.append(change["new"]), names="value")
    grid.value = ((False, True, False), (True, True))
    assert [[button.value for button in row] for row in grid.buttons] == [
        [False, True, False],
        [True, True],
    ]
    assert told == [((False, True, False), (True, True))], "one change, not one for each button"
