# loses 3.5 · message: "rose for the first time"
def early_stop(losses, every=1):
    usable = [(i, loss) for i, loss in enumerate(losses) if loss == loss]
    if not usable:
        raise ValueError("nothing")
    best = usable[0]
    for i, loss in usable[1:]:
        if loss > best[1]:
            break
        if loss < best[1]:
            best = (i, loss)
    return every * (1 + best[0])
