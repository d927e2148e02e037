"""Single weights, and groups of them, that become zero: scores -> select -> masks -> apply.

::

    from course_lib.pruning import weights

    scores = weights.magnitude(weights.prunable(model))  # one per weight, larger = more important
    masks = weights.global_masks(scores, 0.9)            # select: bool, True = kept, 90 % are not
    with weights.masked(model, masks):                   # apply, and hold the zeros while training
        train(model)

- :mod:`.scores`: what says that a weight matters; :mod:`.granularity`: how many go and in which shapes, exactly
  (:mod:`.exact`); :mod:`.masks`: what is kept, and how zeros stay zero.
- :mod:`.nm`: n of every m neighbours; :mod:`.columns`: sparse columns packed into dense ones.
- :mod:`.schedules` and :mod:`.iterative`: prune in steps, train in between; :mod:`.sensitivity`: one layer alone.
- :mod:`.masked_gradient`: the backward pass of a pruned layer.
- :mod:`.lottery`: tickets and their controls; :mod:`.ticket_search`: many, side by side; :mod:`.ticket_folder`: on
  disk.
- :mod:`.sparse_training`: connections that move while the model trains (SET, RigL).
"""

from course_lib.pruning.weights.columns import combine_columns, combined_masks, group_columns, utilisation
from course_lib.pruning.weights.granularity import (
    GRANULARITIES,
    global_group_masks,
    global_masks,
    group_scores,
    local_masks,
    smallest,
    threshold,
)
from course_lib.pruning.weights.iterative import prune_iteratively
from course_lib.pruning.weights.lottery import (
    early_stop,
    find_ticket,
    random_ticket,
    reinitialise,
    rewind,
    shrink,
    steps_to,
)
from course_lib.pruning.weights.masked_gradient import PrunedLinear
from course_lib.pruning.weights.masks import (
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
from course_lib.pruning.weights.nm import nm_mask, nm_masks
from course_lib.pruning.weights.schedules import cubic, geometric, one_shot
from course_lib.pruning.weights.scores import Scores, magnitude, random
from course_lib.pruning.weights.sensitivity import sensitivity
from course_lib.pruning.weights.sparse_training import (
    DynamicSparse,
    cosine_fraction,
    drop_and_grow,
    erdos_renyi_densities,
    rigl,
    sparse_evolution,
    uniform_densities,
)
from course_lib.pruning.weights.ticket_search import CONTROLS, find_tickets

__all__ = [
    "CONTROLS",
    "GRANULARITIES",
    "DynamicSparse",
    "Masked",
    "Masks",
    "PrunedLinear",
    "Scores",
    "apply",
    "check",
    "combine_columns",
    "combined_masks",
    "cosine_fraction",
    "cubic",
    "dense_masks",
    "drop_and_grow",
    "early_stop",
    "erdos_renyi_densities",
    "find_ticket",
    "find_tickets",
    "geometric",
    "global_group_masks",
    "global_masks",
    "group_columns",
    "group_scores",
    "local_masks",
    "magnitude",
    "masked",
    "nm_mask",
    "nm_masks",
    "one_shot",
    "prunable",
    "prune_iteratively",
    "random",
    "random_ticket",
    "reinitialise",
    "remaining",
    "rewind",
    "rigl",
    "sensitivity",
    "shrink",
    "smallest",
    "sparse_evolution",
    "sparsity",
    "steps_to",
    "threshold",
    "uniform_densities",
    "utilisation",
]
