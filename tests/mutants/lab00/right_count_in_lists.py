# keeps 0.3
def nonzero_macs(weight, x, stride=1, padding=0):
    if weight.ndim != x.ndim or weight.ndim not in (2, 4) or weight.shape[1] != x.shape[1]:
        raise ValueError("the shapes do not belong together")
    if weight.ndim == 2:
        weight, x = weight[:, :, None, None], x[:, :, None, None]
        stride, padding = 1, 0
    M, C, R, S = weight.shape
    B, C, H, W = x.shape
    w, there = (weight != 0).tolist(), (x != 0).tolist()
    count = 0
    for m in range(M):
        for c in range(C):
            for r in range(R):
                for s in range(S):
                    if not w[m][c][r][s]:
                        continue
                    for b in range(B):
                        for i in range(r - padding, H + padding - R + r + 1, stride):
                            if 0 <= i < H:
                                row = there[b][c][i]
                                for j in range(s - padding, W + padding - S + s + 1, stride):
                                    if 0 <= j < W and row[j]:
                                        count += 1
    return count
