# loses 1.7 · message: "the formula has a cube"
def cubic_schedule(final, steps):
    if not 0 <= final <= 1 or steps < 1:
        raise ValueError("bad arguments")
    return [final * (1 - (1 - t / steps) ** 2) for t in range(1, steps + 1)]
