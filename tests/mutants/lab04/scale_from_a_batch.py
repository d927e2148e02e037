# loses 4.1 · message: "training mode"
import torch


def bn_scale_shift(bn):
    bn.train()
    with torch.no_grad():
        x = torch.linspace(0, 1, 8).view(8, 1, 1, 1).repeat(1, bn.num_features, 1, 1)
        y = bn(x)[:, :, 0, 0]
    bn.eval()
    p = (y[-1] - y[0]) / (x[-1, 0, 0, 0] - x[0, 0, 0, 0])
    return p, y[0]
