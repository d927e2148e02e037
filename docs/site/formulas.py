"""Formulas as MathML, which browsers set themselves: a page needs no script for them."""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml

# what docutils does not read, and what is as good: MathML stretches brackets by itself
READ = (
    (re.compile(r"\\[bB]ig+[lr]?(?![a-zA-Z])"), ""),
    (re.compile(r"\\dots\b"), r"\\ldots"),
    (re.compile(r"\\([td]?)frac\s*(\d)\s*(\d)"), r"\\\1frac{\2}{\3}"),
)


def of(tex: str, block: bool = False) -> str:
    """MathML of a formula.

    Raises:
        MathError: for a command that docutils does not know.
    """
    for pattern, better in READ:
        tex = pattern.sub(better, tex)
    return str(tex2mathml(tex, as_block=block))


def _visit(translator: Any, node: nodes.Element) -> None:
    block = isinstance(node, nodes.math_block)
    try:
        text = of(node.astext(), block)
    except MathError as problem:
        translator.document.reporter.warning(f"formula: {problem}", base_node=node)
        text = translator.encode(node.astext())
    tag = "div" if block else "span"
    translator.body.append(f'<{tag} class="math">{text}</{tag}>')
    raise nodes.SkipNode


def setup(app: Any) -> dict[str, Any]:
    app.add_html_math_renderer("mathml", (_visit, None), (_visit, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
