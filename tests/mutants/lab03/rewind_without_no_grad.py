# loses 3.2 · message: "under torch.no_grad()"
def rewind(model, state, masks):
    model.load_state_dict(state)
    for n, p in model.named_parameters():
        if n in masks:
            p[~masks[n]] = 0
