# loses 1.1 · message: "endless loop"
def magnitude_mask(weight, sparsity):
    while True:
        pass
