# keeps 10.8
import torch


def find_bug(f):
    torch.manual_seed(3)
    attn = torch.randn(3, 2, 6, 6).mul(3).softmax(-1)
    mask = torch.arange(6) < torch.tensor([[6], [3], [1]])
    scores = f(attn.clone(), mask.clone())
    assert list(scores.shape) == [3, 6]
    for b, n in enumerate((6, 3, 1)):
        received = [sum(float(attn[b, m, j, i]) for m in range(2) for j in range(n)) for i in range(n)]
        for i in range(6):
            right = received[i] / sum(received) if i < n else 0.0
            assert abs(float(scores[b, i]) - right) < 1e-4, (b, i)
