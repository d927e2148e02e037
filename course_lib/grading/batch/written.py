"""``written/``: one page for each answer that no test judges, such as a prediction: what
everybody wrote, with a box for points. The page makes the rows for ``marks.csv``.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterable
from pathlib import Path

from course_lib.grading.batch import report
from course_lib.grading.batch.collect import Submission, written_names
from course_lib.grading.batch.manual_marks import Marks

SCRIPT = """
const boxes = document.querySelectorAll("input");
const quoted = text => '"' + text.replaceAll('"', '""') + '"';
const show = () => {
  document.querySelector("textarea").value = [...boxes].filter(box => box.value.trim())
    .map(box => [quoted(box.dataset.id), box.name, box.value.trim(), '""'].join(",")).join("\\n");
};
boxes.forEach(box => box.addEventListener("input", show));
show();
"""


def write(out: Path, lab: str, submissions: Iterable[Submission], given: Marks) -> None:
    """Write the pages of a report, with the points that are given already."""
    submissions, names = list(submissions), written_names(lab)
    points = {
        (id, m.question): f"{m.points:g}"
        for id, marks in given.items()
        for m in marks
        if m.points is not None
    }
    digest = base64.b64encode(hashlib.sha256(SCRIPT.encode()).digest()).decode()
    for name in names:
        number = re.search(r"\d+_\d+", name)
        title = report.titles_of(lab)[1].get(number[0].replace("_", "."), "") if number else ""
        text = report.pages.get_template("written.html").render(
            lab=lab,
            name=name,
            title=title,
            script=SCRIPT,
            digest=digest,
            answers=[
                (s, s.written[name], points.get((s.id, name), ""))
                for s in submissions
                if name in s.written
            ],
            silent=[s for s in submissions if name not in s.written],
            names=names,
        )
        (out / "written").mkdir(exist_ok=True)
        report.write_text(out / "written" / f"{name}.html", text)
