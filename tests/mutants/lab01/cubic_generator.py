# loses 1.7 · message: "it is a generator"
def cubic_schedule(final, steps):
    if not 0 <= final <= 1 or steps < 1:
        raise ValueError("bad arguments")
    return (final * (1 - (1 - t / steps) ** 3) for t in range(1, steps + 1))
