"""Low rank: components of a matrix are removed, with gates that learn how many each
layer needs.

::

    from course_lib.pruning import components, weights

    names = list(weights.encoder_weights(model))      # of a transformer; or any nn.Linear's
    gated = components.gate_components(model, names)  # W = P·diag(z)·Q, all components open
    to_target = components.Lagrangian(target=0.3)     # of the dense layers' weights
    train(gated, lambda: to_target(components.expected_size(gated)))
    smaller = components.compact_components(gated)    # two plain linear layers each

- :mod:`.low_rank`: factorise, gate, compact; gates that are exactly 0 or 1 and have a gradient
  (Louizos et al. 2018), and a penalty that reaches a target size.
"""

from course_lib.pruning.components.low_rank import (
    GatedLinear,
    HardConcrete,
    Lagrangian,
    LowRank,
    compact,
    compact_components,
    dual_step,
    expected_size,
    factorise,
    gate_components,
    gated_layers,
    hard_concrete,
    lagrangian,
    open_probability,
    size_left,
    truncate,
)
