"""Perplexity token by token, and what was reported of other tools."""

import math

import pytest
import torch
from torch.nn import functional as F

from course_lib.perplexity import cut_windows, perplexity, window_losses
from unit.small_transformers import VOCABULARY, inputs_of, model_of

FAMILIES = ["llama", "gpt2", "gemma2", "bloom"]
CLOSE = {"rtol": 1e-4, "atol": 0}  # transformers' masks want single precision


def text(n=25, seed=0):
    return torch.randint(5, VOCABULARY, (n,), generator=torch.Generator().manual_seed(seed))


def token_by_token(model, window):
    """−ln p of every token but the first, from the tokens before it alone."""
    with torch.no_grad():
        return [
            float(-model(window[None, :t]).logits[0, -1].log_softmax(-1)[window[t]])
            for t in range(1, len(window))
        ]


@pytest.mark.parametrize("family", FAMILIES)
def test_it_is_the_mean_over_tokens_and_a_short_last_window_counts_for_less(family):
    model = model_of(family, dtype=torch.float32)
    windows = cut_windows(text(), 6)  # four of 6, and one token, which has no prediction
    assert [tuple(w.shape) for w in windows] == [(1, 6)] * 4
    windows = cut_windows(text(27), 6)
    assert tuple(windows[-1].shape) == (1, 3)
    each = [token_by_token(model, window[0]) for window in windows]
    losses, counts = window_losses(model, windows)
    torch.testing.assert_close(losses.tolist(), [sum(nll) for nll in each], **CLOSE)
    assert counts.tolist() == [5, 5, 5, 5, 2]
    expected = math.exp(sum(map(sum, each)) / 22)
    assert perplexity(model, windows) == pytest.approx(expected, rel=1e-4)
    of_means = math.exp(sum(sum(nll) / len(nll) for nll in each) / 5)
    assert abs(of_means / expected - 1) > 1e-3  # the mean of the windows' means is another number


@pytest.mark.parametrize("family", FAMILIES)
def test_windows_batched_by_one_and_by_four_agree(family):
    model = model_of(family, dtype=torch.float32)
    found = [window_losses(model, cut_windows(text(57), 6, batch)) for batch in (1, 4)]
    torch.testing.assert_close(found[0][0], found[1][0], rtol=1e-4, atol=1e-4)
    assert torch.equal(found[0][1], found[1][1])


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("side", ["left", "right"])
def test_padding_is_neither_predicted_nor_predicted_from(family, side):
    model, lengths = model_of(family, dtype=torch.float32), (3, 6, 8)
    alone = [text(n, seed=n)[None] for n in lengths]
    pads = [(9 - n, 0) if side == "left" else (0, 9 - n) for n in lengths]
    ids = torch.cat([F.pad(t, p, value=2) for t, p in zip(alone, pads, strict=True)])
    mask = torch.cat([F.pad(torch.ones_like(t), p) for t, p in zip(alone, pads, strict=True)])
    batch = {"input_ids": ids, "attention_mask": mask, "labels": ids}
    found, expected = window_losses(model, [batch]), window_losses(model, alone)
    torch.testing.assert_close(found[0], expected[0], rtol=1e-4, atol=1e-4)
    assert found[1].tolist() == [2, 5, 7] == expected[1].tolist()


def test_dropout_is_off_and_the_mode_comes_back():
    model = model_of("gpt2", dtype=torch.float32)
    expected = perplexity(model, cut_windows(text(), 5))
    assert perplexity(model.train(), cut_windows(text(), 5)) == expected and model.training


def test_a_text_shorter_than_a_window_and_an_encoder_decoder_are_refused_by_name():
    with pytest.raises(ValueError, match=r"tokens \(n,\) must fill a window of 30, got \(25,\)"):
        cut_windows(text(), 30)
    with pytest.raises(ValueError, match="^T5ForConditionalGeneration is an encoder or"):
        perplexity(model_of("t5"), [inputs_of("t5")])
    with pytest.raises(ValueError, match="windows has no token to predict"):
        perplexity(model_of("llama"), [])
