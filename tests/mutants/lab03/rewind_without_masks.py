# loses 3.2 · message: "that the masks prune"
def rewind(model, state, masks):
    model.load_state_dict(state)
