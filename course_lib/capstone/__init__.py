"""The capstone: two models to compress, measured the same way for everyone.

A model is its file: what is handed in are tensors, and their shapes say what model they
are. No code of anybody's runs when it is measured.

- :mod:`.files`: written, read and refused; :mod:`.rebuilt`: the model that a file is;
  :mod:`.measured`: storage, products, speed and accuracy on hidden data, and the
  levels; :mod:`.handing`: what a student calls; :mod:`.survey`: the row beside those of
  the papers; :mod:`.suspicion`: a hint for the instructor.
"""

from course_lib.capstone.files import Refused, Saved, of_bytes, read, write
from course_lib.capstone.measured import LEVELS, Level, Measured, given, measure, unmet_requirements

__all__ = [
    "LEVELS",
    "Level",
    "Measured",
    "Refused",
    "Saved",
    "given",
    "measure",
    "unmet_requirements",
    "of_bytes",
    "read",
    "write",
]
