"""Lab 08's runs, shortened."""

import itertools

import lab08_results as make  # noqa: E402
import pandas as pd
import pytest
import torch

from course_lib import experiments
from course_lib.experiments import lab08
from course_lib.experiments.once import tables
from course_lib.pruning.components import hard_concrete
from course_lib.pruning.heads import arc_baseline, points_to, train_with_gates
from unit.experiments.stored import assert_like_stored


@pytest.fixture(scope="module", autouse=True)
def few_sentences():
    torch.set_num_threads(1)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {"train": 300, "validation": 60, "test": 30}.items():
            patch.setitem(lab08.SENTENCES, name, value)
        patch.setitem(make.SETTINGS, "fractions", (0.0, 1.0))
        patch.setitem(make.SETTINGS, "prices", (0.01, 1.0))
        patch.setitem(make.SETTINGS, "draws", 1)
        patch.setitem(make.SETTINGS["gates"], "steps", 2)
        patch.setitem(make.SETTINGS["fixed"], "steps", 2)
        lab08.data.cache_clear()
        lab08.known_words.cache_clear()
        yield
    lab08.data.cache_clear()
    lab08.known_words.cache_clear()


def test_losses():
    model, batch = lab08.trained(0), lab08.batches("scores", 7)[0]
    with torch.no_grad():
        assert lab08.loss(model, batch).item() == pytest.approx(
            model(**batch).loss.item(), abs=1e-5
        )
        assert lab08.losses(model, batch).shape == (7,)


def test_a_remake_has_the_tables_that_are_stored():
    found = tables([({"seed": 0}, make.closing(0))])
    assert_like_stored("lab08_heads", found)
    assert list(found["gates"]["price"]) == [0.01, 1.0]
    kept = found["survivors"].groupby("price")["kept"].sum()
    assert list(kept) == list(found["gates"]["open"])


@pytest.mark.long
def test_a_checkpoint_by_kind_disabled_and_with_fixed_patterns():
    found = tables([({"seed": 0}, make.one_checkpoint(0))])
    assert_like_stored("lab08_heads", found)
    left = found["kinds"].pivot_table("bleu", ["kind", "pruned"], "method")["I_h"]
    assert left["encoder–decoder", 1] < left["encoder", 1] < left["encoder", 0]
    bleu = found["fixed"].set_index(["when", "method"])["bleu"]
    assert bleu["before fine-tuning", "all learned"] > bleu["before fine-tuning", "fixed patterns"]


def test_the_path_of_gates_that_the_notebook_trains():
    path = lab08.gate_path(lab08.trained(0), 0, (0.01, 0.1), 2, train_with_gates, hard_concrete)
    rows = pd.DataFrame(row for *_, row in path)
    assert list(rows) == ["price", "expected", "open", "between", "bleu"]
    assert (rows["open"] == 18).all() and (rows["expected"] < 18).all()


def test_roles_of_both_halves():
    roles = lab08.find_roles(lab08.trained(0, "eager"), points_to, arc_baseline)
    assert (roles.groupby(["half", "rule"]).size() == 18).all()
    assert set(roles["rule"]) == set(experiments.read("lab08_heads/roles")["rule"])
    previous = roles[roles["rule"] == "previous"]
    assert (previous["offset"] == -1).all() and (previous["at_offset"] == 1).all()


def test_the_best_heads_and_their_map():
    roles = experiments.read("lab08_heads/roles")
    best = lab08.best_heads(roles)
    assert not best.duplicated(["seed", "rule"]).any()
    assert len(best) == roles["seed"].nunique() * roles["rule"].nunique()
    assert lab08.draw_roles(best, "roles").axes


def test_the_overlap_by_chance_is_that_of_all_draws(monkeypatch):
    keep = torch.zeros(1, 5, dtype=torch.bool)
    keep[0, :2] = True  # of five heads two survive, in each of two checkpoints
    monkeypatch.setattr(lab08, "survivors", lambda seed: keep)
    heads = {0: [1, 2, 4], 1: [1, 5]}
    best = pd.DataFrame(
        {"seed": s, "head": f"1.{h}", "found": True, "survives": h <= 2}
        for s, of in heads.items()
        for h in of
    )
    pairs = list(itertools.combinations(range(1, 6), 2))
    hits = [len({*a} & {*heads[0]}) + len({*b} & {*heads[1]}) for a in pairs for b in pairs]
    found = lab08.overlap(best)
    assert (found["survivors"], found["with a role"]) == (4, 3)
    assert found["by chance"] == pytest.approx(sum(hits) / len(hits))
    assert found["probability"] == pytest.approx(sum(h >= 3 for h in hits) / len(hits))


def test_last_prices_and_survivors():
    closing = experiments.read("lab08_heads/closing")
    ends = lab08.last_prices(closing)
    assert not ends.duplicated().any()
    assert (ends.groupby("method").size() == closing["seed"].nunique()).all()
    gates = experiments.read("lab08_heads/gates").query("seed == 0")
    assert int(lab08.survivors(0).sum()) == gates["open"].min()


def test_the_model_without_most_heads_costs_less():
    dense, one = lab08.measure_costs(lab08.dense_and_one()).to_dict("records")
    assert all(one[name] < dense[name] for name in ("bits", "macs"))
    numbers = sum(p.numel() for p in lab08.trained(0).parameters())
    assert dense["bits"] == pytest.approx(32 * numbers, rel=0.01), "tied ones count once"
