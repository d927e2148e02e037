"""Static pruning in four words: scores -> select -> masks -> apply.

::

    weights = prunable(model)                        # parameters with two or more dimensions, by name
    masks = global_masks(magnitude(weights), 0.9)    # scores, select
    with masked(model, masks):                       # apply, and hold the zeros while training
        train(model)
"""

from course_lib.pruning.autograd import PrunedLinear
from course_lib.pruning.batchnorm import recalibrate
from course_lib.pruning.channels import Group, channel_groups
from course_lib.pruning.filters import filter_masks, l1_filters, remove_filters, slice_pair
from course_lib.pruning.folding import FoldReport, fold_bn, fold_model, scale_shift
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
from course_lib.pruning.slimming import absorb_removed, cascade, select_channels

__all__ = [
    "GRANULARITIES",
    "FoldReport",
    "Group",
    "Masked",
    "Masks",
    "PrunedLinear",
    "Scores",
    "absorb_removed",
    "apply",
    "cascade",
    "channel_groups",
    "check",
    "cubic",
    "dense_masks",
    "filter_masks",
    "fold_bn",
    "fold_model",
    "geometric",
    "global_group_masks",
    "global_masks",
    "group_scores",
    "l1_filters",
    "local_masks",
    "magnitude",
    "masked",
    "one_shot",
    "prunable",
    "prune_iteratively",
    "random",
    "recalibrate",
    "remaining",
    "remove_filters",
    "scale_shift",
    "select_channels",
    "sensitivity",
    "slice_pair",
    "smallest",
    "sparsity",
    "threshold",
]
