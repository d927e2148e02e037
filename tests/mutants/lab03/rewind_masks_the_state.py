# loses 3.2 · message: "changed"
def rewind(model, state, masks):
    for n, mask in masks.items():
        state[n][~mask] = 0
    model.load_state_dict(state)
