# loses 3.2 · message: "shares"
def rewind(model, state, masks):
    for n, p in model.named_parameters():
        p.data = state[n]
        if n in masks:
            p.data = state[n].masked_fill(~masks[n], 0)
    for n, b in model.named_buffers():
        b.copy_(state[n])
