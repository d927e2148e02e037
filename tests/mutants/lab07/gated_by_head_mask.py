# loses 7.2, also 7.3 · message: "head_mask"
from contextlib import contextmanager


@contextmanager
def gated(model, xi):
    original = model.forward

    def forward(*args, **kwargs):
        return original(*args, head_mask=xi, **kwargs)

    model.forward = forward
    try:
        yield
    finally:
        del model.forward
