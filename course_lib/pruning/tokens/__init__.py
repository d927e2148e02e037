"""Token dropping: score the tokens, choose, and remove their rows inside the model.

::

    from course_lib.pruning import tokens

    with tokens.dropping(model, {1: 0.15}) as drop:  # after layer 1, 15 % of a text are kept
        logits = model(**batch).logits
    attention, ffn = drop.lengths()                  # tokens in each layer, for the cost

- :mod:`.significance`: the attention that a token receives (PoWER-BERT, Goyal et al.
  2020); :mod:`.selection`: chooses tokens by score, with fixed shares per layer;
  :mod:`.dropping`: removes their rows while the model runs.
- :mod:`.cascade`: tokens and heads together (SpAtten, Wang et al. 2021);
  :mod:`.threshold`: learned thresholds (LTP, Kim et al. 2022).
- :mod:`.layers`: the place in a layer where rows can be removed.
"""

from course_lib.pruning.tokens.cascade import Cascading, cascade_step, cascading
from course_lib.pruning.tokens.dropping import Dropping, ForwardRecord, ScoreContext, dropping
from course_lib.pruning.tokens.layers import (
    EncoderLayer,
    LayerLayout,
    encoder_layers,
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
from course_lib.pruning.tokens.threshold import SoftThreshold
