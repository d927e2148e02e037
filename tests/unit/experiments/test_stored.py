"""The results that are shipped are of the settings that stand in the code, with as many
seeds.
"""

from __future__ import annotations

import json
from typing import Any

import lab00_results
import lab01_results
import lab06_results
import lab07_results
import lab08_results
import lab09_results
import lab10_results
import pytest

from course_lib import experiments
from course_lib.experiments import lab01, lab02, lab03, lab05

SETTINGS: dict[str, Any] = {
    **{f"lab00_counting_{name}": s for name, s in lab00_results.SETTINGS.items()},
    **{f"lab01_pruning_{name}": s for name, s in lab01.SETTINGS.items()},
    "lab02_criteria_digits": lab02.DIGITS,
    "lab02_criteria_mnist": lab02.MNIST,
    "lab03_tickets_mnist": {**lab03.SETTINGS["mnist"], "seeds": 3},
    "lab05_between_digits": lab05.DIGITS,
    "lab05_between_mnist": lab05.MNIST,
    "lab06_sst2": lab06_results.SST2,
    "lab07_heads": lab07_results.REVIEWS,
    "lab07_sst2": lab07_results.SST2,
    "lab08_heads": lab08_results.SETTINGS,
    "lab09_depth_sst2": {"drops": lab09_results.DROPS, **lab09_results.SST2},
    "lab09_subnetworks_glue": lab09_results.GLUE,
    "lab10_scores_reviews": {"draws": 5, "schedules": lab10_results.REVIEWS},
    "lab10_equal_cost": lab10_results.EQUAL_COST,
}
SEEDS = {  # of a table
    **{f"lab00_counting_{name}/networks": n for name, n in lab00_results.SEEDS.items()},
    **{f"lab01_pruning_{name}/trained": lab01_results.SEEDS for name in lab01.SETTINGS},
    "lab02_criteria_digits/pruned": 6,
    "lab02_criteria_mnist/pruned": 3,
    "lab03_tickets_digits/rounds": 5,
    "lab03_tickets_mnist/rounds": 3,
    "lab05_between_digits/dense": 6,
    "lab05_between_mnist/dense": 5,
    "lab07_heads/removal": 3,
    "lab07_sst2/removal": 3,
    "lab08_heads/gates": 5,
    "lab08_heads/kinds": 3,
    "lab09_subnetworks/full": lab09_results.SEEDS,
    "lab09_subnetworks_glue/full": lab09_results.SEEDS,
    "lab10_scores_reviews/scores": 3,
    "lab10_equal_cost/policies": 3,
}
COST_KNOWN = {  # of what was made after seconds were recorded
    *(f"lab00_counting_{name}" for name in lab00_results.SETTINGS),
    *(f"lab01_pruning_{name}" for name in lab01.SETTINGS),
    "lab02_criteria_mnist",
    "lab05_between_digits",
    "lab05_between_mnist",
    "lab09_depth_sst2",
    "lab09_subnetworks_glue",
    "lab10_scores_reviews",
    "lab10_equal_cost",
}


@pytest.mark.parametrize("name", SETTINGS)
def test_the_settings_are_those_of_the_code(name: str) -> None:
    assert experiments.settings(name) == json.loads(json.dumps(SETTINGS[name]))


@pytest.mark.parametrize("table", SEEDS)
def test_each_seed_is_there(table: str) -> None:
    assert set(experiments.read(table)["seed"]) == set(range(SEEDS[table]))


def test_what_results_took_is_recorded() -> None:
    for name in COST_KNOWN:
        took = experiments.took(name)
        assert took is not None and took["cpu_seconds"] > 1, name
