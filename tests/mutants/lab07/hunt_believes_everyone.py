# loses 7.8 · message: "let a wrong version pass"
def find_bug(f):
    pass
