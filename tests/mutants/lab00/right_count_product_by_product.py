# keeps 0.3
def nonzero_macs(weight, x, stride=1, padding=0):
    if weight.ndim != x.ndim or weight.ndim not in (2, 4) or weight.shape[1] != x.shape[1]:
        raise ValueError("the shapes do not belong together")
    count = 0
    if weight.ndim == 2:
        for row in x:
            for out in weight:
                for i in range(len(out)):
                    if out[i] != 0 and row[i] != 0:
                        count += 1
        return count
    M, C, R, S = weight.shape
    B, C, H, W = x.shape
    for b in range(B):
        for m in range(M):
            for e in range((H + 2 * padding - R) // stride + 1):
                for f in range((W + 2 * padding - S) // stride + 1):
                    for c in range(C):
                        for r in range(R):
                            for s in range(S):
                                i, j = e * stride + r - padding, f * stride + s - padding
                                if 0 <= i < H and 0 <= j < W and weight[m, c, r, s] != 0 and x[b, c, i, j] != 0:
                                    count += 1
    return count
