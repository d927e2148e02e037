# loses 10.8 · message: "find_bug let a wrong version pass"
import torch


def find_bug(f):
    pass
