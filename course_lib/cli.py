"""The course command: open the labs, build and release them, grade, look whether this
machine is ready.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

app = typer.Typer(
    no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, help=__doc__
)
console = Console(emoji=False)  # ":M:" in a name is no picture

# arguments and options of several commands
Lab = Annotated[str, typer.Argument(help="such as lab01")]
Labs = Annotated[list[str] | None, typer.Argument(help="such as lab01; all by default")]
Submissions = Annotated[
    Path, typer.Argument(help="a folder with a notebook, folder or zip per student; a class's zip")
]
Report = Annotated[Path, typer.Option("--out", help="the report's folder")]
Seed = Annotated[int | None, typer.Option(help="inputs are drawn from it; by default as before")]
RequireIsolation = Annotated[
    bool, typer.Option("--require-isolation", help="refuse to grade without a sandbox")
]
Table = Annotated[Path | None, typer.Option(exists=True, dir_okay=False)]


def main() -> None:
    """Run the command; what a user can mend is one sentence, not a traceback."""
    from course_lib.authoring.errors import AuthoringError

    # models as small as the course's compute fastest with one thread, here and in the processes
    # that are started from here: JupyterLab and its kernels, judges; torch is not loaded yet
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    # nbformat's jsonschema would build its grammars, two seconds at every start; it
    # does without, and no notebook needs them
    sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]
    try:
        app()
    except (OSError, ValueError, RuntimeError, AuthoringError) as error:
        said = str(error)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("course_lib"):
            raise
        said = (
            f"{error.name} is not installed, and the library alone does not need it:"
            ' pip install "pruning-course[course]" brings what labs and grading need'
        )
    else:
        return
    Console(stderr=True, emoji=False).print(
        f"course: {said}", style="red", markup=False, highlight=False, soft_wrap=True
    )
    sys.exit(1)


def _root() -> Path:
    from course_lib.paths import course_root

    root = course_root()
    if root is None:
        raise FileNotFoundError(
            "no course here: run this inside the course's folder (the one with labs/ and"
            " pyproject.toml), or set COURSE_ROOT to it. `course lab DIR` writes the labs into"
            " DIR"
        )
    return root


def _version(wanted: bool) -> None:
    if wanted:
        from course_lib import __version__

        console.print(f"course {__version__}", highlight=False)
        raise typer.Exit


Version = Annotated[bool, typer.Option("--version", callback=_version, is_eager=True)]


@app.callback(help=__doc__)
def options(version: Version = False) -> None: ...


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def lab(context: typer.Context) -> None:
    """Open JupyterLab in labs/. Without a display it prints the address; further
    options go to JupyterLab. `course lab lab01` opens that lab. Outside a course folder,
    `course lab DIR` writes the labs into DIR first.
    """
    from importlib.util import find_spec

    from course_lib.labs_folder import find_opened, open_jupyter, write_labs

    if find_spec("jupyterlab") is None:
        raise ModuleNotFoundError(name="jupyterlab")
    options, folder = list(context.args), None
    # not labs/ itself: the index and the walkthroughs link to each other and to slides
    opened = "labs"
    if options and not options[0].startswith("-"):
        name = options.pop(0)
        if (found := find_opened(name)) is not None:
            folder, opened = found[0], found[1].relative_to(found[0]).as_posix()
        else:
            folder = Path(name).expanduser().resolve()
            written, kept = write_labs(folder)
            _say(f"{len(written)} files written into {folder}")
            for path in kept:
                _say(f"{path} is kept as it is, and differs")
    raise typer.Exit(open_jupyter(folder or _root(), opened, options))


@app.command()
def build(
    labs: Labs = None,
    check: Annotated[bool, typer.Option("--check", help="only compare with the sources")] = False,
    force: Annotated[bool, typer.Option(help="execute what did not change, too")] = False,
    execute: Annotated[bool, typer.Option(help="without, only labs/ is written")] = True,
) -> None:
    """Make the student's notebooks and the executed walkthroughs from
    solutions/labNN_*.py.
    """
    from course_lib.authoring import build as builder

    root = _root()
    if check:
        problems = builder.check(root, labs or None)
        for problem in problems:
            _print(problem)
        if not problems:
            _print("the notebooks are those of their sources")
        raise typer.Exit(bool(problems))
    written = builder.build(root, labs or None, execute, force=force)
    _print(f"{len(written)} notebook(s) written" if written else "nothing has changed")


@app.command()
def release(
    folder: Annotated[Path, typer.Argument(help="a new folder")],
    more: Annotated[list[str] | None, typer.Argument(hidden=True)] = None,
    labs: Annotated[
        list[str] | None, typer.Option("--labs", help="these alone: lab00 lab01")
    ] = None,
    repository: Annotated[
        str | None,
        typer.Option(
            metavar="OWNER/NAME",
            help="public on GitHub, with the release in main: labs get badges for Colab and Binder",
        ),
    ] = None,
) -> None:
    """Write what students get, without solutions and hidden tests, as a folder and a
    zip; week by week with --labs.
    """
    from course_lib.authoring import release as releasing

    if folder.name[:3] == "lab" and folder.name[3:].isdigit():
        raise ValueError(
            f"{folder} is a lab: name the folder first, course release FOLDER --labs lab00 lab01"
        )
    archive = releasing.release(_root(), folder, [*(labs or []), *(more or [])] or None, repository)
    _say(f"students get {folder} or, the same, {archive}")


@app.command()
def grade(
    lab: Lab,
    submissions: Submissions,
    out: Report,
    jobs: Annotated[
        int | None, typer.Option(min=1, help="workers; one per core by default")
    ] = None,
    seed: Seed = None,
    require_isolation: RequireIsolation = False,
    regrade: Annotated[
        list[str] | None, typer.Option(metavar="ID", help="grade this submission again")
    ] = None,
    scheduler: Annotated[
        str | None, typer.Option(help="tcp://… of a Dask scheduler, whose workers grade")
    ] = None,
    gradebook: Table = None,
    column: Annotated[str, typer.Option(help="the heading of its column for the points")] = "",
    groups: Table = None,
    overwrite: Annotated[bool, typer.Option("--overwrite")] = False,
    contact: Annotated[str | None, typer.Option(help="whom students ask, and until when")] = None,
    marks: Table = None,
    pending_as_zero: Annotated[bool, typer.Option("--pending-as-zero")] = False,
) -> None:
    """Grade a folder of submissions. The same command again grades only what is left,
    and what has changed.

    --gradebook is the platform's own table, to fill the points into; marks that it has already
    stay, without --overwrite. Members of a group in --groups share a mark. --marks has a person's
    marks and comments (id, question, points, comment), and is kept for later runs; what a person
    has still to mark counts in the gradebook as 0 with --pending-as-zero.
    """
    from rich.progress import Progress

    from course_lib.grading.batch import manual_marks

    manual_marks.check_before(out, marks, submissions)  # in a second: what follows loads torch
    from course_lib.grading.batch import gradebook as table
    from course_lib.grading.batch import handback, report, summary
    from course_lib.grading.batch import run as batch
    from course_lib.grading.batch.result import read_all

    tests = _root() / "tests" / "labs" / lab
    try:
        with Progress(console=console, transient=True) as bar:
            task = bar.add_task("grading", total=None)
            done = batch.grade(
                lab,
                submissions,
                out,
                tests=tests,
                jobs=jobs,
                seed=seed,
                require_isolation=require_isolation,
                regrade=regrade or [],
                scheduler=scheduler,
                marks=marks,
                table=gradebook,
                contact=contact,
                say=_say,
                progress=lambda id, n, all: bar.update(
                    task, completed=n, total=all, description=f"grading, last {escape(_plain(id))}"
                ),
            )
    except batch.Interrupted as stopped:
        _say(str(stopped))
        raise typer.Exit(130) from None
    for line in report.to_text(done.report).splitlines():
        _say(line)
    said = [f"{r.id}: {r.choice}" for r in read_all(done.report) if r.choice]
    counts = f"{len(done.graded)} graded now, {len(done.kept)} kept from before"
    said += [f"{counts}; report in {done.report}, seed {done.seed}", done.layer.sentence]
    said += [*done.remarks, f"summary of the class: {summary.write(done.report)}"]
    handback.write(done.report)
    said += [f"everybody's page, to hand back: {done.report / 'feedback.zip'}"]
    try:
        if gradebook:
            filled = (column, pending_as_zero, overwrite, groups)
            path, more = table.fill(done.report, gradebook, *filled)
            said += [f"to upload: {path}", *more]
    finally:  # a table that is refused hides nothing: the next run does not say it again
        for sentence in [*said, *summary.status_sentences(done.report)]:
            _say(sentence)


@app.command()
def explain(
    report: Annotated[Path, typer.Argument(help="the report's folder")],
    id: Annotated[str, typer.Argument(metavar="ID", help="of the submission, as in grades.csv")],
    question: Annotated[str, typer.Argument(help="such as 1.3")],
    submissions: Annotated[
        Path | None, typer.Option(help="where they are now, if they were moved since")
    ] = None,
) -> None:
    """For appeals: run one question of one student again, and show the inputs, what
    came back and what was expected.
    """
    from course_lib.grading.batch import appeal

    tests = _root() / "tests" / "labs"
    blocks = appeal.explain(report, id, question, lambda lab: tests / lab, submissions)
    for line in "\n".join(blocks).splitlines():
        _say(line)


def _print(text: object) -> None:
    console.print(text, markup=False, highlight=False, soft_wrap=True)


def _say(sentence: str) -> None:
    _print(_plain(sentence))


def _plain(text: str) -> str:
    """Without what could move the cursor or not be printed: names of files are the
    students' own.
    """
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)


@app.command()
def gradescope(
    lab: Lab,
    out: Annotated[Path | None, typer.Option("--out", help="the zip; gradescope-LAB.zip")] = None,
    seed: Seed = None,
    require_isolation: RequireIsolation = False,
) -> None:
    """Write a lab's autograder for Gradescope: a zip to upload there. It holds the
    hidden tests: not for students.
    """
    from course_lib.grading.batch import gradescope as autograder

    path = out or Path(f"gradescope-{lab}.zip")
    autograder.write(_root(), lab, path, seed=seed, require_isolation=require_isolation)
    _say(f"upload {path} to the programming assignment on Gradescope (Configure Autograder)")


@app.command()
def similarity(
    lab: Lab,
    submissions: Submissions,
    out: Report,
) -> None:
    """Compare the code of a class, for copies: about ten minutes for 300 submissions."""
    from course_lib import labs
    from course_lib.capstone import suspicion
    from course_lib.capstone.handing import NAMES
    from course_lib.grading.batch import similarity as comparing
    from course_lib.grading.batch.collect import collect

    files = labs.load(lab).files
    some = collect(submissions, lab, files).submissions
    if files:
        for s in some:
            data = s.files.get(NAMES["cnn"])
            if isinstance(data, bytes) and (hint := suspicion.hint(data)):
                _say(f"{s.id[:60]}: {hint}")
    page = comparing.compare(some, lab, out)
    _say(f"{page} written: pairs with the most code in common first")


@app.command()
def slides(
    decks: Labs = None,
) -> None:
    """Execute the lecture decks and write slides/_build/NN.html, one file each, NN.pdf
    where there is Chromium, and the cheat sheet.
    """
    from course_lib.authoring import sheet
    from course_lib.authoring import slides as lectures

    lectures.build(_root(), decks or None, _say)
    if not decks:
        sheet.build(_root(), _say)


@app.command()
def site() -> None:
    """Write the course as a web site, build/site, with the decks that are built."""
    from course_lib.authoring import site as pages

    pages.build(_root(), _say)


@app.command()
def ledger(
    remake: Annotated[bool, typer.Option("--remake")] = False,
) -> None:
    """The course's one table: what every method cost and kept, with the paper's figure
    beside it. --remake executes all walkthroughs from an empty ledger: ten minutes, on a quiet
    machine.
    """
    from course_lib.show import course_table

    if remake:
        from course_lib.authoring import build as building

        written = building.remake_ledger(_root(), _say)
        _say(f"{' and '.join(map(str, written))} written")
    _print(course_table.text(course_table.rows()))


@app.command()
def remake(
    name: Annotated[str | None, typer.Argument(help="of data/results: lab03_tickets_mnist")] = None,
    workers: Annotated[int | None, typer.Option(min=1, help="one per core by default")] = None,
) -> None:
    """Make a shipped result file again; the same command goes on after an interruption.
    Without a name: lists them.
    """
    from course_lib import experiments
    from course_lib.parallel import processes

    if name is None:
        for known, function in experiments.registered().items():
            _say(f"{known}: {(function.__doc__ or '').splitlines()[0]}")
        return
    with processes(workers) as pool:
        _say(f"{experiments.remake(name, pool)} written")


@app.command()
def demo(
    folder: Annotated[Path, typer.Argument(help="where to write")] = Path("course-demo"),
) -> None:
    """In a minute: prune a model, print its ledger, draw one figure, grade three sample
    submissions.
    """
    from course_lib import demo

    demo.run(folder, console)


@app.command()
def doctor() -> None:
    """Is this machine ready? Versions, device, data, models, isolation; fails with the
    remedy where a lab could not run.
    """
    from course_lib import doctor

    if not doctor.run(console):
        raise typer.Exit(1)


if __name__ == "__main__":
    main()
