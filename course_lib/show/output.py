"""How a figure gets onto a page: never without a sentence for readers who cannot see
it, never left open behind.
"""

from __future__ import annotations

import base64
import html
import io
import sys
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
    style,
)

_CSS_PIXELS = 100  # per inch of figure, on the page
_DPI = 150  # real pixels per inch: sharp on a laptop's screen, small in the notebook
_MAX_BYTES = 300_000


def alt(fig: Figure, text: str) -> Figure:
    """Give a figure its text alternative: a sentence that says what is to be seen.
    Returns the same figure.

    Raises:
        ValueError: if ``text`` is no sentence (fewer than three words).
    """
    fig.course_alt = alt_of(fig, text)  # type: ignore[attr-defined]
    return fig


def alt_of(fig: Figure, text: str | None = None) -> str:
    """``text``, or else what ``alt`` gave the figure before, on one line.

    Raises:
        ValueError: if there is no sentence; the message says what to write.
    """
    if text is None:
        text = getattr(fig, "course_alt", None)
    if not isinstance(text, str) or len(text.split()) < 3:
        raise ValueError(
            "this figure needs a text alternative for readers who cannot see it: pass alt= a"
            " sentence that says what is plotted and what is to be seen, such as alt='Accuracy"
            " against sparsity: magnitude stays at 97 % up to 80 % sparsity, random pruning falls"
            f" from 50 % on.' (got {text!r})"
        )
    return " ".join(text.split())


class _CourseFigure(Figure):
    """A figure that IPython displays with its text alternative where it is the last line
    of a cell.
    """

    def _ipython_display_(self) -> None:
        show(self)


def new_figure(height: float) -> Figure:
    """An empty figure in the course's style and width, ``height`` inches high, that
    pyplot does not know about.
    """
    height = min(height, SLIDE_HEIGHT) if for_slides() else height
    fig = _CourseFigure(figsize=(INCHES, height), layout="constrained", facecolor="white")
    fig.course_style = True  # type: ignore[attr-defined]
    return fig


def subplots(rows: int, columns: int, height: float, **options: Any) -> tuple[Figure, Any]:
    """A figure as :func:`new_figure` makes it, and the array of its axes in the course's
    style; ``options`` are those of matplotlib's ``Figure.subplots``.
    """
    fig = new_figure(height)
    with mpl.rc_context(style()):
        return fig, fig.subplots(rows, columns, **options)


def _style_of(fig: Figure) -> AbstractContextManager[Any]:
    # matplotlib reads some settings only when it draws. A figure of the reader's own
    # keeps the reader's.
    return mpl.rc_context(style()) if getattr(fig, "course_style", False) else nullcontext()


def png(fig: Figure) -> bytes:
    """The figure as a PNG of at most 300 kB, 1.5 pixels per CSS pixel, in 256 colours
    (a plot has few).
    """
    dpi = _DPI
    while True:
        buffer = io.BytesIO()
        with _style_of(fig):
            fig.savefig(
                buffer, format="png", dpi=dpi, facecolor="white", pil_kwargs={"compress_level": 1}
            )
        data = _reduce_colours(buffer)
        if len(data) <= _MAX_BYTES or dpi <= 40:
            return data
        dpi = int(dpi * 0.75)


def svg(fig: Figure, text: str) -> bytes:
    """The figure as an SVG with the text alternative inside, its letters as outlines, so
    that no font is needed; the same figure gives the same bytes.
    """
    buffer = io.BytesIO()
    with _style_of(fig), mpl.rc_context({"svg.hashsalt": "course"}):
        fig.savefig(buffer, format="svg", metadata={"Description": text, "Date": None})
    return buffer.getvalue()


def _reduce_colours(buffer: io.BytesIO) -> bytes:
    """The picture in 256 colours: a quarter of the bytes. Not packed as tightly as can
    be: an explorer's reader waits for it.
    """
    from PIL import Image  # comes with matplotlib

    image = Image.open(buffer).convert("RGB")
    # Maximum coverage keeps white white and colour ramps smooth, where median cut is off
    # by up to 60 of 255. But it chooses by extremes, and a grey band may come out in the
    # green of another method's: a round of k-means moves its colours to where the pixels
    # are. It takes seconds for a picture with as many colours as a photograph.
    plot = image.getcolors(20_000) is not None
    method = Image.Quantize.MAXCOVERAGE if plot else Image.Quantize.FASTOCTREE
    small = io.BytesIO()
    image.quantize(256, method=method, kmeans=int(plot), dither=Image.Dither.NONE).save(
        small, format="PNG"
    )
    return small.getvalue()


def mimebundle(
    fig: Figure, text: str, css_class: str = "course-plot"
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The figure as a notebook output: (data, metadata), with ``text`` as the
    alternative in each form.

    Three forms, because no single one is enough: JupyterLab 4 and nbconvert write no
    alt attribute for image/png, so they are given text/html; a code host that does not
    show a picture inside HTML has image/png; a terminal has text/plain.
    """
    kind, raw = ("svg+xml", svg(fig, text)) if for_slides() else ("png", png(fig))
    encoded = base64.b64encode(raw).decode()
    pixels = SLIDE_INCH if for_slides() else _CSS_PIXELS
    width, height = (round(inches * pixels) for inches in fig.get_size_inches())
    # width and height hold the place while an explorer swaps pictures; decoding="sync"
    # keeps it from flashing white.
    tag = (
        f'<img class="{css_class}" alt="{html.escape(text)}" width="{width}" height="{height}"'
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
    """Let pyplot forget the figure, if it knows it: left open, the notebook would show
    it once more, without alt.
    """
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close(fig)


def display_bundle(data: dict[str, Any], metadata: dict[str, Any] | None = None) -> None:
    """Display a MIME bundle where there is a notebook; in plain Python print its
    text.
    """
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    if shell is None:
        print(data["text/plain"])
        return
    from IPython.display import display

    display(data, metadata=metadata or {}, raw=True)


def show(fig: Figure, alt: str | None = None, *, inches: tuple[float, float] | None = None) -> None:
    """Display a figure in the notebook, with ``alt`` as the picture's HTML alt
    attribute, and close it.

    Run as a plain Python script, it prints the text alternative.

    Args:
        fig: any matplotlib figure, from ``plots`` or your own.
        alt: a sentence that says what is to be seen; not needed if ``alt(fig, text)``
            was called before.
        inches: width and height, where the figure is to have others than it has. A
            slide has room for 8 × 4 without text; what is at most 6 wide stands beside
            the text there.

    Raises:
        ValueError: if there is no text alternative; the message says what to write. On
            a slide also if letters are too small for the last row.
    """
    text = alt_of(fig, alt)
    if inches is not None:
        fig.set_size_inches(inches)
    if for_slides():
        _check_letters(fig)
    data, metadata = mimebundle(fig, text)
    close(fig)
    display_bundle(data, metadata)


def save(fig: Figure, path: str | Path, alt: str | None = None) -> Path:
    """Write a figure to a PNG file with the text alternative as its description, and close
    the figure.

    Args:
        alt: as for ``show``.

    Raises:
        ValueError: if there is no text alternative, or the name does not end in .png.
    """
    from PIL import Image, PngImagePlugin

    path, info = Path(path), PngImagePlugin.PngInfo()
    if path.suffix.lower() != ".png":
        raise ValueError(
            f"path: the name of a figure's file ends in .png, got {path.name!r}; matplotlib's"
            " savefig writes other formats"
        )
    info.add_itxt("Description", alt_of(fig, alt))
    with Image.open(io.BytesIO(png(fig))) as image:
        image.save(path, format="PNG", pnginfo=info, optimize=True)
    close(fig)
    return path
