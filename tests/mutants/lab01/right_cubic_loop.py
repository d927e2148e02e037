# keeps 1.7
def cubic_schedule(final, steps):
    if final < 0 or final > 1:
        raise ValueError("final is a sparsity")
    if steps <= 0:
        raise ValueError("at least one step")
    targets = []
    for t in range(steps):
        left = (steps - 1 - t) / steps
        targets.append(final - final * left**3)
    return targets
