# loses 3.2 · message: "there is nothing to see of how state is copied"
def rewind(model, state, masks):
    pass
