# loses 7.4 · message: "ratio"
def ablate_each(evaluate: Callable[[Tensor], float], layers: int, heads: int) -> Tensor:
    full = evaluate(torch.ones(layers, heads))
    change = torch.zeros(layers, heads)
    for layer in range(layers):
        for head in range(heads):
            xi = torch.ones(layers, heads)
            xi[layer, head] = 0
            change[layer, head] = evaluate(xi) / full - 1
    return change
