"""Arrays as long tables, and the figures of them."""

import numpy as np
import pandas as pd

from course_lib.show import plots


def contest(x, results, dense=None, **options):
    """``plots.curves`` of {method: (seeds, n)} at x (n,); dense: one value per seed."""
    rows = [
        {"seed": seed, "method": method, "x": place, "y": value}
        for method, runs in results.items()
        for seed, line in enumerate(np.asarray(runs))
        for place, value in zip(x, line, strict=True)
    ]
    rows += [
        {"seed": seed, "method": "dense", "x": np.nan, "y": value}
        for seed, value in enumerate(np.atleast_1d(dense) if dense is not None else [])
    ]
    return plots.curves(pd.DataFrame(rows), x="x", y="y", **options)


def lines(x, series, **options):
    """``plots.curves`` of {name: (n,)} at x (n,), which do not compete."""
    table = pd.DataFrame(
        [
            {"method": name, "x": float(place), "y": float(value)}
            for name, values in series.items()
            for place, value in zip(x, values, strict=True)
        ]
    )
    return plots.curves(table, x="x", y="y", control=None, **options)


def three_methods():
    """Three seeds of three methods and of a dense model; random has two draws of each seed."""
    rows = [
        {
            "seed": seed,
            "method": method,
            "sparsity": share,
            "accuracy": 90 - cost * share + seed + draw,
            "ms": 10 - 5 * share,
        }
        for seed in range(3)
        for method, cost in (("magnitude", 5), ("Fisher", 4), ("random", 40))
        for share in (0.5, 0.9)
        for draw in range(2 if method == "random" else 1)
    ]
    dense = [
        {"seed": seed, "method": "dense", "sparsity": np.nan, "accuracy": 95.0 + seed}
        for seed in range(3)
    ]
    return pd.DataFrame(rows + dense)
