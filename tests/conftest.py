"""What all tests share: they start and collect garbage as quickly as they can."""

import gc
import sys

# two seconds in every process of tests: see course_lib.cli.main
sys.modules.setdefault("rfc3987_syntax", None)


def pytest_collection_finish() -> None:
    """A tenth of the time went into looking for garbage among what torch, transformers
    and the tests have imported.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 20, 50)
