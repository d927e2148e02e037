"""What a code host does with the repository's pages, and Sphinx does not: links to files
that are no page, sections that have pages, a line of links on each walkthrough.
"""

from __future__ import annotations

import json
import posixpath
import re
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.transforms import SphinxTransform

# the pages that are called otherwise here
PAGES = {"README": "index"}
# pages that lead to others
SECTIONS = {
    "solutions/index": ["lab*", "../slides/cheat_sheet"],
    "docs/instructors": ["capstone", "oral_questions", "threat_model"],
    "docs/own_models": ["families"],
    "docs/extending": ["../data/README", "../CHANGELOG"],
}
BUILT = re.compile(r"slides/_build/(\w+\.(?:html|pdf))")  # decks and the sheet
DECK = re.compile(r"slides/lab(\d\d)_\w+\.py")  # the source of one
MARKERS = ("### BEGIN SOLUTION", "### END SOLUTION")
# of controls, in a walkthrough; an explorer is a picture here
KEYS = re.compile(r"(\s*)[^().]*\barrow\s+keys\b[^().]*\.?")
PICTURE = "This page shows one setting. The controls work in the notebook."


class RepositoryLinks(SphinxTransform):
    """Links to pages, decks and folders, as they are on the site."""

    default_priority = 10

    def apply(self, **kwargs: Any) -> None:
        for node in list(self.document.findall(addnodes.pending_xref)):
            if node.get("refdomain") == "doc":
                self._of_page(node)
            elif node.get("reftype") == "myst":
                self._of_no_file(node)
        for node in list(self.document.findall(addnodes.download_reference)):
            built = BUILT.fullmatch(self._place(node))
            if built:
                home = "../" * self.env.docname.count("/")
                refuri = f"{home}decks/{built[1]}"
                node.replace_self(nodes.reference("", "", *node.children, refuri=refuri))

    def _of_page(self, node: addnodes.pending_xref) -> None:
        """One that looks like a page, and is none: a student's notebook."""
        name = node["reftarget"] = PAGES.get(node["reftarget"], node["reftarget"])
        notebook = f"/{name}.ipynb"
        if name not in self.env.found_docs and Path(f"{self.env.srcdir}{notebook}").is_file():
            node.replace_self(
                addnodes.download_reference(
                    "", "", *node.children, reftarget=notebook, refdoc=self.env.docname
                )
            )

    def _place(self, node: nodes.Element) -> str:
        """Where in the repository a link leads."""
        folder = posixpath.dirname(self.env.docname)
        return posixpath.normpath(posixpath.join(folder, node["reftarget"])).lstrip("/")

    def _of_no_file(self, node: addnodes.pending_xref) -> None:
        place = self._place(node)
        if deck := DECK.fullmatch(place):
            page = f"{deck[1]}.html"
            if (Path(self.env.srcdir) / "slides" / "_build" / page).is_file():
                refuri = f"{'../' * self.env.docname.count('/')}decks/{page}"
                node.replace_self(nodes.reference("", "", *node.children, refuri=refuri))
            else:
                node.replace_self([*node.children, nodes.Text(" (not built)")])
        elif BUILT.fullmatch(place):  # nobody has built that deck
            node.replace_self([*node.children, nodes.Text(" (not built)")])
        elif (Path(self.env.srcdir) / place).is_dir():
            packed = f"{place.replace('/', '-')}.zip"  # see course_lib.authoring.site
            node.replace_self(
                addnodes.download_reference(
                    "", "", *node.children, reftarget=f"/folders/{packed}", refdoc=self.env.docname
                )
            )


def read(app: Any, docname: str, source: list[str]) -> None:
    """Sections lead to their pages; a walkthrough to its lab and its deck, without the
    marks of answers and the keys of controls that only the notebook has.
    """
    if docname in SECTIONS:
        pages = "\n".join(SECTIONS[docname])
        source[0] += f"\n\n```{{toctree}}\n:hidden:\n:glob:\n\n{pages}\n```\n"
    elif found := re.fullmatch(r"solutions/(lab(\d\d)_\w+)", docname):
        notebook = json.loads(source[0])
        first = notebook["cells"][0]
        title, _, rest = "".join(first["source"]).partition("\n")
        links = [
            f"[The lab, to fill in](path:../labs/{found[1]}.ipynb)",
            f"[this walkthrough as a notebook](path:{found[1]}.ipynb)",
        ]
        if (Path(app.srcdir) / "slides" / "_build" / f"{found[2]}.html").is_file():
            links.append(f"[slides](../slides/_build/{found[2]}.html)")
        first["source"] = f"{title}\n\n{' · '.join(links)}\n{rest}"
        for cell in notebook["cells"]:
            text = "".join(cell["source"])
            if cell["cell_type"] == "code":
                lines = text.split("\n")
                text = "\n".join(line for line in lines if line.strip() not in MARKERS)
            else:
                text = KEYS.sub(rf"\g<1>{PICTURE}", text)
            cell["source"] = text
        source[0] = json.dumps(notebook)


def setup(app: Any) -> dict[str, Any]:
    app.connect("source-read", read)
    app.add_transform(RepositoryLinks)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
