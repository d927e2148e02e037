"""What ``make`` runs: finds a Python that the course works with, and lets
:mod:`course_lib.environment` set it up. Every Python can read this file, also 2.7: each
gets the sentence, and no error of syntax. So no f-strings and no annotations here.
"""

import os
import subprocess
import sys

OLDEST, NEWEST = (3, 11), (3, 14)
FITS = "import sys; sys.exit(not %s <= sys.version_info[:2] <= %s)" % (OLDEST, NEWEST)


def _fits(python):
    with open(os.devnull, "w") as nowhere:
        try:
            return subprocess.call([python, "-c", FITS], stderr=nowhere) == 0
        except OSError:  # there is no such program
            return False


def main():
    """Set the course up, if need be with another Python than this one."""
    if OLDEST <= sys.version_info[:2] <= NEWEST:
        import environment  # beside this file, which is a script here

        environment.main(sys.argv[1:])
        return
    home = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), ".venv")
    others = [os.path.join(home, "bin", "python"), os.path.join(home, "Scripts", "python.exe")]
    others += ["python3.%d" % minor for minor in range(NEWEST[1], OLDEST[1] - 1, -1)]
    for other in others:
        if _fits(other):
            sys.exit(subprocess.call([other] + sys.argv))
    sys.exit(
        "The course needs Python %d.%d to %d.%d; this is %s. Install one of them, then:"
        " make PYTHON=python3.12 lab" % (OLDEST + NEWEST + (sys.version.split()[0],))
    )


if __name__ == "__main__":
    main()
