# keeps 0.1
def conv_cost(M, C, R, S, H, W, stride=1, padding=0, bits=32):
    if min(M, C, R, S, H, W, stride, bits) < 1 or padding < 0:
        raise ValueError("sizes, stride and bits are at least 1")

    def places(size, kernel):
        count, at = 0, -padding
        while at + kernel <= size + padding:
            count += 1
            at += stride
        if count == 0:
            raise ValueError("the kernel fits nowhere")
        return count

    E, F = places(H, R), places(W, S)
    cost = {}
    cost["output_bits"] = E * F * M * bits
    cost["weight_bits"] = M * C * R * S * bits
    cost["input_bits"] = C * W * H * bits
    cost["macs"] = E * F * M * C * R * S
    return cost


def linear_cost(batch, d_in, d_out, bits=32):
    if batch < 1 or d_in < 1 or d_out < 1 or bits < 1:
        raise ValueError("at least 1")
    macs = 0
    for _ in range(batch):
        macs += d_in * d_out
    return dict(
        macs=macs, weight_bits=bits * d_in * d_out, input_bits=bits * d_in * batch, output_bits=bits * batch * d_out
    )
