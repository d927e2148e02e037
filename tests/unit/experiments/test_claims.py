"""What the labs say, as differences: found where they are, and judged as their
intervals allow.
"""

import numpy as np
import pandas as pd
import pytest

from course_lib import experiments
from course_lib.experiments import claims
from course_lib.experiments.claims import CLAIMS, Difference, verdict


@pytest.mark.parametrize(
    ("found", "level", "said"),
    [
        (Difference(3.0, 1.0, 3), False, "holds"),
        (Difference(-3.0, 1.0, 3), False, "does not hold"),
        (Difference(1.0, 3.0, 3), False, "not shown"),
        (Difference(1.0, 3.0, 3), True, "no difference shown"),
        (Difference(3.0, 1.0, 3), True, "does not hold"),
        (Difference(-3.0, 1.0, 3), True, "does not hold"),
        (Difference(3.0, np.nan, 1), False, "as said, one run"),
        (Difference(-0.1, np.nan, 1), False, "not so, one run"),
        (Difference(0.0, np.nan, 1), True, "one run"),
    ],
)
def test_a_verdict_is_what_the_interval_allows(found, level, said):
    assert verdict(found, level) == said


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: f"{claim.lab} {claim.measured[:40]}")
def test_every_claim_is_found_in_shipped_results(claim):
    for source in (claim.default, *claim.real):
        assert source.file.partition("/")[0] in experiments.registered(), "course remake makes it"
        assert source.file.startswith(f"lab{claim.lab}_")
        found = claims.difference(source)
        assert np.isfinite(found.mean) and (found.runs == 1) == np.isnan(found.half)
    assert claim.real and claim.default.file not in [source.file for source in claim.real]


def test_every_lab_but_the_last_has_claims_of_which_one_is_no_level():
    labs = {f"{number:02d}" for number in range(11)}
    assert {claim.lab for claim in CLAIMS} == labs
    assert {claim.lab for claim in CLAIMS if not claim.level} == labs


def test_what_the_default_data_show_is_what_the_lab_says():
    """Or the lab says more than its own data do."""
    for claim in CLAIMS:
        found = claims.difference(claim.default)
        assert verdict(found, claim.level) != "does not hold", claim


# ------------------------------------------------------------------- finding differences
def test_doublings_by_seed():
    table = pd.DataFrame(
        {"seed": [0, 0, 1, 1], "method": 2 * ["ticket", "reinit"], "steps": [8, 32, 8, np.nan]}
    )
    found = claims._longer("steps")(table)
    assert found[0] == 2 and np.isnan(found[1]), "twice doubled; it never came"


def test_heads_that_two_masks_share():
    def run(*heads):
        return {"xi": [[int(h in heads) for h in range(8)]]}

    assert claims._beyond_chance(run(0, 1, 2, 3), run(0, 1, 2, 3)) == 2
    assert claims._beyond_chance(run(0, 1, 2, 3), run(4, 5, 6, 7)) == -2
    same = {"tasks": ["a", "b"], "runs": 3 * [[run(0, 1, 2, 3), run(4, 5, 6, 7)]]}
    assert claims._of_two_seeds(same) == [2, 2] and claims._task_first(same) == [4, 4]
    mixed = {
        "tasks": ["a", "b"],
        "runs": [[run(0, 1), run(0, 1)], [run(6, 7), run(6, 7)]],
    }
    assert claims._of_two_seeds(mixed) == [-0.5, -0.5]
    assert claims._task_first(mixed) == [-2, -2], "here the seed decides"


def test_half_of_the_depth():
    result = {
        "settings": {"depth": 2},
        "seeds": [{"plain": [10.0, 20.0, 30.0], "trained at that depth": 27.0}],
    }
    assert claims._half_depth("trained at that depth", "plain")(result) == [7]
