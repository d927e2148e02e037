"""Lab 07's longer runs: what is measured, and that the shipped files are of this
code.
"""

import json

import pytest

from course_lib import experiments
from course_lib.experiments import lab07


def test_importance_across_domains_has_its_ceiling_beside_it() -> None:
    first, other = [1.0, 2.0, 3.0, 4.0], [4.0, 3.0, 2.0, 1.0]
    found = lab07.pearson({"a": [first, first], "b": [other, first]})
    assert found["same"] == pytest.approx([1.0, -1.0])
    assert found["across"] == pytest.approx([0.0]), "the mean of all four pairs of samples"


def test_the_shipped_heads_are_of_these_settings() -> None:
    run = experiments.read("lab07_heads")
    assert run["settings"] == json.loads(
        json.dumps(
            {
                "fractions": lab07.FRACTIONS,
                "texts": lab07.TEXTS,
                "tuned": lab07.TUNED,
                "domain texts": lab07.DOMAIN_TEXTS,
            }
        )
    )
    for part in ("ablations", "removal", "fine-tuning", "domains"):
        assert len(run[part]) == len(lab07.SEEDS)
    draws = {"random": lab07.DRAWS, **dict.fromkeys(lab07.PLACES, lab07.PLACED)}
    for removed in run["removal"]:
        for rule, rows in removed["curves"].items():
            assert [len(row) for row in rows] == [len(lab07.FRACTIONS)] * draws.get(rule, 1)
    real = experiments.read("lab07_sst2")
    assert real["settings"] == json.loads(json.dumps(lab07.SST2))
