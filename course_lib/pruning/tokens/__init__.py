"""Token dropping: score the tokens, choose, and remove their rows inside the model.

::

    from course_lib.pruning import tokens

    with tokens.dropping(model, {1: 0.15}) as drop:  # after layer 1, 15 % of a text are kept
        logits = model(**batch).logits
    attention, ffn = drop.lengths()                  # tokens in each layer, for the cost

- :mod:`.selection`: the attention that a token receives (PoWER-BERT, Goyal et al. 2020),
  and tokens chosen by it, with fixed shares or learned thresholds (LTP, Kim et al. 2022);
  :mod:`.dropping`: removes their rows while the model runs.
- :mod:`.cascade`: tokens and heads together (SpAtten, Wang et al. 2021).
"""

from course_lib.models.families import LayerLayout
from course_lib.pruning.tokens.cascade import Cascading, cascade_step, cascading
from course_lib.pruning.tokens.dropping import Dropping, ForwardRecord, dropping, encoder_layers
from course_lib.pruning.tokens.selection import (
    SoftThreshold,
    attention_received,
    keep_tokens,
    kept_count,
    progressive,
    progressive_shares,
    threshold_policy,
    top_tokens,
)
