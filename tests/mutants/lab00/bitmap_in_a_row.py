# loses 0.4 · message: "one bit for each place, where it is in x"
def bitmap_encode(x):
    flat = x.flatten()
    return flat != 0, flat[flat != 0]
