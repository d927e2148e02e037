"""Neural-network pruning, taught and measured.

**Imported by notebooks, and by users of the library:**

- :mod:`.pruning`, :mod:`.cost`, :mod:`.models`, :mod:`.data`, :mod:`.training`, :mod:`.perplexity`:
  the library, for any ``nn.Module``, with its tools :mod:`.checks`, :mod:`.devices`,
  :mod:`.intervals`, :mod:`.modes`, :mod:`.progress`, :mod:`.ranking`, :mod:`.seeding` and
  :mod:`.wrapped`;
- :mod:`.show`, :mod:`.ledger`, :mod:`.capstone`: figures, the table of results, the final project;
- :mod:`.experiments`, :mod:`.parallel`: the labs' long runs;
- :mod:`.files`, :mod:`.paths`: where files lie and how they are written;
- :mod:`.torchvision_operators`: a work-around for a torchvision of another build.

**Runs the course; nothing above imports it:**

- :mod:`.authoring`, :mod:`.labs`: notebooks built from sources, and what each lab asks for;
- :mod:`.grading`, :mod:`.student_code`, :mod:`.sandbox_child`: marks for submissions. Notebooks
  import only ``check`` and ``skip`` from :mod:`course_lib.grading`;
- :mod:`.cli`, :mod:`.doctor`, :mod:`.demo`, :mod:`.environment`, :mod:`.install`,
  :mod:`.labs_folder`: the command ``course``, and its set-up.
"""

import sys

from course_lib.torchvision_operators import BeforeTorchvision

__version__ = "1.0.0"

if "torchvision" not in sys.modules:
    sys.meta_path.insert(0, BeforeTorchvision())
