# keeps 3.5
def early_stop(losses, every=1):
    best = None
    for step, loss in enumerate(losses, start=1):
        if loss != loss:
            continue
        if best is None or loss < best[0]:
            best = (loss, step)
    if best is None:
        raise ValueError("nothing was measured")
    return int(best[1] * every)
