"""The course command: open the labs, build and release them, grade, look whether this machine is ready."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, help=__doc__)
console = Console()


def main() -> None:
    """Run the command; what a user can mend is one sentence, not a traceback."""
    from course_lib.authoring.errors import AuthoringError

    try:
        app()
    except (
        FileNotFoundError,
        FileExistsError,
        NotADirectoryError,
        PermissionError,
        ValueError,
        RuntimeError,
        AuthoringError,
    ) as error:
        Console(stderr=True).print(f"course: {error}", style="red", markup=False, highlight=False, soft_wrap=True)
        sys.exit(1)


def _root() -> Path:
    from course_lib.paths import course_root

    root = course_root()
    if root is None:
        raise FileNotFoundError(
            "no course here: run this inside the course's folder (the one with labs/ and pyproject.toml), or set COURSE_ROOT to it"
        )
    return root


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def lab(context: typer.Context) -> None:
    """Open JupyterLab on labs/. Without a display it prints the address; further options go to JupyterLab."""
    import os
    import subprocess

    folder = _root() / "labs"
    command = [sys.executable, "-m", "jupyter", "lab", f"--notebook-dir={folder}", *context.args]
    if sys.platform.startswith("linux") and not any(
        os.environ.get(v) for v in ("DISPLAY", "WAYLAND_DISPLAY", "WSL_DISTRO_NAME")
    ):
        command.append("--no-browser")
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        command.append("--allow-root")
    raise typer.Exit(subprocess.call(command, cwd=folder))


@app.command()
def build(
    labs: Annotated[list[str] | None, typer.Argument(help="labs to build, such as lab01; all by default")] = None,
    check: Annotated[
        bool, typer.Option("--check", help="write nothing; fail where notebooks differ from their sources")
    ] = False,
    force: Annotated[bool, typer.Option(help="execute what did not change, too: after a change of tests, say")] = False,
) -> None:
    """Make the student's notebooks and the executed walkthroughs from solutions/labNN_*.py."""
    from course_lib.authoring import build as builder

    root = _root()
    if check:
        problems = builder.check(root)
        for problem in problems:
            console.print(problem, markup=False, highlight=False, soft_wrap=True)
        if problems:
            raise typer.Exit(1)
        console.print("the notebooks are those of their sources")
        return
    written = builder.build(root, labs or None, force=force)
    console.print(f"{len(written)} notebook(s) written" if written else "nothing has changed")


@app.command()
def release(folder: Annotated[Path, typer.Argument(help="a new folder, or that of an earlier release")]) -> None:
    """Write what students get, without solutions and hidden tests, as a folder and a zip."""
    from course_lib.authoring import release as releasing

    archive = releasing.release(_root(), folder)
    console.print(f"students get {folder} or, the same, {archive}", soft_wrap=True)


@app.command()
def grade(
    lab: Annotated[str, typer.Argument(help="such as lab01")],
    submissions: Annotated[Path, typer.Argument(help="a folder of notebooks, or of one folder or zip per student")],
    out: Annotated[Path, typer.Option("--out", help="the report's folder")],
    jobs: Annotated[int | None, typer.Option(min=1, help="workers beside each other; one a core by default")] = None,
    seed: Annotated[int | None, typer.Option(help="inputs are drawn from it; fresh by default, and recorded")] = None,
) -> None:
    """Grade a folder of submissions. The same command again grades only what is left."""
    from rich.progress import Progress

    from course_lib.grading import batch

    tests = _root() / "tests" / "labs" / f"test_{lab}.py"
    with Progress(console=console, transient=True) as bar:
        task = bar.add_task("grading", total=None)
        done = batch.grade(
            lab, submissions, out, tests=tests, jobs=jobs, seed=seed,
            progress=lambda id, number, all: bar.update(task, completed=number, total=all, description=f"grading, last {id}"),
        )  # fmt: skip
    _summary(done.report)
    console.print(
        f"{len(done.graded)} graded, {len(done.kept)} kept from before; report in {done.report}", soft_wrap=True
    )
    console.print(done.layer.sentence, soft_wrap=True)


def _summary(report: Path) -> None:
    import csv

    with open(report / "grades.csv", newline="") as file:
        header, *rows = csv.reader(file)
    table = Table(*header)
    for row in rows[:40]:
        table.add_row(*[cell[:40] for cell in row])
    console.print(table)
    if len(rows) > 40:
        console.print(f"… and {len(rows) - 40} more in grades.csv")


@app.command()
def demo(folder: Annotated[Path, typer.Argument(help="where to write")] = Path("course-demo")) -> None:
    """In a minute: prune a model, print its ledger, draw one figure, grade three sample submissions."""
    from course_lib import demo

    demo.run(folder, console)


@app.command()
def doctor() -> None:
    """Is this machine ready? Versions, device, data, models, isolation; fails with the remedy where a lab could not run."""
    from course_lib import doctor

    if not doctor.run(console):
        raise typer.Exit(1)


if __name__ == "__main__":
    main()
