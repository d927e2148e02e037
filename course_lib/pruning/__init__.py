"""Static pruning in four words: scores -> select -> masks -> apply.

::

    weights = prunable(model)                        # parameters with two or more dimensions, by name
    masks = global_masks(magnitude(weights), 0.9)    # scores, select
    with masked(model, masks):                       # apply, and hold the zeros while training
        train(model)
"""

from course_lib.pruning.autograd import PrunedLinear
from course_lib.pruning.batchnorm import recalibrate
from course_lib.pruning.iterative import prune_iteratively
from course_lib.pruning.masks import (
    Masked,
    Masks,
    apply,
    check,
    dense_masks,
    masked,
    prunable,
    remaining,
    sparsity,
)
from course_lib.pruning.patterns import (
    GRANULARITIES,
    global_group_masks,
    global_masks,
    group_scores,
    local_masks,
    smallest,
    threshold,
)
from course_lib.pruning.schedules import cubic, geometric, one_shot
from course_lib.pruning.scores import Scores, magnitude, random
from course_lib.pruning.sensitivity import sensitivity

__all__ = [
    "GRANULARITIES",
    "Masked",
    "Masks",
    "PrunedLinear",
    "Scores",
    "apply",
    "check",
    "cubic",
    "dense_masks",
    "geometric",
    "global_group_masks",
    "global_masks",
    "group_scores",
    "local_masks",
    "magnitude",
    "masked",
    "one_shot",
    "prunable",
    "prune_iteratively",
    "random",
    "recalibrate",
    "remaining",
    "sensitivity",
    "smallest",
    "sparsity",
    "threshold",
]
