"""Static pruning in four words: scores -> select -> masks -> apply.

::

    weights = prunable(model)                        # parameters with two or more dimensions, by name
    masks = global_masks(magnitude(weights), 0.9)    # scores, select
    with masked(model, masks):                       # apply, and hold the zeros while training
        train(model)
"""

from course_lib.pruning.attention import Attention, Layout, find_attention, output_projections, register_attention
from course_lib.pruning.autograd import PrunedLinear
from course_lib.pruning.batchnorm import recalibrate
from course_lib.pruning.channels import Group, channel_groups
from course_lib.pruning.explicit import ExplicitAttention, explicit_attention
from course_lib.pruning.filters import filter_masks, l1_filters, remove_filters, slice_pair
from course_lib.pruning.folding import FoldReport, fold_bn, fold_model, scale_shift
from course_lib.pruning.head_files import load_pruned, save_pruned
from course_lib.pruning.head_removal import kept_heads, remove_heads, remove_heads_, slice_heads
from course_lib.pruning.head_rules import choose_heads, lowest_heads
from course_lib.pruning.heads import (
    ablate_each,
    all_but_one,
    gate_evaluator,
    gated,
    head_importance,
    normalise_by_layer,
    prune_heads_iteratively,
    refuse_head_mask,
    sample_importance,
)
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
from course_lib.pruning.tokens import (
    LayerLayout,
    SoftThreshold,
    Thresholds,
    attention_received,
    cascade_step,
    cascading,
    cls_attention,
    dropping,
    keep_tokens,
    kept_count,
    progressive,
    progressive_shares,
    register_encoder_layer,
    share_kept,
    threshold_policy,
    top_tokens,
)

__all__ = [
    "GRANULARITIES",
    "Attention",
    "ExplicitAttention",
    "FoldReport",
    "Group",
    "LayerLayout",
    "Layout",
    "Masked",
    "Masks",
    "PrunedLinear",
    "Scores",
    "SoftThreshold",
    "Thresholds",
    "ablate_each",
    "absorb_removed",
    "all_but_one",
    "apply",
    "attention_received",
    "cascade",
    "cascade_step",
    "cascading",
    "channel_groups",
    "check",
    "choose_heads",
    "cls_attention",
    "cubic",
    "dense_masks",
    "dropping",
    "explicit_attention",
    "filter_masks",
    "find_attention",
    "fold_bn",
    "fold_model",
    "gate_evaluator",
    "gated",
    "geometric",
    "global_group_masks",
    "global_masks",
    "group_scores",
    "head_importance",
    "keep_tokens",
    "kept_count",
    "kept_heads",
    "l1_filters",
    "load_pruned",
    "local_masks",
    "lowest_heads",
    "magnitude",
    "masked",
    "normalise_by_layer",
    "one_shot",
    "output_projections",
    "progressive",
    "progressive_shares",
    "prunable",
    "prune_heads_iteratively",
    "prune_iteratively",
    "random",
    "recalibrate",
    "refuse_head_mask",
    "register_attention",
    "register_encoder_layer",
    "remaining",
    "remove_filters",
    "remove_heads",
    "remove_heads_",
    "sample_importance",
    "save_pruned",
    "scale_shift",
    "select_channels",
    "sensitivity",
    "share_kept",
    "slice_heads",
    "slice_pair",
    "smallest",
    "sparsity",
    "threshold",
    "threshold_policy",
    "top_tokens",
]
