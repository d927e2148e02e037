"""What slides draw. Figures from data, for ``plots.show``, each with its text
alternative.
"""

from course_lib.show.drawings.arrays import convolution, csr_arrays, rle_stream
from course_lib.show.drawings.filters import filter_cascade, residual_agreement
from course_lib.show.drawings.heads import head_rows, heads_as_a_sum
from course_lib.show.drawings.masks import mask_flow
from course_lib.show.drawings.tickets import pruning_rounds
from course_lib.show.drawings.tokens import tokens_leaving

__all__ = [
    "convolution",
    "csr_arrays",
    "filter_cascade",
    "head_rows",
    "heads_as_a_sum",
    "mask_flow",
    "pruning_rounds",
    "residual_agreement",
    "rle_stream",
    "tokens_leaving",
]
