# loses 7.3 · message: "once"
def head_importance(
    model: nn.Module, batches: Iterable[dict[str, Tensor]], loss_fn: Callable[[nn.Module, dict[str, Tensor]], Tensor]
) -> Tensor:
    layers, heads = len(output_projections(model)), model.config.num_attention_heads
    total, samples = torch.zeros(layers, heads, dtype=torch.float64), 0
    training = model.training
    model.eval()
    for batch in batches:
        size = len(next(iter(batch.values())))
        xi = torch.ones(layers, size, heads, requires_grad=True)  # one set of gates for each sample
        with gated(model, xi):
            losses = loss_fn(model, batch)  # (B,)
        # ∂(sum of losses)/∂ξ of a sample is that of its own loss alone: no other loss depends on its gates
        (gradient,) = torch.autograd.grad(losses.sum(), xi)  # (layers, B, heads)
        total += gradient.abs().sum(1)
        samples += size
    model.train(training)
    return total / samples / len(batches) * len(batches)
