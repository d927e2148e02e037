# earns all
# Prints a hundred megabytes, to Python's files and to the descriptors below them.
import os
import sys

_right = magnitude_mask


def magnitude_mask(weight, sparsity):
    for _ in range(10):
        print("x" * (1 << 20))
        sys.stderr.write("<script>alert(1)</script>" * (1 << 16))
        sys.__stdout__.write("x" * (1 << 20))
        os.write(1, b"x" * (1 << 20))
        os.write(2, b"x" * (1 << 20))
    return _right(weight, sparsity)
