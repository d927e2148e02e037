"""Static pruning in four words: scores -> select -> masks -> apply.

::

    weights = prunable(model)                        # parameters with two or more dimensions, by name
    masks = global_masks(magnitude(weights), 0.9)    # scores, select
    with masked(model, masks):                       # apply, and hold the zeros while training
        train(model)
"""

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
    "LayerLayout",
    "SoftThreshold",
    "Thresholds",
    "attention_received",
    "cascade_step",
    "cascading",
    "cls_attention",
    "dropping",
    "keep_tokens",
    "kept_count",
    "progressive",
    "progressive_shares",
    "register_encoder_layer",
    "share_kept",
    "threshold_policy",
    "top_tokens",
]
