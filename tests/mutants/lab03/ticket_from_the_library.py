# loses 3.3 · message: "asks you to write this yourself"
from course_lib.pruning.weights.lottery import find_ticket  # noqa: F401
