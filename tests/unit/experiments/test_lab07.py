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


def test_ranks_of_the_heads_that_are_kept() -> None:
    first = torch.tensor([[1.0, 2.0, 3.0, 4.0]])
    keep = torch.tensor([[False, True, True, True]])
    now = torch.tensor([[9.0, 8.0, 7.0, 6.0]])
    scored = [(torch.ones(1, 4, dtype=torch.bool), first), (keep, now)]
    assert lab07.rank_changes(scored) == {3: pytest.approx(-1)}


def test_no_change_of_logits_with_all_gates_at_1() -> None:
    (net,), texts = lab07.load(1, validation=20, test=20)
    moves = lab07.mover(net, texts.batches["validation"])
    xi = torch.ones(lab07.size(net))
    assert moves(xi) == 0
    assert moves(0 * xi) > 1


@pytest.mark.long
def test_a_remake_at_tiny_settings_has_the_stored_columns(monkeypatch, tmp_path) -> None:
    torch.set_num_threads(1)
    monkeypatch.setattr(make, "TEXTS", {"validation": 20, "test": 20})
    monkeypatch.setattr(make, "FRACTIONS", (0.5, 0.9))
    monkeypatch.setattr(make, "DRAWS", 2)
    monkeypatch.setattr(make, "ONE_KEPT", (0.8,))
    monkeypatch.setattr(make, "STEP", 16)
    monkeypatch.setattr(make, "TUNED_DRAWS", dict.fromkeys(make.TUNED_DRAWS, 1))
    monkeypatch.setattr(make, "TUNED", make.TUNED | {"fractions": (0.5,), "steps": 2})
    monkeypatch.setattr(make, "DOMAIN_TEXTS", 20)
    monkeypatch.setattr(make, "REPEATS", {1: 1})
    found = tables([({"seed": 0}, make.measure_reviews(0))])
    assert len(found["ablations"]) == 32 and len(found["all_but_one"]) == 4
    places = found["fine_tuning"].query("method in ('top', 'bottom', 'middle')")
    assert (places["empty_layers"] == 2).all(), "half of the heads are two layers"
    assert (found["one_kept"]["empty_layers"] == 0).all()
    assert_like_stored("lab07_heads", found, labels=("method",))


@pytest.mark.parametrize("name", ["lab07_heads", "lab07_sst2"])
def test_the_stored_draws(name: str) -> None:
    draws = experiments.read(f"{name}/removal").groupby("method")["draw"].nunique()
    assert draws["random"] == make.DRAWS and draws["I_h"] == 1
