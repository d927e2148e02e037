# loses 7.2, also 7.3 · message: "every layer has the last layer's gates"
@contextmanager
def gated(model: nn.Module, xi: Tensor) -> Iterator[None]:
    heads = model.config.num_attention_heads
    handles = []
    try:
        for projection, gate in zip(output_projections(model), xi, strict=True):

            def hook(module: nn.Module, args: tuple) -> tuple:
                context, *rest = args
                by_head = context.unflatten(-1, (heads, -1))
                per_sample = gate if gate.ndim == 1 else gate[:, None]
                return (by_head * per_sample[..., None]).flatten(-2), *rest

            handles.append(projection.register_forward_pre_hook(hook))
        yield
    finally:
        for handle in handles:
            handle.remove()
