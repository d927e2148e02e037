"""Pruning, in rooms: one for each kind of thing that can go.

::

    from course_lib.pruning import activations, channels, components, heads, layers, tokens, weights

- :mod:`~course_lib.pruning.weights`: single weights and groups of them become zero
  (magnitude, granularity, schedules, sensitivity, lottery tickets, sparse training), in
  any shape or as n of every m neighbours.
- :mod:`~course_lib.pruning.activations`: what a layer sees becomes zero, chosen anew
  for every input; channels open and close by image.
- :mod:`~course_lib.pruning.channels`: channels leave the model, and their batch norms
  with them (network slimming, folding, removal of filters).
- :mod:`~course_lib.pruning.components`: components of a matrix leave; what is left is
  two smaller ones.
- :mod:`~course_lib.pruning.heads`: attention heads are gated, scored and taken out.
- :mod:`~course_lib.pruning.layers`: whole layers, and their feed-forward parts, leave;
  subnetworks of heads and parts.
- :mod:`~course_lib.pruning.tokens`: tokens leave a text while the model runs.

All have one grammar: scores -> select -> masks or keep -> apply. A score is larger
where more important; True is kept.
"""
