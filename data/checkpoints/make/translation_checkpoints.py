"""How the checkpoints "translation-marian-0", "-1" and "-2" were trained: a small
encoder-decoder on the generated sentence pairs.

Three encoder layers and one decoder layer: with more, the decoder does the work, and
nothing can be learned from the encoder's heads.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import nn

from course_lib.data import translation
from course_lib.models import checkpoints
from course_lib.models.initial import weights_from
from course_lib.training import Batch, History, endless, fit_batches, warm_up_then_decay

SEEDS = (0, 1, 2)
SHAPE: dict[str, Any] = {
    "encoder_layers": 3,
    "decoder_layers": 1,
    "d_model": 96,
    "heads": 6,
    "ffn": 256,
    "max_position_embeddings": 64,
    "init_std": 0.07,
}
PAIRS, BATCH, STEPS, RATE = 60_000, 48, 3000, 2e-3


def small_marian(vocabulary: int, *, heads: int, ffn: int, seed: int = 0, **shape: Any) -> Any:
    """A fresh ``MarianMTModel`` in evaluation mode. Source and target share one vocabulary
    (0 fills up and starts the decoder, 3 ends a sentence) and one table of embeddings, which is
    also the output layer; positions are sinusoids that are not learned.

    Args:
        heads, ffn: H and the feed-forward layers' width, in encoder and decoder.
        shape: further options of ``MarianConfig``.

    Source: Vaswani et al. 2017, "Attention Is All You Need"; Junczys-Dowmunt et al. 2018,
    "Marian".
    """
    from transformers import MarianConfig, MarianMTModel

    sizes = {"attention_heads": heads, "ffn_dim": ffn}
    config = MarianConfig(
        vocab_size=vocabulary,
        decoder_vocab_size=vocabulary,
        **{f"{part}_{name}": n for part in ("encoder", "decoder") for name, n in sizes.items()},
        **{"dropout": 0.0, **shape},
        attention_dropout=0.0,
        scale_embedding=True,
        pad_token_id=0,
        decoder_start_token_id=0,
        eos_token_id=3,
        bos_token_id=None,
        forced_eos_token_id=3,
    )
    with weights_from(seed):
        return MarianMTModel(config).eval()


def name(seed: int) -> str:
    return f"translation-marian-{seed}"


def fresh(seed: int) -> Any:
    """The model before training."""
    return small_marian(len(translation.tokenizer()), **SHAPE, seed=seed)


def train(
    seed: int, data: Any, steps: int = STEPS, progress: bool = True
) -> tuple[nn.Module, History]:
    """A trained model in evaluation mode, and its history."""
    model = fresh(seed)
    history = fit_batches(
        model,
        endless(lambda order: translation.batches(data, BATCH, seed=order), seed),
        steps,
        lr=RATE,
        rate=warm_up_then_decay(200, decay_from=200),
        seed=seed,
        progress=progress,
    )
    return model.eval(), history


def exact(found: list[str], right: list[str]) -> float:
    """% of the sentences that are right in every word."""
    return 100 * sum(a == b for a, b in zip(found, right, strict=True)) / len(right)


@torch.no_grad()
def token_accuracy(model: nn.Module, batches: Iterable[Batch]) -> float:
    """% of the words that come first when all right words before them are given."""
    right = total = 0
    for batch in batches:
        labels = batch["labels"]
        best = model(**batch).logits.argmax(-1)
        right += int(((best == labels) & (labels >= 0)).sum())
        total += int((labels >= 0).sum())
    if not total:
        raise ValueError("no batch holds a word: is the iterator used up?")
    return 100 * right / total


def remake(seed: int, progress: bool = True) -> dict[str, Any]:
    """Train the checkpoint of a seed, measure it, save it in the course's ``data/``;
    returns its record.

    About 3 minutes on one core. On another machine, or with another number of threads,
    sums are rounded in another order: the weights will differ, BLEU by some tenths.
    """
    data = translation.load(PAIRS)
    model, history = train(seed, data["train"], progress=progress)
    measured = {}
    for split in ("validation", "test"):
        found, right = translation.translate(model, data[split]), list(data[split]["target"])
        measured[split] = {
            "bleu": round(translation.bleu(found, right), 3),
            "exact": round(exact(found, right), 3),
        }
    about = {
        "task": "translation of generated sentences (course_lib.data.translation, seed 0)",
        "seed": seed,
        "measured": measured,
        "steps": history.done,
        "cpu_seconds": round(history.cpu_seconds),
        "command": f"python data/checkpoints/make translation --seed {seed}",
    }
    checkpoints.save(name(seed), model, translation.tokenizer(), about)
    return about
