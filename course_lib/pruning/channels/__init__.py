"""Removal of channels with their batch norms: a smaller model.

::

    from course_lib.pruning import channels

    keep = channels.select_channels(model, 0.3)  # bool by batch norm, True = kept
    smaller, report = channels.remove_filters(model, keep, images)  # dependent parameters, too
    channels.recalibrate(smaller, images)                           # new batch-norm statistics

- :mod:`.trace`: the operations of a model, by ``torch.fx``; :mod:`.groups`: the channels
  that can only be removed together.
- :mod:`.removal`: removes filters with all parameters that depend on them;
  :mod:`.comparison`: runs the model and the smaller one, to read the constant outputs of
  removed channels, and to see that both compute the same.
- :mod:`.folding`: merges a batch norm into the layer before it; :mod:`.recalibration`:
  measures its statistics again.
- :mod:`.slimming`: network slimming (``slimming.penalty``, ``slimming.scales``,
  ``select_channels``).
"""

from course_lib.pruning.channels.folding import FoldReport, fold_bn, fold_model, scale_shift
from course_lib.pruning.channels.groups import Group, channel_groups
from course_lib.pruning.channels.recalibration import recalibrate
from course_lib.pruning.channels.removal import (
    Report,
    filter_masks,
    l1_filters,
    remove_filters,
    slice_pair,
)
from course_lib.pruning.channels.slimming import (
    absorb_removed,
    cascade,
    filter_norms,
    select_channels,
)
