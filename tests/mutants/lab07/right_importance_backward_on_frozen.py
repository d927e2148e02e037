# keeps 7.3
import torch


def head_importance(model, batches, loss_fn):
    layers, heads = len(output_projections(model)), model.config.num_attention_heads
    asked = [(p, p.requires_grad) for p in model.parameters()]
    mode = model.training
    model.train(False)
    sums, n = 0.0, 0
    try:
        for p, _ in asked:
            p.requires_grad_(False)
        for batch in batches:
            b = len(batch["labels"])
            xi = torch.ones(layers, b, heads, dtype=torch.float64, requires_grad=True)
            with gated(model, xi.float()):
                loss_fn(model, batch).sum().backward()
            sums, n = sums + xi.grad.abs().sum(1), n + b
    finally:
        for p, wanted in asked:
            p.requires_grad_(wanted)
        model.train(mode)
    return sums / n
