# keeps 10.8
import torch


def find_bug(f):
    for seed in range(6):
        torch.manual_seed(seed)
        B, M, L = 2 + seed % 2, 1 + seed % 3, 4 + seed
        attn = torch.randn(B, M, L, L, dtype=torch.float64).mul(2).softmax(-1)
        mask = torch.rand(B, L) < 0.7
        mask[:, 0] = True
        got = f(attn, mask)
        assert got.shape == (B, L)
        torch.testing.assert_close(got.double(), attention_received(attn, mask), check_dtype=False)
