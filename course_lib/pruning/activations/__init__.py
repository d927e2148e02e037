"""Activations that become zero as the model runs: what stays is chosen anew for every
input.

::

    from course_lib.pruning import activations

    keep_half = lambda x: activations.topk_activation(x, x[0].numel() // 2)
    with activations.pruned_inputs(model, keep_half, ["conv2", "conv3"]):  # they see half of it
        logits = model(images)

- :mod:`.selection`: the k largest of a sample, or n of every m neighbours;
  :mod:`.inputs`: a rule in front of chosen layers.
- :mod:`.gates`: whole channels that a small layer opens and closes for each image.
"""

from course_lib.pruning.activations.gates import ChannelGate, gated_macs, gating, target_penalty
from course_lib.pruning.activations.inputs import pruned_inputs
from course_lib.pruning.activations.selection import (
    nm_activation,
    random_activation,
    topk_activation,
)
