# loses 1.7 · message: "these are what each step adds"
def cubic_schedule(final, steps):
    if not 0 <= final <= 1 or steps < 1:
        raise ValueError("bad arguments")
    totals = [final * (1 - (1 - t / steps) ** 3) for t in range(steps + 1)]
    return [b - a for a, b in zip(totals, totals[1:])]
