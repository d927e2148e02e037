# loses 3.2 · message: "that the masks prune"
def rewind(model, state, masks):
    model.load_state_dict(state)
    for n, p in model.named_parameters():
        if n in masks and p.grad is not None:
            p.grad.masked_fill_(~masks[n], 0)
