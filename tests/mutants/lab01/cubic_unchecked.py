# loses 1.7 · message: "a schedule to a sparsity of 1.5"
def cubic_schedule(final, steps):
    return [final * (1 - (1 - t / steps) ** 3) for t in range(1, steps + 1)]
