"""The sandbox: run a submission's code and call its functions, without trusting it.

Three calls are all that the rest of the course needs, of one warm process in the strongest
sandbox of this machine, ``worker = Worker(best())``:

- ``session = worker.open(cells, graded=["f"])``: a child with this notebook's definitions;
- ``session.call(header, blobs, functions)``: one request to the child, and its reply;
- ``session.close()``: ends the child and every process that it started.

Nothing outside imports a module from inside this package or from
:mod:`course_lib.sandbox_child`, its other half; a test enforces it.

**Two halves, since one of them is visible to the student's code.** This package is the
grader's half and stays hidden: :mod:`.layers` chooses the kind of sandbox and makes the
command that starts it, :mod:`.workers` holds the conversation with a child, :mod:`.usage`
and :mod:`.cgroup` end a child that takes more than its share. The child's half forks,
restricts itself, and runs the code. It lies outside ``course_lib.grading`` on purpose: a
sandbox hides that folder as a whole, and the child's import of ``course_lib.grading`` must
give the stand-in, never the real package.

**Four processes' rules.** The grader starts the warm process with an empty environment
and one socket. The warm process imports what labs need, once, and forks a child for each
submission. A child has a socket of its own, answers requests until the grader closes it,
and cannot reach the warm process, other children, files, or the network. Values travel as
plain data (:mod:`course_lib.student_code.plain_data`), in frames with a limit on every
length; a reply that breaks a rule ends the child.

**Limits.** The kernel limits each process (``RLIMIT_…``, :func:`.layers.limits`). The
total over all processes of a submission is watched from outside. A request has a
deadline, and a submission a :class:`Seconds` budget, which count only the time for which
the student's code had a core.
"""

from course_lib.grading.sandbox.layers import (
    LAYERS,
    Isolation,
    address_space,
    best,
    required,
    try_layer,
)
from course_lib.grading.sandbox.workers import Seconds, Session, TimeBudget, Worker
from course_lib.sandbox_child.restrictions import end_with_parent, limit

__all__ = [
    "LAYERS",
    "TimeBudget",
    "Isolation",
    "Seconds",
    "Session",
    "Worker",
    "address_space",
    "best",
    "end_with_parent",
    "limit",
    "required",
    "try_layer",
]
