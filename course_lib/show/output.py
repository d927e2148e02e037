"""How a figure gets onto a page: never without its title and table for readers who
cannot see it, never left open behind; and with controls, if it has settings to play with.
"""

from __future__ import annotations

import base64
import html
import inspect
import io
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.text import Text

from course_lib.show.style import (
    BESIDE,
    INCHES,
    SLIDE_HEIGHT,
    SLIDE_INCH,
    SLIDE_TEXT,
    for_slides,
    formula,
    style,
)

_CSS_PIXELS = 100  # per inch of figure, on the page
_DPI = 150  # real pixels per inch: sharp on a laptop's screen, small in the notebook
_MAX_BYTES = 300_000


class _CourseFigure(Figure):
    """A figure that IPython displays with its text alternative where it is the last line
    of a cell.
    """

    def _ipython_display_(self) -> None:
        show(self)

    def suptitle(self, t: str, **look: Any) -> Text:
        with mpl.rc_context(style()):
            return super().suptitle(formula(t), **{"x": 0.01, "ha": "left", "wrap": True, **look})


def new_figure(height: float) -> Figure:
    """An empty figure in the course's style and width, ``height`` inches high, that
    pyplot does not know about.
    """
    height = min(height, SLIDE_HEIGHT) if for_slides() else height
    return _CourseFigure(figsize=(INCHES, height), layout="constrained", facecolor="white")


def subplots(rows: int, columns: int, height: float, **options: Any) -> tuple[Figure, Any]:
    """A figure as :func:`new_figure` makes it, and the array of its axes in the course's
    style; ``options`` are those of matplotlib's ``Figure.subplots``.
    """
    fig = new_figure(height)
    with mpl.rc_context(style()):
        return fig, fig.subplots(rows, columns, **options)


def alt_of(fig: Figure) -> str:
    """The text alternative of a figure: its title and its table, where a function of
    ``plots`` drew one; else all that is written in it, but for the ticks.

    Raises:
        ValueError: if nothing is written there.
    """
    title = fig.get_label() or fig.get_suptitle()
    table = getattr(fig, "course_table", "")
    words = table or "; ".join(filter(None, (text for ax in fig.axes for text in _words(ax))))
    text = " ".join((words if title in words else f"{title}. {words}").split())
    if len(text.split()) < 3:
        raise ValueError(
            "fig: its title is the text alternative for readers who cannot see the figure, and it"
            " has none: call fig.suptitle('The question that the figure answers')"
        )
    return text


def _words(ax: Any) -> list[str]:
    titles = [ax.get_title(loc) for loc in ("left", "center", "right")]
    legend = ax.get_legend().get_texts() if ax.get_legend() else []
    written = [text.get_text() for text in (*ax.texts, *legend)]
    return [*titles, ax.get_ylabel(), ax.get_xlabel(), *written]


def _style_of(fig: Figure) -> AbstractContextManager[Any]:
    # matplotlib reads some settings only when it draws. A figure of the reader's own
    # keeps the reader's.
    return mpl.rc_context(style()) if isinstance(fig, _CourseFigure) else nullcontext()


def png(fig: Figure) -> bytes:
    """The figure as a PNG of at most 300 kB, 1.5 pixels per CSS pixel, in 256 colours
    (a plot has few).
    """
    dpi = _DPI
    while True:
        buffer = io.BytesIO()
        with _style_of(fig):
            fig.savefig(buffer, format="png", dpi=dpi, facecolor="white")
        data = _reduce_colours(buffer)
        if len(data) <= _MAX_BYTES or dpi <= 40:
            return data
        dpi = int(dpi * 0.75)


def _reduce_colours(buffer: io.BytesIO) -> bytes:
    """The picture in 256 colours: a quarter of the bytes."""
    from PIL import Image  # comes with matplotlib

    image = Image.open(buffer).convert("RGB")
    # Maximum coverage keeps white white and colour ramps smooth, where median cut is off
    # by up to 60 of 255. But it chooses by extremes, and a pale grey may come out in the
    # green of another method's: a round of k-means moves its colours to where the pixels
    # are. It takes seconds for a picture with as many colours as a photograph.
    plot = image.getcolors(20_000) is not None
    method = Image.Quantize.MAXCOVERAGE if plot else Image.Quantize.FASTOCTREE
    small = image.quantize(256, method=method, kmeans=int(plot), dither=Image.Dither.NONE)
    small.save(buffer := io.BytesIO(), format="PNG")
    return buffer.getvalue()


def svg(fig: Figure, text: str) -> bytes:
    """The figure as an SVG with the text alternative inside, its letters as outlines, so
    that no font is needed; the same figure gives the same bytes.
    """
    buffer = io.BytesIO()
    with _style_of(fig), mpl.rc_context({"svg.hashsalt": "course"}):
        fig.savefig(buffer, format="svg", metadata={"Description": text, "Date": None})
    return buffer.getvalue()


def mimebundle(fig: Figure) -> tuple[dict[str, Any], dict[str, Any]]:
    """The figure as a notebook output: (data, metadata), with its text alternative in each
    form.

    Three forms, because no single one is enough: JupyterLab 4 and nbconvert write no
    alt attribute for image/png, so they are given text/html; a code host that does not
    show a picture inside HTML has image/png; a terminal has text/plain.
    """
    text = alt_of(fig)
    kind, raw = ("svg+xml", svg(fig, text)) if for_slides() else ("png", png(fig))
    encoded = base64.b64encode(raw).decode()
    pixels = SLIDE_INCH if for_slides() else _CSS_PIXELS
    width, height = (round(inches * pixels) for inches in fig.get_size_inches())
    # width and height hold the place while an explorer swaps pictures; decoding="sync"
    # keeps it from flashing white.
    tag = (
        f'<img class="course-plot" alt="{html.escape(text)}" width="{width}" height="{height}"'
        ' decoding="sync" style="max-width: 100%; height: auto; background: white"'
        f' src="data:image/{kind};base64,{encoded}">'
    )
    data = {"text/html": tag, "text/plain": text}
    if for_slides():  # shown by their HTML alone
        return data, {"beside": bool(fig.get_size_inches()[0] <= BESIDE)}
    metadata = {"width": width, "height": height, "alt": text, "needs_background": "light"}
    return {**data, "image/png": encoded}, {"image/png": metadata}


def _check_letters(fig: Figure) -> None:
    """Raises ValueError where the figure of a slide holds letters that cannot be read
    from the last row.
    """
    if fig.get_size_inches()[0] > INCHES:
        raise ValueError(
            f"a slide is {INCHES:g} inches wide, this figure {fig.get_size_inches()[0]:g}"
        )
    for text in fig.findobj(Text):
        size = float(text.get_fontsize())
        if text.get_visible() and text.get_text().strip() and size < SLIDE_TEXT:
            raise ValueError(
                f"{text.get_text()!r} is written in {size:g} pt: on a slide letters have at least "
                f"{SLIDE_TEXT:g} pt, so that they can be read from the last row"
            )


def close(fig: Figure) -> None:
    """Let pyplot forget the figure: left open, it would be shown once more, without alt."""
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close(fig)


def display_bundle(data: dict[str, Any], metadata: dict[str, Any] | None = None) -> None:
    """Display a MIME bundle where there is a notebook; in plain Python print its text."""
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    if shell is None:
        print(data["text/plain"])
        return
    from IPython.display import display

    display(data, metadata=metadata or {}, raw=True)


def show(fig: Figure, *, inches: tuple[float, float] | None = None) -> None:
    """Display a figure in the notebook, its title and table as the picture's HTML alt
    attribute, and close it.

    Run as a plain Python script, it prints the text alternative.

    Args:
        fig: from ``plots``, or your own.
        inches: width and height, where the figure is to have others than it has. A
            slide has room for 8 × 4 without text; what is at most 6 wide stands beside
            the text there.

    Raises:
        ValueError: if there is no title. On a slide also if letters are too small for
            the last row.
    """
    if inches is not None:
        fig.set_size_inches(inches)
    if for_slides():
        _check_letters(fig)
    data, metadata = mimebundle(fig)
    close(fig)
    display_bundle(data, metadata)


def save(fig: Figure, path: str | Path) -> Path:
    """Write a figure to a PNG file with the text alternative as its description, and close
    the figure.

    Raises:
        ValueError: if there is no title, or the name does not end in .png.
    """
    from PIL import Image, PngImagePlugin

    path, info = Path(path), PngImagePlugin.PngInfo()
    if path.suffix.lower() != ".png":
        raise ValueError(
            f"path: the name of a figure's file ends in .png, got {path.name!r}; matplotlib's"
            " savefig writes other formats"
        )
    info.add_itxt("Description", alt_of(fig))
    with Image.open(io.BytesIO(png(fig))) as image:
        image.save(path, format="PNG", pnginfo=info, optimize=True)
    close(fig)
    return path


def explore(draw: Callable[..., Figure], **controls: Any) -> None:
    """A figure with controls above it, by ``ipywidgets.interactive``. Where no kernel runs
    (a web page, a notebook just opened) the figure of the first state stands there.

    Args:
        draw: is called with the values of the controls, and returns the figure. Its
            defaults are the first state.
        controls: by the names of ``draw``'s arguments: (min, max) or (min, max, step) is a
            slider, a list is a row of buttons. (Not a drop-down list: in JupyterLab the
            arrow keys never reach one.)

    Raises:
        Exception: whatever ``draw`` raises in its first call, so that a lab that is not
            finished says so.
    """
    import ipywidgets

    data, metadata = mimebundle(draw())
    signature = inspect.signature(draw)
    for name, options in controls.items():
        if isinstance(options, list):
            look = {"style": {"button_width": "auto"}, "value": signature.parameters[name].default}
            controls[name] = ipywidgets.ToggleButtons(options=options, **look)

    def draw_state(**state: Any) -> Figure:  # a partial has no name, which ipywidgets asks for
        return draw(**state)

    vars(draw_state)["__signature__"] = signature
    box = ipywidgets.interactive(draw_state, {"auto_display": True}, **controls)
    for control in box.children[:-1]:
        control.description = control.description.replace("_", " ")
        control.style.description_width = "auto"
        if hasattr(control, "continuous_update"):
            control.continuous_update = False  # drawn where the handle is let go
            control.layout.width = "min(42em, 98%)"
    box.add_class("course-explorer")
    display_bundle({**data, **box._repr_mimebundle_()}, metadata)
