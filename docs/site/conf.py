"""How Sphinx makes the course's web site: `make site`. What it reads lies in
``build/site-source``, where :mod:`course_lib.authoring.site` lays the repository's own
pages in their places, and those of this folder at the top.
"""

import sys
from pathlib import Path

import course_lib

sys.path.insert(0, str(Path(__file__).parent))  # its three extensions
import rooms

project = "Neural-network pruning"
author = "the pruning-course authors"
copyright = "the pruning-course authors. Code: MIT licence, texts and figures: CC BY 4.0"
version = release = course_lib.__version__
language = "en"
smartquotes = False  # "none" is Python, in docstrings as in texts

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "sphinx_design",
    "formulas",
    "links",
    "rooms",
]
include_patterns = [
    "*.md",
    "docs/*.md",
    "data/README.md",
    "reference/*.rst",
    "slides/cheat_sheet.md",
    "solutions/index.md",
    "solutions/lab*.ipynb",
]
exclude_patterns = ["README.md"]  # the front page has it

# walkthroughs stand here as they were executed
nb_execution_mode = "off"
nb_render_markdown_format = "myst"  # what they display: tables, formulas
myst_enable_extensions = ["amsmath", "colon_fence", "dollarmath"]
myst_heading_anchors = 4
# functions that templates call; the languages of blocks, which a test looks after
suppress_warnings = ["config.cache", "misc.highlighting_failure"]

html_math_renderer = "mathml"

templates_path = [str(Path(__file__).parent / "_templates")]
autosummary_context = {"files": rooms.files, "elsewhere": rooms.elsewhere}
autosummary_generate = True
autodoc_default_options = {"members": True}
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_inherit_docstrings = False
autodoc_preserve_defaults = True  # score=scales, not the function's address
add_module_names = False
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 70
toc_object_entries_show_parents = "hide"
napoleon_numpy_docstring = False
napoleon_custom_sections = [("Attributes", "params_style")]
napoleon_use_param = False  # several may share a line: "rows, columns: …"
napoleon_use_rtype = False
nitpicky = True
nitpick_ignore_regex = [
    # nobody else's pages can be linked to with the network off
    (
        "py:.*",
        r"(collections|concurrent|contextlib|ipywidgets|matplotlib|np|numpy|os|pathlib|random"
        r"|fx|pandas|torch|transformers|types)(\..*)?|DatasetDict|Dataset|Tensor|Module",
    ),
    # the labs' own experiments are no part of the reference
    ("py:class", r"course_lib\.experiments\..*"),
    # what stands for a type of the caller's, or for a longer one
    ("py:class", r"(.*\.)?(AnyBatch|AnyModule|Batch|_?T|_Text|Words)"),
]

html_theme = "pydata_sphinx_theme"
html_title = "Neural-network pruning: a course that runs"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_js_files = ["site.js"]
html_use_index = html_domain_indices = False  # one searches
html_copy_source = False
html_show_sourcelink = False
html_theme_options = {
    "logo": {"text": "Neural-network pruning"},
    "navbar_align": "left",
    "navbar_persistent": ["search-button"],
    "navbar_end": ["theme-switcher"],
    "header_links_before_dropdown": 5,
    "secondary_sidebar_items": ["page-toc"],
    "search_bar_text": "Search the course …",
    "show_toc_level": 2,
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
html_sidebars = {"index": [], "docs/own_models": [], "docs/real_data": [], "docs/families": []}
html_context = {"default_mode": "auto"}
