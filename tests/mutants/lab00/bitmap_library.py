# loses 0.4 · message: "asks you to write this yourself"
def bitmap_encode(x):
    bitmap = x.to_sparse().to_dense() != 0
    return bitmap, x.to_sparse().coalesce().values()
