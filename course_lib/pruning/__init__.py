"""Static pruning in four words: scores -> select -> masks -> apply.

::

    weights = prunable(model)                        # parameters with two or more dimensions, by name
    masks = global_masks(magnitude(weights), 0.9)    # scores, select
    with masked(model, masks):                       # apply, and hold the zeros while training
        train(model)
"""

from course_lib.pruning.attention import Attention, Layout, find_attention, output_projections, register_attention
from course_lib.pruning.explicit import ExplicitAttention, explicit_attention
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
    "Attention",
    "ExplicitAttention",
    "LayerLayout",
    "Layout",
    "SoftThreshold",
    "Thresholds",
    "ablate_each",
    "all_but_one",
    "attention_received",
    "cascade_step",
    "cascading",
    "choose_heads",
    "cls_attention",
    "dropping",
    "explicit_attention",
    "find_attention",
    "gate_evaluator",
    "gated",
    "head_importance",
    "keep_tokens",
    "kept_count",
    "kept_heads",
    "load_pruned",
    "lowest_heads",
    "normalise_by_layer",
    "output_projections",
    "progressive",
    "progressive_shares",
    "prune_heads_iteratively",
    "refuse_head_mask",
    "register_attention",
    "register_encoder_layer",
    "remove_heads",
    "remove_heads_",
    "sample_importance",
    "save_pruned",
    "share_kept",
    "slice_heads",
    "threshold_policy",
    "top_tokens",
]
