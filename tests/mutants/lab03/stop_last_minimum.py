# loses 3.5 · message: "the first"
def early_stop(losses, every=1):
    usable = [(loss, -i) for i, loss in enumerate(losses) if loss == loss]
    if not usable:
        raise ValueError("nothing")
    return every * (1 - min(usable)[1])
