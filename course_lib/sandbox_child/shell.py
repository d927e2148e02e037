"""The IPython that a submission finds in the sandbox: ``get_ipython()``, ``display``, every
magic. Shell commands and other interpreters are not run.
"""

from __future__ import annotations

import os
import sys
from types import ModuleType
from typing import Any

from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.text import LSString, SList
from traitlets.config import Config

from course_lib.student_code.cells import OTHER_PROGRAMS


class Shell(InteractiveShell):
    """IPython without a front end, a history on disk, or a way to start programs."""

    def system(self, cmd: str) -> None:
        """``!cmd``: does nothing."""

    def getoutput(self, cmd: str, split: bool = True, depth: int = 0) -> Any:
        """``x = !cmd``: no lines."""
        return SList() if split else LSString("")

    def enable_gui(self, gui: str | None = None) -> None:
        """``%matplotlib inline``: there is no window."""

    def ask_exit(self) -> None:
        """``exit()``: a notebook, too, goes on to the end of the cell."""

    def run_cell_magic(self, magic_name: str, line: str, cell: str) -> Any:
        """``%%name``; a cell of another program's language does nothing."""
        return (
            None if magic_name in OTHER_PROGRAMS else super().run_cell_magic(magic_name, line, cell)
        )


def start(folder: str) -> None:
    """Make the one shell of this process, before children are forked from it.

    Args:
        folder: where IPython may keep its settings.
    """
    config = Config()
    config.HistoryManager.enabled = False
    # what is displayed goes nowhere: no pictures and pages are made of it
    config.DisplayFormatter.active_types = ["text/plain"]
    Shell.instance(config=config, ipython_dir=os.path.join(folder, ".ipython"))


def enter() -> dict[str, Any]:
    """In a child: a fresh ``__main__``, which the shell works in. The names in it."""
    module = ModuleType("__main__")
    shell = Shell.instance()
    shell.user_module, shell.user_ns = shell.prepare_user_module(module)
    shell.init_user_ns()
    shell.init_sys_modules()
    shell.builtin_trap.activate()  # own modules, too, call get_ipython and display
    assert sys.modules["__main__"] is module
    return module.__dict__
