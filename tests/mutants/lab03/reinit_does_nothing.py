# loses 3.4 · message: "there is nothing to see of where its chance came from"
def reinitialise(model, masks, seed):
    pass
