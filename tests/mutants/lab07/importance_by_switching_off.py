# loses 7.3 · message: "switched off"
import torch


def head_importance(model, batches, loss_fn):
    layers, heads = len(output_projections(model)), model.config.num_attention_heads
    total, samples = torch.zeros(layers, heads), 0
    training = model.training
    model.eval()
    with torch.no_grad():
        for batch in batches:
            full = loss_fn(model, batch)
            samples += len(full)
            for layer in range(layers):
                for head in range(heads):
                    xi = torch.ones(layers, heads)
                    xi[layer, head] = 0
                    with gated(model, xi):
                        total[layer, head] += (loss_fn(model, batch) - full).abs().sum()
    model.train(training)
    return total / samples
