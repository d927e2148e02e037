# keeps 3.2
def rewind(model, state, masks):
    for name, p in model.named_parameters():
        p.data[...] = state[name].clone()
        if name in masks:
            p.data[~masks[name]] = 0.0
    for name, b in model.named_buffers():
        b.data.copy_(state[name])
