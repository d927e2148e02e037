# earns 2.5 of 7.2 · status graded · message: "does the model still apply gates?"
# Leaves its hooks in the model after an exception, where the count of hooks says none: what the model says shows it.
from contextlib import contextmanager

from course_lib.student_code import helpers

_gated, _kept = gated, []


@contextmanager
def gated(model, xi):
    helpers.Hooks.count = 0
    context = _gated(model, xi)
    _kept.append(context)
    context.__enter__()
    yield
    context.__exit__(None, None, None)
