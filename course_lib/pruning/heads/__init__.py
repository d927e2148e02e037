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

- :mod:`.gates`: a factor per head; :mod:`.importance`: expected sensitivity of the loss
  to a gate (Michel et al. 2019); :mod:`.ablation`: removes each head in turn;
  :mod:`.placement`: selects heads by score or by place.
- :mod:`.learned`: trains hard-concrete gates on heads (Voita et al. 2019);
  :mod:`.roles`: the tokens that a head attends to; :mod:`.patterns`: kinds of attention
  maps, and fixed maps in place of learned ones.
- :mod:`.removal`: makes a smaller model; :mod:`.files`: saves and loads it;
  :mod:`.explicit`: torch's attention with its projections as layers, so that all of
  this works there, too.
"""

from course_lib.models.attention import (
    Attention,
    Layout,
    find_attention,
    output_projections,
)
from course_lib.pruning.heads.ablation import ablate_each, all_but_one
from course_lib.pruning.heads.explicit import ExplicitAttention, explicit_attention
from course_lib.pruning.heads.files import load_pruned, save_pruned
from course_lib.pruning.heads.gates import gated, refuse_head_mask
from course_lib.pruning.heads.importance import (
    head_importance,
    normalise_by_layer,
    prune_heads_iteratively,
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
