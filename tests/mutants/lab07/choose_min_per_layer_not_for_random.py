# loses 7.5 · message: "min_per_layer"
def choose_heads(
    layers: int, heads: int, count: int, rule: str, generator: torch.Generator, min_per_layer: int = 0
) -> Tensor:
    may_lose = heads if rule == "random" else heads - min_per_layer
    middle = (layers - 1) / 2
    if rule == "random":
        order = None
    elif rule == "top":
        order = list(range(layers))[::-1]
    elif rule == "bottom":
        order = list(range(layers))
    elif rule == "middle":
        order = sorted(range(layers), key=lambda layer: (abs(layer - middle), layer))
    elif rule == "no_consecutive":
        # every second layer is as many as can be without neighbours; with an even number there are two such sets
        first = int(torch.randint(2, (1,), generator=generator)) if layers % 2 == 0 else 0
        order = list(range(first, layers, 2))
    else:
        raise ValueError(f"no rule {rule!r}: random, top, bottom, middle or no_consecutive")
    places = layers if order is None else len(order)
    if not 0 <= count <= places * max(may_lose, 0):
        raise ValueError(f"{rule} can remove 0 to {places * max(may_lose, 0)} heads here, not {count}")

    keep = torch.ones(layers, heads, dtype=torch.bool)
    # for each layer the heads that may go, in random order
    lists = [torch.randperm(heads, generator=generator)[: max(may_lose, 0)].tolist() for _ in range(layers)]
    if order is None:
        candidates = [(layer, head) for layer in range(layers) for head in lists[layer]]
        shuffled = torch.randperm(len(candidates), generator=generator).tolist()
        chosen = [candidates[i] for i in shuffled[:count]]
    else:
        chosen = [(layer, head) for layer in order for head in lists[layer]][:count]
    for layer, head in chosen:
        keep[layer, head] = False
    return keep
