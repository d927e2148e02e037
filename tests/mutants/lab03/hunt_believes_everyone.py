# loses 3.8 · message: "find_bug let a wrong version pass"
def find_bug(f):
    pass
