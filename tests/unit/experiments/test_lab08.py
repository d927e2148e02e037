"""Lab 08's runs, shortened."""

import lab08_results as make  # noqa: E402
import pandas as pd
import pytest
import torch
import translation_checkpoints as recipe

from course_lib import experiments
from course_lib.experiments import lab08
from course_lib.pruning.components import hard_concrete
from course_lib.pruning.heads import arc_baseline, points_to, prunable_share, train_with_gates
from unit.experiments.stored import assert_like_stored

PARTS = {
    "kinds": ("importance", "kinds"),
    "closing": ("gates", "survivors", "closing", "test"),
    "roles": ("roles", "ablation"),
    "fixed": ("fixed",),
    "patterns": ("patterns", "change"),
    "over_training": ("over_training",),
}


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
        patch.setattr(recipe, "KEPT", recipe.KEPT[:1])
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


@pytest.mark.parametrize(
    "name", ["closing", *(pytest.param(n, marks=pytest.mark.long) for n in PARTS if n != "closing")]
)  # fmt: skip
def test_a_remake_has_the_tables_that_are_stored(name):
    found = make.tables({0: [make.part(name, 0)]})
    assert tuple(found) == PARTS[name]
    assert_like_stored("lab08_heads", found)
    assert all(rows.notna().all(axis=None) for rows in found.values())
    if name == "kinds":
        left = found["kinds"].pivot_table("bleu", ["kind", "pruned"], "method")["I_h"]
        assert left["encoder–decoder", 1] < left["encoder", 1] < left["encoder", 0]
    if name == "closing":
        assert list(found["gates"]["price"]) == [0.01, 1.0]
        kept = found["survivors"].groupby("price")["kept"].sum()
        assert list(kept) == list(found["gates"]["open"])
    if name == "fixed":
        bleu = found["fixed"].set_index(["when", "method"])["bleu"]
        assert bleu["at once", "all learned"] > bleu["at once", "fixed patterns"]


def test_the_parts_are_all_that_is_stored():
    assert make.PARTS.keys() == PARTS.keys()
    tables = {path.stem for path in experiments.path("lab08_heads").glob("*.csv")}
    assert tables == {table for part in PARTS.values() for table in part} | {"offsets"}


def test_the_path_of_gates_that_the_notebook_trains():
    rows = pd.DataFrame(
        row for *_, row in lab08.gate_path(0, (0.01, 0.1), 2, train_with_gates, hard_concrete)
    )
    assert list(rows) == ["price", "expected", "open", "between", "bleu"]
    assert (rows["open"] == 18).all() and (rows["expected"] < 18).all()


def test_offsets_know_the_truth():
    offsets = lab08.fixed_offsets(arc_baseline)
    stored = experiments.read("lab08_heads/offsets")
    assert list(offsets) == list(stored) and list(offsets["rule"]) == list(stored["rule"])
    by_rule = offsets.set_index("rule")
    assert by_rule["offset"]["plural: from its head"] == 1
    assert by_rule["offset"]["previous"] == -1 and by_rule["at_offset"]["previous"] == 1
    roles = lab08.find_roles(0, points_to)
    assert (roles.groupby("rule").size() == 18).all()
    mark = roles[roles["rule"] == "mark: from its head"]["share"].max()
    assert mark > by_rule["at_offset"]["mark: from its head"]


def test_the_views_of_roles():
    roles, offsets = (experiments.read(f"lab08_heads/{name}") for name in ("roles", "offsets"))
    first = roles[roles["seed"] == 0]
    rules = lab08.clearest_rules(first, offsets)
    assert rules[:4] == ["previous", "next", "rarest", "mark: from its head"] and len(rules) == 12
    assert lab08.roles_by_head(first, rules).shape == (12, 18)
    wide = lab08.roles_beside_baselines(roles, offsets, rules)
    assert wide.shape == (12, 5) and wide.loc["aux: from its head (-1)", "best\noffset"] == 100
    assert wide["best\noffset"].isna().sum() == 2, "of neighbours the offset is the rule itself"


def test_the_tables_that_end_the_experiments():
    read = {n: experiments.read(f"lab08_heads/{n}") for n in ("closing", "kinds", "over_training")}
    ends = lab08.last_prices(read["closing"], read["kinds"])
    assert ends.groupby("method").size().to_dict() == {
        "gates": 3, "survivors, untrained": 3, "I_h, untrained": 3, "random": 9,
        "random, untrained": 3,
    }  # fmt: skip
    counts = lab08.count_patterns(experiments.read("lab08_heads/patterns"))
    assert counts[["translation encoder", "sentiment BERT"]].sum().tolist() == [54, 96]
    shares = lab08.prunable_shares(read["over_training"], prunable_share)
    assert shares.shape == (3, 4) and list(shares.columns) == [300, 800, 1600, 3000]
    assert shares[3000].tolist() == pytest.approx([40, 20, 40])


def test_the_model_without_closed_heads_costs_less():
    costs = lab08.measure_costs(lab08.dense_and_few())
    assert list(costs) == ["method", "bits", "macs", "ms"]  # what a row of the ledger takes
    dense, few = costs.to_dict("records")
    assert few["method"] == "6 of 18 encoder heads"
    assert all(few[name] < dense[name] for name in ("bits", "macs"))
    numbers = sum(p.numel() for p in lab08.trained(0).parameters())
    assert dense["bits"] == pytest.approx(32 * numbers, rel=0.01), "tied ones count once"


def test_the_stored_result():
    kinds = experiments.read("lab08_heads/kinds").query("kind == 'all' and method == 'I_h'")
    assert (kinds[kinds["pruned"] == 0]["bleu"] > 95).all() and len(kinds) == 15
    gates = experiments.read("lab08_heads/gates")
    assert (gates.groupby("seed")["open"].min() <= 6).all()
    settings = experiments.settings("lab08_heads")
    assert settings["gates"]["start"] == lab08.GATES["start"] and settings["draws"] == 3
