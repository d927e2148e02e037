"""A model is measured as its file says, against the one that was given; a hint for nets
that have seen the test images.
"""

from pathlib import Path

import pytest
import torch
from torch.nn import functional as F

from course_lib.capstone import (
    LEVELS,
    Level,
    Measured,
    given,
    handing,
    measure,
    of_bytes,
    survey,
    suspicion,
    to_bytes,
    unmet_requirements,
)
from course_lib.capstone.handing import number_of, submit
from course_lib.capstone.measured import digits
from course_lib.data import images
from course_lib.pruning.channels import remove_filters, select_channels
from course_lib.training import fit


def found(**other: object) -> Measured:
    base = {"bits": 20, "storage": 0.2, "macs": 10.0, "macs_share": 0.1, "ms": 1.0, "faster": 2.0}
    right = {"right": (True,) * 99 + (False,), "given_right": (True,) * 100}
    return Measured(**{**base, **right, **other})  # type: ignore[arg-type]


def measured(model: torch.nn.Module, kind: str, *where: object, **tokens: object) -> Measured:
    return measure(kind, of_bytes(to_bytes(model, **tokens), "m"), *where)  # type: ignore[arg-type]


def test_a_level_is_met_where_all_four_are_and_says_what_is_missed() -> None:
    level = Level(1, 0.2, 0.1, 2.0, 1.0)
    assert unmet_requirements(level, found()) == []
    assert (
        unmet_requirements(level, found(faster=1.8)) == []
        and "1.79 times" in unmet_requirements(level, found(faster=1.79))[0]
    )
    missed = unmet_requirements(
        level, found(storage=0.21, macs_share=0.11, faster=1.0, right=(False,) * 100)
    )
    assert [what.split()[0] for what in missed] == ["storage", "products", "1.00", "100.0"]


def test_levels_get_harder() -> None:
    for levels in LEVELS.values():
        assert [level.points for level in levels] == [1, 1.5, 1.5]
        for easier, harder in zip(levels, levels[1:], strict=False):
            assert (
                harder.storage < easier.storage
                and harder.macs < easier.macs
                and harder.faster >= easier.faster
            )


def test_the_given_net_is_measured_as_itself() -> None:
    net = given("cnn", 1)
    same = measured(net, "cnn", 1, 5)
    assert (same.storage, same.macs_share, same.drop) == (1, 1, 0)
    assert same.right == same.given_right
    assert 0.5 < same.faster < 2 and len(same.right) == 2000
    again, other = measured(net, "cnn", 1, 5), measured(net, "cnn", 1, 6)
    assert again.right == same.right and other.right != same.right
    validation = measured(net, "cnn", 1, 5, "validation")
    assert len(validation.right) == 5 * len(digits().validation.labels)


def test_zeros_save_bits_and_products_and_filters_save_time() -> None:
    net = given("cnn")
    with torch.no_grad():
        for p in net.parameters():
            if p.ndim > 1:
                p[p.abs() < p.abs().flatten().quantile(0.9)] = 0
    zeros = measured(net, "cnn", 0, 1)
    assert zeros.storage < 0.2 and zeros.macs_share < 0.2 and zeros.faster < 1.4
    channels = select_channels(given("cnn"), 0.8)
    smaller, _ = remove_filters(given("cnn"), channels, torch.zeros(1, 1, 8, 8))
    assert measured(smaller, "cnn", 0, 1).faster > 1.5


@pytest.mark.long
def test_a_bert_with_dropped_tokens_computes_less_and_not_the_same() -> None:
    dropped = measured(given("bert"), "bert", 0, 3, tokens={0: 0.5, 1: 0.1})
    assert dropped.storage == 1 and 0.2 < dropped.macs_share < 0.7
    assert dropped.right != dropped.given_right
    assert len(dropped.right) == 1500 and dropped.given_accuracy > 97


def test_performance_by_a_paired_interval() -> None:
    right = [True] * 900 + [False] * 100
    assert survey.performance(right, right) == "same"
    # two of a thousand: the interval holds 0
    assert survey.performance([False] * 2 + right[2:], right) == "same"
    assert survey.performance([False] * 8 + right[8:], right) == "similar"
    assert survey.performance([False] * 20 + right[20:], right) == "slightly worse"
    assert survey.performance([False] * 200 + right[200:], right) == "worse"
    assert survey.performance(right, [False] * 200 + right[200:]) == "better"


def test_the_survey_is_as_printed_and_corrected_above_ones_own_row() -> None:
    printed = survey.table().splitlines()
    lines = survey.table(survey.row(found(), "weights")).splitlines()
    assert len(printed) == 2 + 9 and len(lines) == 2 + 9 + 1
    assert lines[-1].startswith("| **You** | **20%** | **2.0 times faster")
    assert all(line.count("|") == 7 for line in (*printed, *lines))
    changed = [(a, b) for a, b in zip(printed, lines[:-1], strict=True) if a != b]
    assert [b.split(" et al.")[0] for a, b in changed] == ["| Gordon", "| Guo", "| Sanh"]
    assert "30–40%" in changed[0][0] and "60–70%" in changed[0][1]
    assert "layers and heads" in changed[2][0] and "single encoder weights" in changed[2][1]


def test_submit_writes_what_it_measures_and_leaves_nothing_of_a_refused_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    told: list[str] = []
    monkeypatch.setattr(handing, "display", lambda shown: told.append(shown.data))
    measured = submit(given("cnn", number_of("ann")), "cnn", "nothing", "ann", seed=1)
    said = "".join(told)
    assert (
        measured.storage == 1
        and "capstone-cnn.safetensors" in said
        and "storage 100.0%, at most 25%" in said
    )
    before = (tmp_path / "capstone-cnn.safetensors").read_bytes()
    broken = given("cnn")
    broken.fc = torch.nn.Linear(64, 11)
    with pytest.raises(ValueError, match="should be"):
        submit(broken, "cnn", "nothing")
    assert (tmp_path / "capstone-cnn.safetensors").read_bytes() == before
    assert sorted(p.name for p in tmp_path.iterdir() if "capstone" in p.name) == [
        "capstone-cnn.safetensors"
    ]
    with pytest.raises(TypeError, match="got NoneType: does the function that makes it end with"):
        submit(None, "cnn", "nothing")  # type: ignore[arg-type]


def test_names_are_spread_over_the_given_models() -> None:
    counts = [[number_of(f"student {i}") for i in range(300)].count(n) for n in range(3)]
    assert min(counts) > 60 and number_of(" ann ") == number_of("ann")


def test_distorted_images_are_the_same_for_a_seed_and_stay_digits() -> None:
    data = images.load("digits")
    one = images.distorted(data.test, torch.Generator().manual_seed(1), 2)
    again = images.distorted(data.test, torch.Generator().manual_seed(1), 2)
    assert torch.equal(one.images, again.images) and len(one.labels) == 2 * len(data.test.labels)
    assert torch.equal(one.labels[: len(data.test.labels)], data.test.labels)
    plain = data.test.images.repeat(2, 1, 1, 1)
    assert 0.05 < float((one.images - plain).abs().mean()) < 0.5 * float(plain.abs().mean()) + 0.5
    assert F.cosine_similarity(one.images.flatten(1), plain.flatten(1)).mean() > 0.8


def test_a_net_that_was_trained_on_test_images_is_hinted_at_and_the_given_ones_are_not() -> None:
    data = images.load("digits")
    net = given("cnn", 2)
    both = images.Split(
        torch.cat([data.train.images, data.test.images]),
        torch.cat([data.train.labels, data.test.labels]),
    )
    fit(net, both, epochs=4, lr=1e-3, seed=0, progress=False)
    assert "was it trained on them" in suspicion.hint(to_bytes(net))
    for number in range(3):
        assert suspicion.hint(to_bytes(given("cnn", number))) == ""
    assert suspicion.hint(b"nonsense") == ""
