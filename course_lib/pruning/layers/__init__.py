"""Removal of whole transformer layers, and of their feed-forward parts.

::

    from course_lib.pruning import layers

    with layers.layerdrop(model.bert.encoder.layer, 0.5, generator):  # skips each with p = 0.5
        train(model)
    half = layers.take_layers(model, "bert.encoder.layer", 2)         # two layers, evenly spaced

    heads, mlps = layers.joint_importance(model, batches, losses)  # one backward pass for both
    smaller = layers.remove_mlps(model, mlps > mlps.min())         # all but the least important

- :mod:`.depth`: layers skipped in training (LayerDrop, Fan et al. 2020) and removed;
  :mod:`.feed_forward`: gates, importance and removal of feed-forward parts and of their
  neurons; :mod:`.influence`: how much a layer changes (ShortGPT, Men et al. 2024);
  :mod:`.subnetworks`: good, random and bad subnetworks, and the agreement between seeds
  (Prasanna et al. 2020).
"""

from course_lib.pruning.layers.depth import layerdrop, layers_to_keep, take_layers
from course_lib.pruning.layers.feed_forward import (
    ffn_importance,
    gated_mlps,
    joint_importance,
    remove_mlps,
    slice_ffn,
)
from course_lib.pruning.layers.influence import influence
from course_lib.pruning.layers.subnetworks import (
    fleiss_kappa,
    overlap,
    prune_while,
    retrain,
    subnetworks,
)
