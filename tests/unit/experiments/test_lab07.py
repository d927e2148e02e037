"""Lab 07's tables: what is measured, and that the stored ones are of these settings."""

import lab07_results as make
import pandas as pd
import pytest
import torch

from course_lib import experiments
from course_lib.experiments import lab07
from course_lib.experiments.once import tables
from unit.experiments.stored import assert_like_stored


def test_importance_across_domains_has_its_ceiling_beside_it() -> None:
    up, down = [1.0, 2.0, 3.0, 4.0], [4.0, 3.0, 2.0, 1.0]
    samples = {("a", 0): up, ("a", 1): up, ("b", 0): down, ("b", 1): up}
    table = pd.DataFrame(
        {"seed": 0, "domain": domain, "sample": sample, "layer": 1, "head": h, "importance": v}
        for (domain, sample), values in samples.items()
        for h, v in enumerate(values)
    )
    r = lab07.domain_correlations(table).groupby("texts")["r"]
    assert r.get_group("one domain").tolist() == pytest.approx([1, -1])
    assert r.get_group("two domains").mean() == pytest.approx(0), "all four pairs of samples"


def test_costs_added_up_and_together(monkeypatch) -> None:
    changes = pd.DataFrame({"seed": 0, "change": [-1.0, 0.5, -3.0, -0.5]})
    removal = pd.DataFrame(
        [
            {"seed": 0, "method": "dense", "removed": None, "test": 90.0},
            {"seed": 0, "method": "single ablation", "removed": 0.5, "test": 80.0},
        ]
    )
    monkeypatch.setattr(lab07, "removal", lambda *methods: removal[removal.method.isin(methods)])
    found = lab07.added_up(changes).set_index("cost")["change"]
    assert found["each cost, added up (validation)"] == 0, "the two that cost least"
    assert found["what they cost together (test)"] == -10


@pytest.mark.long
def test_a_remake_at_tiny_settings_has_the_stored_columns(monkeypatch, tmp_path) -> None:
    torch.set_num_threads(1)
    monkeypatch.setattr(make, "TEXTS", {"validation": 20, "test": 20})
    monkeypatch.setattr(make, "FRACTIONS", (0.5, 0.9))
    monkeypatch.setattr(make, "DRAWS", 2)
    monkeypatch.setattr(make, "TUNED", make.TUNED | {"fractions": (0.5,), "steps": 2, "draws": 1})
    monkeypatch.setattr(make, "DOMAIN_TEXTS", 20)
    found = tables([({"seed": 0}, make.measure_reviews(0))])
    assert len(found["ablations"]) == 32 and len(found["all_but_one"]) == 4
    nothing = found["removal"].query("method == 'no consecutive' and removed == 0.9")
    assert nothing.empty, "half of the layers have not so many heads"
    assert_like_stored("lab07_heads", found, labels=("method",))


@pytest.mark.parametrize("name", ["lab07_heads", "lab07_sst2"])
def test_the_stored_draws(name: str) -> None:
    draws = experiments.read(f"{name}/removal").groupby("method")["draw"].nunique()
    assert draws["random"] == make.DRAWS and draws["I_h"] == 1
