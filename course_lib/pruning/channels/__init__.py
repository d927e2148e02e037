"""Removal of channels with their batch norms: a smaller model.

::

    from course_lib.pruning import channels

    keep = channels.select_channels(model, 0.3)  # bool by batch norm, True = kept
    smaller, report = channels.remove_filters(model, keep, images)  # dependent parameters, too
    channels.recalibrate(smaller, images)                           # new batch-norm statistics

- :mod:`.trace`: a model's operations; :mod:`.groups`: channels that go together.
- :mod:`.removal`: filters with all that depends on them; :mod:`.comparison`: runs the
  model and the smaller one, which must compute the same.
- :mod:`.folding` and :mod:`.recalibration` of batch norms; :mod:`.slimming`: its scales.
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
