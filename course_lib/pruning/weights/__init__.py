"""Single weights, and groups of them, that become zero:
scores -> select -> masks -> apply.

::

    from course_lib.pruning import weights

    scores = weights.magnitude(weights.prunable(model))  # one per weight, larger = more important
    masks = weights.global_masks(scores, 0.9)            # select: bool, True = kept, 90 % are not
    with weights.masked(model, masks):                   # apply, and hold the zeros while training
        train(model)

- :mod:`.scores`: what says that a weight matters; :mod:`.criteria`: what the loss says
  of it (gradients, Fisher, curvature); :mod:`.wanda`: by what passes through it;
  :mod:`.proximal`: zeros by training with an L1 penalty; :mod:`.movement`: scores that
  are learned.
- :mod:`.granularity`: how many go and in which shapes, exactly
  (:mod:`.exact`); :mod:`.masks`: what is kept, and how zeros stay zero.
- :mod:`.encoder`: a transformer's layers, without embeddings; :mod:`.transfer`: prune,
  then fine-tune, and what that loses.
- :mod:`.nm`: n of every m neighbours; :mod:`.columns`: sparse columns packed into dense
  ones.
- :mod:`.schedules` and :mod:`.iterative`: prune in steps, train in between;
  :mod:`.sensitivity`: one layer alone.
- :mod:`.masked_gradient`: the backward pass of a pruned layer.
- :mod:`.lottery`: tickets and their controls; :mod:`.ticket_search`: many, in
  parallel, resumable.
- :mod:`.sparse_training`: connections that move while the model trains (SET, RigL).
"""

from course_lib.pruning.weights.columns import (
    combine_columns,
    group_columns,
    utilisation,
)
from course_lib.pruning.weights.criteria import (
    curvature,
    empirical_fisher,
    gradients,
    loss_change,
    taylor,
)
from course_lib.pruning.weights.encoder import encoder_weights
from course_lib.pruning.weights.granularity import (
    GRANULARITIES,
    global_group_masks,
    global_masks,
    group_scores,
    local_masks,
    smallest,
    threshold,
)
from course_lib.pruning.weights.iterative import prune_iteratively, prune_rescored
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
from course_lib.pruning.weights.movement import moving, quadrants, soft_penalty, top_mask
from course_lib.pruning.weights.nm import nm_mask, nm_masks
from course_lib.pruning.weights.proximal import Proximal, reweighted, soft_threshold
from course_lib.pruning.weights.schedules import cubic, geometric, one_shot
from course_lib.pruning.weights.scores import Scores, ScoresOnDemand, magnitude, random
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
from course_lib.pruning.weights.transfer import prune_then_finetune, regime
from course_lib.pruning.weights.wanda import input_aware, input_norms, per_output_masks

__all__ = [
    "CONTROLS",
    "GRANULARITIES",
    "DynamicSparse",
    "Masked",
    "Masks",
    "Proximal",
    "PrunedLinear",
    "Scores",
    "ScoresOnDemand",
    "apply",
    "check",
    "combine_columns",
    "cosine_fraction",
    "cubic",
    "curvature",
    "dense_masks",
    "drop_and_grow",
    "early_stop",
    "empirical_fisher",
    "encoder_weights",
    "erdos_renyi_densities",
    "find_ticket",
    "find_tickets",
    "geometric",
    "global_group_masks",
    "global_masks",
    "gradients",
    "group_columns",
    "group_scores",
    "input_aware",
    "input_norms",
    "local_masks",
    "loss_change",
    "magnitude",
    "masked",
    "moving",
    "nm_mask",
    "nm_masks",
    "one_shot",
    "per_output_masks",
    "prunable",
    "prune_iteratively",
    "prune_rescored",
    "prune_then_finetune",
    "quadrants",
    "random",
    "random_ticket",
    "regime",
    "reinitialise",
    "remaining",
    "reweighted",
    "rewind",
    "rigl",
    "sensitivity",
    "shrink",
    "smallest",
    "soft_penalty",
    "soft_threshold",
    "sparse_evolution",
    "sparsity",
    "steps_to",
    "taylor",
    "threshold",
    "top_mask",
    "uniform_densities",
    "utilisation",
]
