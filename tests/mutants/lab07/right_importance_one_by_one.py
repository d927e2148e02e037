# keeps 7.3
import torch


def head_importance(model, batches, loss_fn):
    layers, heads = len(output_projections(model)), model.config.num_attention_heads
    sizes = []
    before = {m: m.training for m in model.modules()}
    model.eval()
    for batch in batches:
        for i in range(len(batch["labels"])):
            xi = torch.ones(layers, heads, requires_grad=True)
            with gated(model, xi):
                loss = loss_fn(model, {name: value[i : i + 1] for name, value in batch.items()})
            sizes.append(torch.autograd.grad(loss, xi)[0].abs())
    for m, training in before.items():
        m.training = training
    return torch.stack(sizes).mean(0)
