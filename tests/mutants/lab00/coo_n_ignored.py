# loses 0.6 · message: "another n was asked for"
def coo_bits(x, n=32):
    index, values, _ = coo_encode(x)
    return len(values) * (8 * values.element_size() + (x.numel() - 1).bit_length())
