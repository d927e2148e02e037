"""Single weights, and groups of weights, that are set to zero: scores -> select -> masks -> apply.

::

    from course_lib.pruning import weights

    scores = weights.magnitude(weights.prunable(model))  # one per weight, larger = more important
    masks = weights.global_masks(scores, 0.9)            # select: True = kept; 90 % are pruned
    with weights.masked(model, masks):                   # apply, and hold the zeros while training
        train(model)

- Scores: :mod:`.scores` (magnitude, random), :mod:`.criteria` (the predicted change of the loss:
  Taylor, Fisher, curvature, Optimal Brain Damage), :mod:`.wanda` (weights times the norm of their
  inputs); learned while training: :mod:`.movement` (movement pruning, Sanh et al. 2020),
  :mod:`.proximal` (an L1 penalty).
- Masks: ``prune_lowest`` (the rule for ties), :mod:`.granularity` (in which shapes), :mod:`.masks`
  (applies and holds them), :mod:`.nm` (N:M sparsity), :mod:`.columns` (column combining, Kung et
  al. 2019), :mod:`.encoder` (a transformer's layers, without embeddings).
- Language models without training: :mod:`.column_loop` (a matrix pruned or rounded, SparseGPT and
  GPTQ), :mod:`.walk` (layer by layer).
- Courses of pruning: :mod:`.iterative` (in steps, by a schedule, training in between),
  :mod:`.sensitivity` (one layer at a time), :mod:`.transfer` (before fine-tuning, Gordon et al.
  2020), :mod:`.lottery` (tickets and their controls), :mod:`.sparse_training` (SET, RigL).
"""

from course_lib.pruning.weights.column_loop import prune_and_round
from course_lib.pruning.weights.columns import combine_columns, group_columns, utilisation
from course_lib.pruning.weights.criteria import (
    curvature,
    empirical_fisher,
    gradients,
    loss_change,
    mean_squared_gradients,
    taylor,
)
from course_lib.pruning.weights.encoder import encoder_weights
from course_lib.pruning.weights.granularity import (
    GRANULARITIES,
    global_masks,
    group_scores,
    local_masks,
    smallest,
)
from course_lib.pruning.weights.iterative import (
    cubic,
    geometric,
    one_shot,
    prune_iteratively,
    prune_rescored,
)
from course_lib.pruning.weights.lottery import (
    CONTROLS,
    early_stop,
    find_ticket,
    find_tickets,
    random_ticket,
    reinitialise,
    rewind,
    shrink,
)
from course_lib.pruning.weights.masks import (
    Masked,
    Masks,
    PrunedLinear,
    apply,
    check,
    dense_masks,
    masked,
    prunable,
    remaining,
    sparsity,
)
from course_lib.pruning.weights.movement import movement_pruning, soft_penalty, top_mask
from course_lib.pruning.weights.nm import nm_mask, nm_masks
from course_lib.pruning.weights.proximal import Proximal, reweighted, soft_threshold
from course_lib.pruning.weights.scores import Scores, magnitude, random
from course_lib.pruning.weights.sensitivity import sensitivity
from course_lib.pruning.weights.sparse_training import (
    DynamicSparse,
    cosine_fraction,
    drop_and_grow,
    erdos_renyi_densities,
    rigl,
    sparse_evolution,
)
from course_lib.pruning.weights.transfer import prune_then_finetune
from course_lib.pruning.weights.walk import walk_layers_
from course_lib.pruning.weights.wanda import input_aware, input_norms, per_output_masks
from course_lib.ranking import prune_lowest
