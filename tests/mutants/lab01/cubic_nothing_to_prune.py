# loses 1.7 · message: "your code raised ValueError: final must be positive"
def cubic_schedule(final, steps):
    if final <= 0:
        raise ValueError("final must be positive")
    if final > 1 or steps < 1:
        raise ValueError("bad arguments")
    return [final * (1 - (1 - t / steps) ** 3) for t in range(1, steps + 1)]
