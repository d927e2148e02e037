"""Attention heads: find them, gate them, score them, take them out.

::

    from course_lib.pruning import heads

    importance = heads.head_importance(model, batches, losses)       # (layers, heads): scores
    keep = heads.lowest_heads(importance, count=6, min_per_layer=1)  # select: bool, True = kept
    with heads.gated(model, keep):                                   # apply, for a look
        accuracy = evaluate(model)
    smaller = heads.remove_heads(model, keep)                        # apply, for good

"layers" are the attention modules in the order of ``find_attention``, cross-attention
included. Where layers have unequally many heads, a grid (layers, heads) is as wide as
the largest; what lies beyond a layer's heads is ignored as a gate and NaN as a score.
Where a model has its heads is written down in :mod:`course_lib.models.attention`.

- :mod:`.gates`: a factor on each head; :mod:`.importance`: what the loss says of it;
  :mod:`.ablation`: each head tried out; :mod:`.placement`: which ones go, by score or
  by place.
- :mod:`.learned`: gates that a network learns to close; :mod:`.roles`: what a head
  looks at; :mod:`.patterns`: what its maps are like, and fixed ones in their place.
- :mod:`.removal`: a smaller model; :mod:`.files`: such a model on disk;
  :mod:`.explicit`: torch's attention with its projections as layers, so that all this
  works there, too.
"""

from course_lib.models.attention import (
    Attention,
    Layout,
    find_attention,
    output_projections,
    register_attention,
)
from course_lib.pruning.heads.ablation import ablate_each, all_but_one, gate_evaluator
from course_lib.pruning.heads.explicit import ExplicitAttention, explicit_attention
from course_lib.pruning.heads.files import load_pruned, save_pruned
from course_lib.pruning.heads.gates import gated, refuse_head_mask
from course_lib.pruning.heads.importance import (
    head_importance,
    normalise_by_layer,
    prune_heads_iteratively,
    sample_importance,
)
from course_lib.pruning.heads.learned import train_with_gates
from course_lib.pruning.heads.patterns import (
    attention_change,
    attention_pattern,
    disable,
    fixed_patterns,
    frozen_attention,
    raganato,
    replaced_attention,
    uniform,
)
from course_lib.pruning.heads.placement import (
    choose_heads,
    lowest_heads,
    prunable_share,
    prune_by_kind,
)
from course_lib.pruning.heads.removal import kept_heads, remove_heads, remove_heads_, slice_heads
from course_lib.pruning.heads.roles import arc_baseline, neighbour, points_to, rarest
