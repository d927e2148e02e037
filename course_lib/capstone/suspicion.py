"""Was a convolutional net trained on the public test images? A hint for the instructor
to look, and no verdict.

A net that has seen the test images but not the validation images is surer of the first.
Of 33 honest nets made by the course's pipelines the ratio of mean cross-entropies, test
by validation, was 0.42 and more; of six that were trained on the test images, too, 0.03
to 0.36, four of them below 0.3: none is accused, and not everyone is found. Nobody is
told who trained on the validation images, too: no rule found for that held on fresh
nets. Reviews cannot be learned so: they are drawn when they are graded.
"""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F

from course_lib.capstone.files import Refused, of_bytes
from course_lib.capstone.handing import NAMES
from course_lib.capstone.measured import digits
from course_lib.capstone.rebuilt import KINDS

SUSPECT = 0.3


def ratio(model: nn.Module) -> float:
    """Mean cross-entropy on the plain test images by that on the plain validation
    images.
    """
    data = digits()
    with torch.no_grad():
        test, validation = (
            float(F.cross_entropy(model.eval()(part.images).double(), part.labels))
            for part in (data.test, data.validation)
        )
    return test / validation if validation else 1.0


def hint(data: bytes) -> str:
    """A sentence, if a handed-in convolutional net looks as if it had been trained on
    test images; "" if not, or if it is no such net.
    """
    try:
        found = ratio(KINDS["cnn"](of_bytes(data, NAMES["cnn"])))
    except Refused:
        return ""
    if found >= SUSPECT:
        return ""
    return (
        f"its loss on the public test images is {found:.2f} of that on the validation images"
        " (honest nets of the course's own: 0.42 and more): was it trained on them? Ask"
    )
