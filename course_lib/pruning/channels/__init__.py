"""Channels that are removed: a smaller model, with its batch norms, and the constants
that removed channels leave.

::

    from course_lib.pruning import channels

    keep = channels.select_channels(model, 0.3)  # bool by batch norm, True = kept
    smaller, report = channels.remove_filters(model, keep, images)  # and all that belongs to them
    channels.recalibrate(smaller, images)                           # batch norms measure again

- :mod:`.trace`: what a model does with its tensors; :mod:`.groups`: which channels
  can only be removed together.
- :mod:`.removal`: filters, with all that belongs to them, cut out; :mod:`.constants`:
  what they leave behind.
- :mod:`.folding`: a batch norm becomes part of the layer before it;
  :mod:`.recalibration`: its statistics anew.
- :mod:`.slimming`: network slimming, where training itself chooses
  (``slimming.penalty``, ``slimming.scales``).
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
