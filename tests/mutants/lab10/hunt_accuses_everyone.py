# loses 10.8 · message: "find_bug accused a right version"
import torch


def find_bug(f):
    raise AssertionError("there is always a bug")
