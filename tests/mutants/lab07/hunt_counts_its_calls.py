# loses 7.8 · message: "version"
CALLS = []


def find_bug(f):
    CALLS.append(f)
    if len(CALLS) % 4 > 1:
        raise AssertionError("one of the last")
