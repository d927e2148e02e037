"""The registry of attention modules, :mod:`course_lib.models.attention`, under the name by which pruning and its labs know it.

It says where heads are, and nothing of how to prune them: so it lies among the models, which a graded submission may see.
"""

from course_lib.models.attention import Attention, Layout, find_attention, output_projections, register_attention

__all__ = ["Attention", "Layout", "find_attention", "output_projections", "register_attention"]
