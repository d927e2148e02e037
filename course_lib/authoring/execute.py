"""Run a notebook as its reader would, and keep of its outputs only what is the same on
every machine.
"""

from __future__ import annotations

import base64
import io
import os
import re
import sys
import sysconfig
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from course_lib.authoring.errors import error

LARGEST_FIGURE = 300_000  # bytes of PNG
_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_WIDGET = "application/vnd.jupyter.widget-view+json"
# dropped where the same figure is there as PNG
_DRAWINGS = ("image/svg+xml", "application/pdf", "image/jpeg")
_PROGRESS = re.compile(r"\d+%\||\d+it \[|[\d.?]+(it|s)/(s|it)\b")  # tqdm


def run(
    notebook: Any,
    where: list[tuple[str, list[int]]],
    lab: str,
    cwd: Path,
    root: Path,
    timeout: float,
    env: Mapping[str, str] | None = None,
) -> list[str]:
    """Execute ``notebook`` in place with the kernel of this Python, and clean its
    outputs.

    Args:
        notebook: an nbformat notebook.
        where: for each cell the file it comes from and, for each of its lines, the line
            there.
        lab: the lab's name for messages.
        cwd: the folder it runs in.
        root: the course folder ($COURSE_ROOT of the kernel); the rest of the
            environment passes through.
        timeout: seconds that one cell may take.
        env: more of the kernel's environment.

    Returns:
        What went to stderr beside progress bars, one line ``file:line: text`` a cell:
        it is kept in no notebook.

    Raises:
        AuthoringError: if a cell raises, takes too long or ends the kernel: the source
            line, the lab, the cell and the last line of the traceback.
    """
    from nbclient import NotebookClient
    from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
    from nbclient.output_widget import OutputWidget

    class Unsent(OutputWidget):
        """Takes the outputs of an explorer, and does not send them back: a message to the
        kernel while a cell runs can make nbclient miss that the cell has ended.
        """

        def send(self, *data: Any, **options: Any) -> None:
            """Send nothing."""

    running = [0]

    def started(cell: Any, cell_index: int) -> None:
        running[0] = cell_index

    with tempfile.TemporaryDirectory(prefix="course-build-") as scratch:
        client = NotebookClient(
            notebook,
            timeout=timeout,
            startup_timeout=180,
            kernel_name="python3",
            resources={"metadata": {"path": str(cwd)}},
            record_timing=False,
            coalesce_streams=True,
            on_cell_start=started,
            extra_arguments=["--log-level=ERROR"],
        )
        client.widget_registry = {"@jupyter-widgets/output": {"OutputModel": Unsent}}
        # The kernel named python3 may belong to another Python (a user's own kernelspec
        # goes before ours).
        manager = client.create_kernel_manager()
        if manager.kernel_spec is not None and "ipykernel_launcher" in manager.kernel_spec.argv:
            manager.kernel_spec.argv[0] = sys.executable
        around = os.environ | {
            "COURSE_ROOT": str(root),
            "IPYTHONDIR": scratch,
            "TQDM_DISABLE": "1",
            **(env or {}),
        }
        try:
            client.execute(env=around)
        except CellExecutionError as caught:
            file, line, what = _failure(notebook, where, running[0], caught)
            raise error(file, line, f"{lab}, cell {running[0] + 1} stopped: {what}") from None
        except (CellTimeoutError, DeadKernelError) as caught:
            file, lines = where[running[0]]
            what = (
                f"took more than {timeout:g} s: give it less to do"
                if isinstance(caught, CellTimeoutError)
                else "ended the kernel: did it call exit, or take all the memory?"
            )
            raise error(file, lines[0], f"{lab}, cell {running[0] + 1} {what}") from None
    return clean(notebook, where, root)


def clean(notebook: Any, where: list[tuple[str, list[int]]], root: Path) -> list[str]:
    """Keep of a run only what does not depend on the machine; see :func:`run` for
    arguments and result.
    """
    said: list[str] = []
    for cell, (file, lines) in zip(notebook.cells, where, strict=True):
        if cell.cell_type != "code":
            continue
        cell.metadata.pop("execution", None)
        outputs = []
        for output in cell.outputs:
            if output.output_type == "stream":
                output.text = _anywhere(_plain(output.text), root)
                if output.name == "stderr":
                    kept = [line for line in output.text.split("\n") if not _PROGRESS.search(line)]
                    if text := "\n".join(kept).strip():
                        message = "wrote to stderr, which no notebook keeps"
                        said.append(f"{file}:{lines[0]}: {message}: {text}")
                    continue
            elif output.output_type == "error":
                output.traceback = [_anywhere(_plain(line), root) for line in output.traceback]
                output.evalue = _anywhere(output.evalue, root)
            elif not _keep_data(output, root):
                continue
            outputs.append(output)
        cell.outputs = outputs
    notebook.metadata.pop("widgets", None)
    return said


def _keep_data(output: Any, root: Path) -> bool:
    """Clean one display; False if nothing is left that a reader without a kernel could
    see.
    """
    data = output.data
    if data.pop(_WIDGET, None) is not None and set(data) <= {"text/plain"}:
        return False
    if "image/png" in data:
        for kind in _DRAWINGS:
            data.pop(kind, None)
    for kind, value in data.items():
        if kind == "image/png":
            data[kind] = _small_enough(value)
        elif isinstance(value, str):
            # text, prefix, picture, text, …: pictures are no text to look for paths in
            parts = re.split(r"(data:image/png;base64,)([A-Za-z0-9+/=\s]+)", value)
            parts[::3] = [_anywhere(text, root) for text in parts[::3]]
            parts[2::3] = [_small_enough(picture).strip() for picture in parts[2::3]]
            data[kind] = "".join(parts)
    return bool(data)


def _small_enough(picture: str) -> str:
    """A PNG in base64 with at most LARGEST_FIGURE bytes: first fewer colours, then
    fewer pixels.
    """
    raw = base64.b64decode(picture)
    if len(raw) <= LARGEST_FIGURE:
        return picture
    from PIL import Image

    image = Image.open(io.BytesIO(raw)).convert("RGB")
    scale = 1.0
    while len(raw) > LARGEST_FIGURE and scale > 0.05:
        size = (max(1, round(image.width * scale)), max(1, round(image.height * scale)))
        file = io.BytesIO()
        image.resize(size, Image.Resampling.LANCZOS).quantize(256).save(file, "PNG", optimize=True)
        raw = file.getvalue()
        scale *= 0.85
    return base64.b64encode(raw).decode()


def _plain(text: str) -> str:
    """Without colours, and of a line that was written over (a progress bar) only what
    stood there at the end.
    """
    lines = _ANSI.sub("", text).replace("\r\n", "\n").split("\n")
    return "\n".join(
        next((part for part in reversed(line.split("\r")) if part), "") for line in lines
    )


def _anywhere(text: str, root: Path) -> str:
    """``text`` without the places and addresses of this machine."""
    # only from where a word begins: tried at every letter of a picture's base64 it took
    # minutes
    text = re.sub(r"(?<![^\s\"'(<])[^\s\"'(<]*ipykernel_\d+[/\\]\d+\.py", "[cell]", text)
    for place, name in _places(root):
        text = re.sub(r"(?<![\w.-])" + re.escape(place) + r"(?![\w.-])", name, text)
    return re.sub(r"\b(at|object at) 0x[0-9a-fA-F]{6,}", r"\1 0x…", text)


def _places(root: Path) -> list[tuple[str, str]]:
    """Folders of this machine and what to write instead, the longest first."""
    places = {str(Path.home()): "~", tempfile.gettempdir(): "/tmp"}
    places |= {sys.prefix: "[python]", sys.base_prefix: "[python]"}
    places |= {sysconfig.get_path(kind): "[python]" for kind in ("stdlib", "purelib", "platlib")}
    if os.environ.get("COURSE_DATA"):
        places[os.environ["COURSE_DATA"].rstrip("/\\")] = "$COURSE_DATA"
    places[str(root)] = "."
    both = places | {str(Path(place).resolve()): name for place, name in places.items()}
    # A folder as short as "/" or "/usr" is part of too many texts that are no places.
    return sorted(
        ((p, n) for p, n in both.items() if len(Path(p).parts) > 2 or n == "~" and len(p) > 1),
        key=lambda x: -len(x[0]),
    )


def _failure(
    notebook: Any, where: list[tuple[str, list[int]]], cell: int, caught: Any
) -> tuple[str, int, str]:
    """File, line and last line of a traceback: the line deepest down that is in the lab
    itself.
    """
    outputs = [o for o in notebook.cells[cell].outputs if o.output_type == "error"]
    text = _plain("\n".join(line for o in outputs for line in o.traceback) or str(caught))
    code = [i for i, c in enumerate(notebook.cells) if c.cell_type == "code" and c.source.strip()]
    at, line = cell, 1
    for number, inside in re.findall(r"Cell In\[(\d+)\], line (\d+)", text):
        if int(number) <= len(code):  # a cell's count is its place among those that run
            at, line = code[int(number) - 1], int(inside)
    file, lines = where[at]
    said = [part.strip() for part in text.splitlines() if part.strip()]
    last = said[-1] if said else f"{caught.ename}: {caught.evalue}"
    return file, lines[min(line, len(lines)) - 1], last
