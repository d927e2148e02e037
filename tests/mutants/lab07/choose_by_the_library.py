# loses 7.5 · message: "asks you to write this yourself"
from course_lib.pruning.heads import choose_heads  # noqa: F401
