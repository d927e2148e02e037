# loses 1.9 · message: "find_bug let a wrong version pass"
def find_bug(f):
    pass
