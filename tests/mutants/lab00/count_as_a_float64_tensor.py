# loses 0.3 · message: "it is a float64 tensor"
from torch.nn import functional as F


def nonzero_macs(weight, x, stride=1, padding=0):
    require(weight.ndim == x.ndim and weight.shape[1] == x.shape[1], "shapes that belong together")
    w, x = (weight != 0).double(), (x != 0).double()
    if weight.ndim == 2:
        return (x @ w.T).sum()
    return F.conv2d(x, w, stride=stride, padding=padding).sum()
