# loses 3.6 · message: "nothing"
def drop_and_grow(weight, dense_grad, mask, fraction):
    if not 0 <= fraction <= 1:
        raise ValueError("fraction")
    return weight * mask, mask.clone()
