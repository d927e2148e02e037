# loses 4.8 · message: "accused a right version"
def find_bug(f):
    raise AssertionError("wrong")
