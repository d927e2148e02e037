# loses 0.6 · message: "count column by column"
def coo_encode(x):
    turned = x.permute(*reversed(range(x.ndim))).flatten()
    index = (turned != 0).nonzero().flatten()
    return index, turned[index], tuple(x.shape)
