"""The capstone: two models to compress, measured in the same way for everyone.

A model is its file: tensors are handed in, and their shapes determine the model. No code of a
student runs when it is measured.

- :mod:`.files`: reading and refusing files; :mod:`.rebuilt`: the model of a file;
  :mod:`.measured`: storage, products, speed and accuracy on hidden data, and the levels;
  :mod:`.handing`: what a student calls; :mod:`.survey`: a published table, and a row of one's
  own; :mod:`.suspicion`: a hint for the instructor.
"""

from course_lib.capstone.files import Refused, Saved, of_bytes, to_bytes
from course_lib.capstone.measured import LEVELS, Level, Measured, given, measure, unmet_requirements

__all__ = ["LEVELS", "Level", "Measured", "Refused", "Saved"]
__all__ += ["given", "measure", "of_bytes", "to_bytes", "unmet_requirements"]
