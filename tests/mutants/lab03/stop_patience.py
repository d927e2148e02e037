# loses 3.5 · message: "patience"
def early_stop(losses, every=1, patience=3):
    usable = [(i, loss) for i, loss in enumerate(losses) if loss == loss]
    if not usable:
        raise ValueError("nothing")
    best, waited = usable[0], 0
    for i, loss in usable[1:]:
        if loss < best[1]:
            best, waited = (i, loss), 0
        else:
            waited += 1
            if waited == patience:
                break
    return every * (1 + best[0])
