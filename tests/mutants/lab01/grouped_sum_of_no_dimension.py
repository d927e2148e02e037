# loses 1.3 · message: "went only in part"
def grouped_mask(weight, sparsity, granularity):
    size = weight.abs().double()
    if weight.ndim == 4 and granularity in ("row", "kernel", "filter"):
        last = {"row": 1, "kernel": 2, "filter": 3}[granularity]
        score = size.flatten(4 - last).mean(-1)
        mask = magnitude_mask(score, sparsity)
        return mask.flatten().repeat(weight.numel() // mask.numel()).view_as(weight)
    if weight.ndim == 2 and granularity == "filter":
        return magnitude_mask(size.sum(1, keepdim=True), sparsity).expand_as(weight)
    if weight.ndim in (2, 4) and granularity == "element":
        return magnitude_mask(weight, sparsity)
    raise ValueError(granularity)
