# loses 0.5 · message: "transposed"
def rle_encode(x, run_bits=2):
    require(run_bits >= 1, "a field of at least 1 bit")
    runs, values, flat, zeros = [], [], x.view(-1).tolist(), 0
    for i, value in enumerate(flat):
        if value != 0 or zeros == 2**run_bits - 1 or i == len(flat) - 1:
            runs.append(zeros)
            values.append(value if value != 0 else 0)
            zeros = -1
        zeros += 1
    return torch.tensor(runs, dtype=torch.int64), torch.tensor(values, dtype=x.dtype), tuple(x.shape)
