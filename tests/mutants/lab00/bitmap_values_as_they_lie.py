# loses 0.4 · message: "wherever these lie"
def bitmap_encode(x):
    flat = torch.from_numpy(x.numpy().ravel(order="A"))
    return x != 0, flat[flat != 0]
