# loses 7.6 · message: "asks you to write this yourself"
from course_lib.pruning.heads import slice_heads  # noqa: F401
