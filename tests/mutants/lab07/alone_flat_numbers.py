# loses 7.4 · message: "number within its layer"
def all_but_one(
    eval_val: Callable[[Tensor], float], eval_test: Callable[[Tensor], float], layers: int, heads: int
) -> list[tuple[int, float]]:
    full = eval_test(torch.ones(layers, heads))
    result = []
    for layer in range(layers):
        alone = []
        for head in range(heads):
            xi = torch.ones(layers, heads)
            xi[layer] = 0
            xi[layer, head] = 1
            alone.append(xi)
        scores = [eval_val(xi) for xi in alone]
        best = scores.index(max(scores))
        result.append((layer * heads + best, eval_test(alone[best]) - full))
    return result
