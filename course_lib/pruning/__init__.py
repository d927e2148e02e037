"""Pruning, in rooms: one for each kind of thing that can go.

::

    from course_lib.pruning import channels, heads, tokens, weights

- :mod:`~course_lib.pruning.weights`: single weights and groups of them become zero (magnitude, granularity, schedules,
  sensitivity, lottery tickets, sparse training).
- :mod:`~course_lib.pruning.channels`: channels leave the model, and their batch norms with them (network slimming,
  folding, removal of filters).
- :mod:`~course_lib.pruning.heads`: attention heads are gated, scored and taken out.
- :mod:`~course_lib.pruning.tokens`: tokens leave a text while the model runs.

All have one grammar: scores -> select -> masks or keep -> apply. A score is larger where more important; True is kept.
"""
