"""Whole layers, and their feed-forward parts, that leave a transformer.

::

    from course_lib.pruning import layers

    with layers.layerdrop(model.bert.encoder.layer, 0.5, generator):  # skips each every other time
        train(model)
    half = layers.take_layers(model, "bert.encoder.layer", 2)         # two layers, evenly spaced

    heads, mlps = layers.joint_importance(model, batches, losses)  # one backward pass for both
    smaller = layers.remove_mlps(model, mlps > mlps.min())         # the least important one goes

- :mod:`.depth`: layers dropped in training, and taken out; :mod:`.mlps`: gates on
  feed-forward parts, importance, removal; :mod:`.neurons`: single neurons of them,
  importance, narrower parts; :mod:`.subnetworks`: good, random and bad ones, and what
  survives from seed to seed.
"""

from course_lib.pruning.layers.depth import layerdrop, layers_to_keep, take_layers
from course_lib.pruning.layers.mlps import gated_mlps, joint_importance, remove_mlps
from course_lib.pruning.layers.neurons import ffn_importance, slice_ffn
from course_lib.pruning.layers.subnetworks import (
    fleiss_kappa,
    overlap,
    prune_while,
    retrain,
    subnetworks,
    survival,
    survivors_below,
)
