"""Was a convolutional net trained on the public test images? A hint for the instructor
to look, and no verdict.

A net that was trained on the test images, but not on the validation images, has a smaller
loss on the test images. Of 33 honest nets made by the course's pipelines the ratio of mean
cross-entropies, test by validation, was 0.42 or more. Of six that were also trained on the test
images it was 0.03 to 0.36, in four of them below 0.3: no honest net is listed, and some others
are not found. Nets that were also trained on the validation images are not found by any rule that
we tried. Reviews are generated during grading, so nobody can train on them.
"""

from __future__ import annotations

import torch
from torch.nn import functional as F

from course_lib.capstone.files import Refused, of_bytes
from course_lib.capstone.measured import digits
from course_lib.capstone.rebuilt import convnet

SUSPECT = 0.3


@torch.no_grad()
def hint(data: bytes) -> str:
    """A sentence about a net that may have been trained on test images, or ""."""
    try:
        model = convnet(of_bytes(data, "the net"))
    except Refused:
        return ""
    test, validation = (
        float(F.cross_entropy(model(part.images).double(), part.labels))
        for part in (digits().test, digits().validation)
    )
    if not validation or test / validation >= SUSPECT:
        return ""
    return (
        f"its loss on the public test images is {test / validation:.2f} of that on the validation"
        " images (honest nets of the course's own: 0.42 and more): was it trained on them? Ask"
    )
