# loses 1.7 · message: "the curve upside down"
def cubic_schedule(final, steps):
    if not 0 <= final <= 1 or steps < 1:
        raise ValueError("bad arguments")
    return [final * (t / steps) ** 3 for t in range(1, steps + 1)]
