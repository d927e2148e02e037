"""Pruning methods, one package per kind of structure that is removed.

::

    from course_lib.pruning import activations, channels, components, heads, layers, tokens, weights

- :mod:`~course_lib.pruning.weights`: single weights and groups of weights are set to
  zero, in any shape or as N:M (magnitude, Optimal Brain Damage, Fisher, Wanda, movement
  pruning, schedules, sensitivity, lottery tickets, SET, RigL).
- :mod:`~course_lib.pruning.activations`: activations are set to zero, chosen for each
  input; channels are gated for each image.
- :mod:`~course_lib.pruning.channels`: channels are removed with their batch norms
  (network slimming, batch norm folding, removal of filters).
- :mod:`~course_lib.pruning.components`: a matrix becomes the product of two smaller
  ones (truncated SVD, hard-concrete gates on its components).
- :mod:`~course_lib.pruning.heads`: attention heads are gated, scored and removed
  (importance by Michel et al., gates by Voita et al.).
- :mod:`~course_lib.pruning.layers`: whole layers, and their feed-forward parts, are
  removed (LayerDrop, subnetworks of heads and feed-forward parts).
- :mod:`~course_lib.pruning.tokens`: tokens are dropped while the model runs
  (PoWER-BERT, Learned Token Pruning, SpAtten).

All follow the same steps: scores -> select -> masks or keep -> apply. A score is larger
where more important; True is kept.
"""
