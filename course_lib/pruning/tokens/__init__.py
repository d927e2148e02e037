"""Tokens that are not worth their cost: score them, choose, drop their rows in the
middle of the model.

::

    from course_lib.pruning import tokens

    with tokens.dropping(model, {1: 0.15}) as drop:  # after layer 1, 15 % of a text go on
        logits = model(**batch).logits
    attention, ffn = drop.lengths()                  # tokens in each layer, for the cost

- :mod:`.significance`: the attention that a token receives; :mod:`.selection`: which
  ones stay; :mod:`.dropping`: their rows leave the model as it runs.
- :mod:`.cascade`: tokens and heads together (SpAtten); :mod:`.threshold`: thresholds
  that are learned (LTP).
- :mod:`.layers`: where a layer can lose rows; :mod:`.attention_masks`: what its
  attention mask becomes.
"""

from course_lib.pruning.tokens.cascade import Cascading, cascade_step, cascading
from course_lib.pruning.tokens.dropping import (
    Dropping,
    ForwardRecord,
    ScoreContext,
    Thresholds,
    dropping,
)
from course_lib.pruning.tokens.layers import (
    EncoderLayer,
    LayerLayout,
    encoder_layers,
    register_encoder_layer,
)
from course_lib.pruning.tokens.selection import (
    keep_tokens,
    kept_count,
    progressive,
    progressive_shares,
    threshold_policy,
    top_tokens,
)
from course_lib.pruning.tokens.significance import attention_received, cls_attention
from course_lib.pruning.tokens.threshold import SoftThreshold, share_kept
