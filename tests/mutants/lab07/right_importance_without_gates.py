# keeps 7.3
import torch


def head_importance(model, batches, loss_fn):
    heads = model.config.num_attention_heads
    inputs, rows = [], []

    def note(module, args):
        inputs.append(args[0])

    mode = model.training
    model.eval()
    handles = [layer.register_forward_pre_hook(note) for layer in output_projections(model)]
    try:
        for batch in batches:
            inputs.clear()
            losses = loss_fn(model, batch)
            gradients = torch.autograd.grad(losses.sum(), inputs)
            # dL/dxi of a head = sum over positions and features of context times its gradient
            both = [(x * g).unflatten(-1, (heads, -1)).sum((1, 3)) for x, g in zip(inputs, gradients)]
            rows.append(torch.stack(both, 1).abs().detach())
    finally:
        for handle in handles:
            handle.remove()
        model.train(mode)
    return torch.cat(rows).mean(0)
