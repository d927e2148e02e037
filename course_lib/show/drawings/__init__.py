"""What slides draw. Figures from data, for ``plots.show``, each with its text
alternative.
"""

from course_lib.show.drawings.arrays import convolution, csr_arrays, rle_stream, stored_row
from course_lib.show.drawings.blocks import columns_packed, joint_blocks, nm_blocks
from course_lib.show.drawings.depth import layers_skipped
from course_lib.show.drawings.filters import filter_cascade, residual_agreement
from course_lib.show.drawings.forecasts import forecast_step
from course_lib.show.drawings.heads import (
    Look,
    attention_maps,
    head_rows,
    heads_as_a_sum,
    kinds_of_attention,
    stretched_and_cut,
    where_it_looks,
)
from course_lib.show.drawings.masks import mask_flow
from course_lib.show.drawings.tickets import pruning_rounds
from course_lib.show.drawings.tokens import tokens_leaving

__all__ = [
    "Look",
    "attention_maps",
    "columns_packed",
    "convolution",
    "csr_arrays",
    "filter_cascade",
    "forecast_step",
    "head_rows",
    "heads_as_a_sum",
    "joint_blocks",
    "kinds_of_attention",
    "layers_skipped",
    "mask_flow",
    "nm_blocks",
    "pruning_rounds",
    "residual_agreement",
    "rle_stream",
    "stored_row",
    "stretched_and_cut",
    "tokens_leaving",
    "where_it_looks",
]
