"""Attention heads: find, gate, score and remove them.

::

    from course_lib.pruning import heads

    importance = heads.head_importance(model, batches, losses)       # (layers, heads): scores
    keep = heads.lowest_heads(importance, count=6, min_per_layer=1)  # select: bool, True = kept
    with heads.gated(model, keep):                                   # apply, for a look
        accuracy = evaluate(model)
    smaller = heads.remove_heads(model, keep)                        # apply, for good

"layers" are the attention modules in the order of ``find_attention``, cross-attention
included. Where layers have unequally many heads, a grid (layers, heads) is as wide as
the largest; entries beyond a layer's heads are ignored as gates and NaN as scores.
:mod:`course_lib.models.attention` lists where each model has its heads.

- :mod:`.gates`: a factor per head, given or learned (Voita et al. 2019); :mod:`.importance`:
  what the loss says of heads (Michel et al. 2019); :mod:`.placement`: selects heads by score
  or by place; :mod:`.maps`: what heads attend to.
- :mod:`.removal`: makes a smaller model; :mod:`.files`: saves and loads it;
  :mod:`.explicit`: torch's attention with its projections as layers, for all of this.
"""

from course_lib.models.attention import Attention, Layout, find_attention, output_projections
from course_lib.pruning.heads.explicit import ExplicitAttention, explicit_attention
from course_lib.pruning.heads.files import load_pruned, save_pruned
from course_lib.pruning.heads.gates import gated, train_with_gates
from course_lib.pruning.heads.importance import (
    ablate_each,
    all_but_one,
    head_importance,
    normalise_by_layer,
    prune_heads_iteratively,
)
from course_lib.pruning.heads.maps import (
    arc_baseline,
    disable,
    fixed_patterns,
    frozen_attention,
    neighbour,
    points_to,
)
from course_lib.pruning.heads.placement import (
    choose_heads,
    lowest_heads,
    prune_by_kind,
)
from course_lib.pruning.heads.removal import remove_heads, remove_heads_, slice_heads
