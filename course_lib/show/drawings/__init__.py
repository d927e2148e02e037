"""What slides draw. Figures from data, for ``plots.show``, each with its text alternative."""

from course_lib.show.drawings.arrays import convolution, csr_arrays, rle_stream
from course_lib.show.drawings.heads import head_rows, heads_as_a_sum

__all__ = ["convolution", "csr_arrays", "head_rows", "heads_as_a_sum", "rle_stream"]
