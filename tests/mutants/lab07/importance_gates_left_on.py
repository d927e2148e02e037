# loses 7.3 · message: "hook"
import torch


def head_importance(model, batches, loss_fn):
    layers, heads = len(output_projections(model)), model.config.num_attention_heads
    state = {}
    for layer, projection in enumerate(output_projections(model)):

        def hook(module, args, layer=layer):
            xi = state.get("xi")
            return (
                args
                if xi is None
                else ((args[0].unflatten(-1, (heads, -1)) * xi[layer][:, None, :, None]).flatten(-2),)
            )

        projection.register_forward_pre_hook(hook)
    sizes, training = [], model.training
    model.eval()
    for batch in batches:
        state["xi"] = torch.ones(layers, len(batch["labels"]), heads, requires_grad=True)
        (gradient,) = torch.autograd.grad(loss_fn(model, batch).sum(), state["xi"])
        sizes.append(gradient.abs())
    state.clear()
    model.train(training)
    return torch.cat(sizes, 1).mean(1)
