# loses 3.8 · message: "find_bug let a wrong version pass"
import torch


def find_bug(f):
    torch.manual_seed(0)
    for w in (torch.randn(9, 7), (2 * torch.randn(9, 7)).round()):
        masks = {"w": torch.rand(9, 7) < 0.5}
        for rate, output_rate in ((0.0, None), (0.3, None), (0.5, 0.5), (0.77, 0.1), (1.0, 1.0)):
            assert torch.equal(
                f({"w": w}, masks, rate, output_rate)["w"], shrink({"w": w}, masks, rate, output_rate)["w"]
            )
