# loses 7.2, also 7.3 · message: "stays"
@contextmanager
def gated(model: nn.Module, xi: Tensor) -> Iterator[None]:
    heads = model.config.num_attention_heads

    def scale(gate: Tensor) -> Callable:
        def hook(module: nn.Module, args: tuple) -> tuple:
            context, *rest = args  # (B, L, heads · d)
            by_head = context.unflatten(-1, (heads, -1))  # (B, L, heads, d)
            per_sample = gate if gate.ndim == 1 else gate[:, None]  # (heads,) or (B, 1, heads)
            return (by_head * per_sample[..., None]).flatten(-2), *rest

        return hook

    handles = []
    try:
        for projection, gate in zip(output_projections(model), xi, strict=True):

            def forward(x, hook=scale(gate), own=projection.forward):
                return own(*hook(None, (x,)))

            projection.forward = forward
        yield
    finally:
        for handle in handles:
            handle.remove()
