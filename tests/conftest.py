"""Before any other: what all tests import starts as quickly as it does for the
``course`` command.
"""

import sys

# two seconds in every process of tests: see course_lib.cli.main
sys.modules.setdefault("rfc3987_syntax", None)
