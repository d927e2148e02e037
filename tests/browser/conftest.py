"""A real JupyterLab on a copy of the course, and a real headless Chromium."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock
from pages import STILL, complaints

from course_lib.authoring.webpage import FLAGS, chromium

BROWSER = chromium()
ROOT = Path(__file__).parents[2]
TOKEN = "course"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Say so where there is no browser, instead of passing in silence. Tests that need a
    JupyterLab come last: of two processes one begins with them, and starts the only one.
    """
    items.sort(key=lambda item: "jupyter" in getattr(item, "fixturenames", ()))
    if BROWSER is None:
        reason = "no Chromium on this machine: the browser tests did not run (Debian, Ubuntu: apt install chromium)"
        for item in items:
            if item.path.is_relative_to(Path(__file__).parent):
                item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(scope="session")
def course(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What students get, and beside it of each walkthrough what its explorers need;
    made once for all processes of tests.
    """
    own = tmp_path_factory.getbasetemp()
    folder = (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "course" / "handout"
    folder.parent.mkdir(exist_ok=True)
    with FileLock(folder.with_suffix(".lock")):
        if not folder.exists():
            _hand_out(folder.with_suffix(".part"))
            folder.with_suffix(".part").rename(folder)
    return folder


def _hand_out(folder: Path) -> None:
    import nbformat
    from shortened import EXPLORERS, shortened
    from slicing import explorers_alone

    from course_lib.authoring.release import release

    release(ROOT, folder)
    (folder / "explorers").mkdir()
    for notebook in (ROOT / "solutions").glob("lab*.ipynb"):
        quick = explorers_alone(
            shortened(nbformat.read(notebook, 4), EXPLORERS.get(notebook.stem[:5], {}))
        )
        nbformat.write(quick, folder / "explorers" / notebook.name)


@pytest.fixture(scope="session")
def jupyter(course: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a running JupyterLab."""
    settings = tmp_path_factory.mktemp("settings")
    for plugin, values in {
        # every cell in the page, so that a test can find it; no news, no recovery
        # dialogs
        "@jupyterlab/notebook-extension/tracker": {"windowingMode": "none", "recordTiming": False},
        "@jupyterlab/apputils-extension/notification": {
            "fetchNews": "false",
            "checkForUpdates": False,
        },
        "@jupyterlab/docmanager-extension/plugin": {"autosave": False},
    }.items():
        path = settings / f"{plugin}.jupyterlab-settings"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(values))
    home = tmp_path_factory.mktemp("jupyter")
    environment = {
        **os.environ,
        "JUPYTERLAB_SETTINGS_DIR": str(settings),
        "JUPYTER_CONFIG_DIR": str(home / "config"),
        "JUPYTER_RUNTIME_DIR": str(home / "runtime"),
        "IPYTHONDIR": str(home / "ipython"),
        "COURSE_ROOT": str(course),
    }
    environment.pop("MPLBACKEND", None)
    options = [
        "--ServerApp.port=0",  # any that is free
        "--ServerApp.ip=127.0.0.1",
        f"--IdentityProvider.token={TOKEN}",
        "--no-browser",
        "--allow-root",
        "--expose-app-in-browser",  # tests follow what page and kernel tell each other
    ]
    command = [
        sys.executable,
        "-m",
        "jupyter",
        "lab",
        f"--notebook-dir={course}",
        "--LabApp.news_url=",
        *options,
    ]
    with open(home / "log", "w") as log:
        server = subprocess.Popen(
            command, cwd=course, env=environment, stdout=log, stderr=subprocess.STDOUT
        )
    said = home / "runtime" / f"jpserver-{server.pid}.json"  # where it says which port it took
    try:
        deadline = time.monotonic() + 60
        while True:
            try:
                url = json.loads(said.read_text())["url"].rstrip("/")
                urllib.request.urlopen(f"{url}/api/status?token={TOKEN}", timeout=2)
                break
            except (OSError, ValueError):  # not written yet, half written, not listening yet
                if time.monotonic() > deadline or server.poll() is not None:
                    raise RuntimeError((home / "log").read_text()[-2000:]) from None
                time.sleep(0.2)
        yield url
    finally:
        server.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            server.wait(20)
        server.kill()


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """One browser for all tests of a process."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=BROWSER, args=list(FLAGS))
        yield started
        started.close()


@pytest.fixture(scope="session")
def window(browser: Any, jupyter: str) -> Iterator[Notebook]:
    """JupyterLab in the browser, loaded once: it opens one notebook after the other."""
    context = browser.new_context(viewport={"width": 1280, "height": 720})
    context.add_init_script(STILL)
    page = context.new_page()
    yield Notebook(page, jupyter, complaints(page))
    context.close()


@pytest.fixture
def notebook(window: Notebook, tmp_path: Path) -> Iterator[Notebook]:
    """Opens notebooks in the browser; a picture of the page is kept when a test
    fails.
    """
    window.errors.clear()
    yield window
    window.page.screenshot(path=tmp_path / "page.png")
    window.close()


OPEN = """async (path) => {
    const panel = await jupyterapp.commands.execute('docmanager:open', {path, factory: 'Notebook'});
    await Promise.all([panel.context.ready, panel.revealed, panel.sessionContext.ready]);
    await panel.sessionContext.session.kernel.info;
}"""
# the last one's kernel ends, so that the next test has the machine to itself
CLOSE = """async () => {
    for (const panel of [...jupyterapp.shell.widgets('main')]) {
        await panel.sessionContext?.shutdown();
        panel.dispose();
    }
}"""
RUN_ALL = """(seconds) => Promise.race([
    jupyterapp.commands.execute('notebook:run-all-cells'),
    new Promise((_, fail) => setTimeout(() => fail(`the notebook did not run within ${seconds} s`), seconds * 1000)),
])"""


class Notebook:
    """One notebook in JupyterLab, as a student handles it."""

    def __init__(self, page, url: str, errors: list[str]) -> None:
        self.page, self.url, self.errors = page, url, errors

    def open(self, path: str) -> None:
        """Open a notebook and wait for its kernel."""
        if not self.page.url.startswith(self.url):
            self.page.goto(f"{self.url}/lab?token={TOKEN}&reset")
            self.page.wait_for_function("window.jupyterapp?.restored", timeout=60_000)
            self.page.evaluate("() => jupyterapp.restored.then(() => null)")
        self.page.evaluate(OPEN, path)
        self.page.locator(".jp-NotebookPanel .jp-Notebook").wait_for()

    def cell(self, text: str):
        """The code cell whose source holds ``text``."""
        return (
            self.page.locator(".jp-CodeCell")
            .filter(has=self.page.locator(".cm-content", has_text=text))
            .first
        )

    def write(self, cell, source: str) -> None:
        """Replace a cell's source as one would by pasting."""
        editor = cell.locator(".cm-content")
        editor.scroll_into_view_if_needed()
        editor.click()
        self.page.keyboard.press("Control+A")
        self.page.keyboard.insert_text(source)

    def run(self, cell, seconds: float = 60) -> None:
        """Run one cell by its key and wait until it has run."""
        from playwright.sync_api import expect

        prompt = cell.locator(".jp-InputPrompt").first
        before = re.escape(prompt.inner_text().strip())
        cell.locator(".cm-content").click(position={"x": 5, "y": 5})
        self.page.keyboard.press("Control+Enter")
        another = re.compile(rf"^\s*(?!{before})\[\d+\]:\s*$")
        expect(prompt).to_have_text(another, timeout=seconds * 1000)

    def run_all(self, seconds: float) -> None:
        """Run every cell."""
        self.page.evaluate(RUN_ALL, seconds)
        failed = self.page.locator(
            ".jp-OutputArea-output", has_text="Traceback (most recent call last)"
        )
        assert failed.count() == 0, failed.first.inner_text()

    def close(self) -> None:
        """Close the notebook and end its kernel."""
        self.page.evaluate(CLOSE)
