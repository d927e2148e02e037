# loses 7.2, also 7.3 · message: "when the model was called, your code raised RuntimeError"
@contextmanager
def gated(model: nn.Module, xi: Tensor) -> Iterator[None]:
    heads = model.config.num_attention_heads

    def scale(gate: Tensor) -> Callable:
        def hook(module: nn.Module, args: tuple) -> tuple:
            context, *rest = args
            return (context.unflatten(-1, (heads, -1)) * gate.view(heads, 1)).flatten(-2), *rest

        return hook

    handles = []
    try:
        for projection, gate in zip(output_projections(model), xi, strict=True):
            handles.append(projection.register_forward_pre_hook(scale(gate)))
        yield
    finally:
        for handle in handles:
            handle.remove()
