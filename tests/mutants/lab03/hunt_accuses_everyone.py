# loses 3.8 · message: "find_bug accused a right version"
def find_bug(f):
    raise AssertionError("there is always a bug")
