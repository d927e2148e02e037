"""What the marks of a question rest on, as a short hash: a result made with another one is out of date, for that question only."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterable
from pathlib import Path

from course_lib.authoring.claims import Sources
from course_lib.grading.claims import Test, order
from course_lib.grading.reference import Reference


def versions(text: str, tests: Iterable[Test], known: Reference, seed: int) -> dict[str, str]:
    """One hash a question, over everything that decides what its tests give.

    These are its tests and what they reach in their file, the question's contract, the grader's answers for its names and for those
    of earlier questions (which stand in for a wrong one), and the seed. The rest of ``course_lib`` is not among them: after an
    update of the course that changes marks, name the questions to grade again.

    Args:
        text: the source of the lab's test module. tests: its tests.
        known: the lab's contracts. seed: from which inputs are drawn.

    Raises:
        AuthoringError: if the tests do not parse. ValueError: if one belongs to a question that the lab does not have.
    """
    contracts = Path(known.names["__file__"])
    own, answers = Sources(text, "the tests"), Sources(contracts.read_text(encoding="utf-8"), contracts.name)
    found: dict[str, str] = {}
    for question in sorted({t.question for t in tests}, key=order):
        if question not in known.questions:
            raise ValueError(
                f"the tests hold {question}, which {known.lab} does not: it has {', '.join(known.questions)}"
            )
        asked = known.asked(question)
        reached = own.reached(t.name for t in tests if t.question == question)
        mentioned = {node.attr for node in ast.walk(ast.parse(reached)) if isinstance(node, ast.Attribute)}
        earlier = [a for q, a in known.questions.items() if order(q) < order(question) and a.plain]
        names = {*asked.names, *(name for a in earlier for name in a.names), *mentioned}
        parts = (reached, answers.reached(names), asked, sorted(name for a in earlier for name in a.names), seed)
        found[question] = hashlib.sha256(repr(parts).encode()).hexdigest()[:16]
    return found
