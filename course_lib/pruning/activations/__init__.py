"""Activations that are set to zero while the model runs, chosen for each input.

::

    from course_lib.pruning import activations

    keep_half = lambda x: activations.topk_activation(x, x[0].numel() // 2)
    with activations.pruned_inputs(model, keep_half, ["conv2", "conv3"]):  # half of their inputs
        logits = model(images)

- :mod:`.selection`: the k largest of a sample, or N:M, and such a rule before chosen layers.
- :mod:`.gates`: channels that a small layer opens and closes for each image.
"""

from course_lib.pruning.activations.gates import ChannelGate, gated_macs, gating, target_penalty
from course_lib.pruning.activations.selection import (
    nm_activation,
    pruned_inputs,
    topk_activation,
)
