# loses 3.2 · message: "new nn.Parameter"
def rewind(model, state, masks):
    model.load_state_dict({n: v.masked_fill(~masks[n], 0) if n in masks else v for n, v in state.items()}, assign=True)
