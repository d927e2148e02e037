"""The browser of this machine, and how tests start it."""

from course_lib.authoring.webpage import chromium

BROWSER = chromium()
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
]
