"""Neural-network pruning, taught and measured.

**Imported by notebooks, and by users of the library:**

- :mod:`.pruning`, :mod:`.cost`, :mod:`.models`, :mod:`.data`, :mod:`.training`: the library, for
  any ``nn.Module``, with its tools :mod:`.checks`, :mod:`.devices`, :mod:`.intervals`,
  :mod:`.modes`, :mod:`.progress`, :mod:`.seeding`, :mod:`.torchvision_operators` and
  :mod:`.wrapped`;
- :mod:`.show`, :mod:`.ledger`, :mod:`.capstone`: figures, the table of results, the final project;
- :mod:`.experiments`, :mod:`.recipes`, :mod:`.conformance`, :mod:`.parallel`: the labs' long runs,
  their checkpoints, the table of supported models;
- :mod:`.files`, :mod:`.paths`: where files lie and how they are written.

**Runs the course; nothing above imports it:**

- :mod:`.authoring`, :mod:`.labs`: notebooks built from sources, and what each lab asks for;
- :mod:`.grading`, :mod:`.student_code`, :mod:`.sandbox_child`: marks for submissions. Notebooks
  import only ``check`` and ``skip`` from :mod:`course_lib.grading`;
- :mod:`.cli`, :mod:`.doctor`, :mod:`.demo`, :mod:`.environment`, :mod:`.install`,
  :mod:`.labs_folder`: the command ``course``, and its set-up.
"""

from course_lib import torchvision_operators as torchvision_operators  # first of all

__version__ = "0.1.0"
