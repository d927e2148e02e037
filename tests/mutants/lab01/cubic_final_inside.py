# loses 1.7 · message: "it multiplies the whole bracket"
def cubic_schedule(final, steps):
    if not 0 <= final <= 1 or steps < 1:
        raise ValueError("bad arguments")
    return [1 - (1 - final * t / steps) ** 3 for t in range(1, steps + 1)]
