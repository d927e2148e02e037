# loses 3.2 · message: "changed"
def rewind(model, state, masks):
    for n, p in model.named_parameters():
        p.data = state[n]
        if n in masks:
            p.data.masked_fill_(~masks[n], 0)
    for n, b in model.named_buffers():
        b.data = state[n]
