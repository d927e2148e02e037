# loses 7.8 · message: "accused a right version"
def find_bug(f):
    raise AssertionError("there is always a bug")
