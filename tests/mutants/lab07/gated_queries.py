# loses 7.2, also 7.3 · message: "queries"
@contextmanager
def gated(model: nn.Module, xi: Tensor) -> Iterator[None]:
    heads = model.config.num_attention_heads

    def scale(gate: Tensor) -> Callable:
        def hook(module: nn.Module, args: tuple, out: Tensor) -> Tensor:
            by_head = out.unflatten(-1, (heads, -1))  # (B, L, heads, d)
            per_sample = gate if gate.ndim == 1 else gate[:, None]  # (heads,) or (B, 1, heads)
            return (by_head * per_sample[..., None]).flatten(-2)

        return hook

    handles = []
    try:
        layers = [m.query for m in model.modules() if type(m).__name__ == "BertSelfAttention"]
        for layer, gate in zip(layers, xi, strict=True):
            handles.append(layer.register_forward_hook(scale(gate)))
        yield
    finally:
        for handle in handles:
            handle.remove()
