"""``python tests/benchmarks/scale.py``: time and memory of each step on large models, the
table of docs/own_models.md.

Each step runs in a process of its own on a model with random weights, so no download is
needed. Memory is what the process held at its highest beyond the model (Linux's VmHWM,
reset before the step), in sizes of the model's float32 weights.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import course_lib  # noqa: F401  (before transformers: it tells torchvision what torch lacks)

TOKENS = (4, 128)  # a batch: sequences, tokens of each


def build(name: str) -> nn.Module:
    """A model of random weights, in evaluation mode."""
    from transformers import (
        BertConfig,
        BertForSequenceClassification,
        LlamaConfig,
        LlamaForCausalLM,
    )

    torch.manual_seed(0)
    if name == "BERT-base":
        return BertForSequenceClassification(BertConfig()).eval()
    if name == "BERT-large":
        large = BertConfig(
            hidden_size=1024, num_hidden_layers=24, num_attention_heads=16, intermediate_size=4096
        )
        return BertForSequenceClassification(large).eval()
    config = LlamaConfig(  # TinyLlama 1.1B
        hidden_size=2048,
        intermediate_size=5632,
        num_hidden_layers=22,
        num_attention_heads=32,
        num_key_value_heads=4,
        vocab_size=32000,
    )
    return LlamaForCausalLM(config).eval()


MODELS = ("BERT-base", "BERT-large", "Llama 1.1B")


def losses(model: Any, batch: Tensor) -> Tensor:
    """(sequences,): a loss of each."""
    logits = model(batch).logits.float()
    if logits.ndim == 3:  # (sequences, tokens, vocabulary) of a decoder
        log_p = logits[:, :-1].log_softmax(-1).gather(-1, batch[:, 1:, None])
        return -log_p.squeeze(-1).mean(1)
    return -logits.log_softmax(-1)[:, 0]


class Classes(nn.Module):
    """(B, tokens) -> logits (B, classes): of the whole text, or of its next token."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, tokens: Tensor) -> Tensor:
        logits = self.model(tokens).logits
        return logits if logits.ndim == 2 else logits[:, -1]


def steps(model: Any, batch: Tensor, folder: Path) -> dict[str, tuple[Callable[[], Any], ...]]:
    """Name -> what is prepared before the clock starts, and the step, which is given it."""
    from course_lib.models.attention import find_attention
    from course_lib.pruning import heads, layers, weights

    def scores() -> Any:
        return weights.magnitude(weights.prunable(model))

    def some_heads() -> Any:
        found = find_attention(model)
        grid = torch.rand(len(found), found[0].heads)
        return heads.lowest_heads(grid, count=grid.numel() // 4, attention=found)

    def masks() -> Any:
        return weights.local_masks(scores(), 0.5)

    def one_step(held: Any) -> None:
        with weights.masked(model, held):
            pass

    def saved(_: Any) -> None:
        heads.save_pruned(model, folder)

    def fisher(only: Any) -> Any:
        labels = torch.zeros(1, dtype=torch.int64)
        return weights.empirical_fisher(Classes(model), batch[:1], labels, only)

    def a_layer() -> list[str]:  # one of the middle
        named = [f"model.{name}" for name in weights.prunable(model) if ".5." in name]
        return [next(name for name in named if "query" in name or "q_proj" in name)]

    return {
        "scores by magnitude": (lambda: None, lambda _: scores()),
        "masks, 50 % of each layer": (scores, lambda s: weights.local_masks(s, 0.5)),
        "masks, 50 % of all": (scores, lambda s: weights.global_masks(s, 0.5)),
        "masks held (`masked`)": (masks, one_step),
        "head importance, a batch": (
            lambda: None,
            lambda _: heads.head_importance(model, [batch], losses),
        ),
        "neuron importance, a batch": (
            lambda: None,
            lambda _: layers.ffn_importance(model, [batch], losses),
        ),
        "empirical Fisher, all weights": (lambda: None, fisher),
        "the same, one matrix (`only=`)": (a_layer, fisher),
        "a quarter of the heads removed": (some_heads, lambda s: heads.remove_heads_(model, s)),
        "saved": (lambda: heads.remove_heads_(model, some_heads()), saved),
        "loaded": (
            lambda: saved(heads.remove_heads_(model, some_heads())),
            lambda _: heads.load_pruned(folder),
        ),
    }


def memory(field: str) -> float:
    """VmRSS or VmHWM of this process, in bytes."""
    found = re.search(rf"{field}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found
    return int(found[1]) * 1024


def measure(name: str, step: str) -> dict[str, Any]:
    """Run one step in this process: seconds, and bytes at the highest beyond what was held
    when the model and what the step is given were there.
    """
    torch.set_num_threads(1)
    model = build(name)
    batch = torch.randint(0, 1000, TOKENS)
    size = 4 * sum(p.numel() for p in model.parameters())
    with tempfile.TemporaryDirectory() as folder:
        prepare, run = steps(model, batch, Path(folder))[step]
        given = prepare()
        held = memory("VmRSS")
        Path("/proc/self/clear_refs").write_text("5")  # VmHWM starts again
        begin = time.perf_counter()
        run(given)
        seconds = time.perf_counter() - begin
        peak = memory("VmHWM") - held
    return {"model": name, "step": step, "seconds": seconds, "beside": peak / size, "bytes": size}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", nargs="*", choices=MODELS, default=MODELS)
    parser.add_argument("--steps", nargs="*", help="all by default")
    parser.add_argument("--one", nargs=2, metavar=("MODEL", "STEP"), help="measure one, here")
    asked = parser.parse_args()
    if asked.one:
        print(json.dumps(measure(*asked.one)))
        return
    import pandas as pd

    names = [n for n in steps(None, torch.zeros(1), Path()) if n in (asked.steps or [n])]
    rows = []
    for model in asked.models:
        for step in names:
            command = [sys.executable, __file__, "--one", model, step]
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode:
                print(f"{model}, {step}: {done.stderr.strip().splitlines()[-1:]}", flush=True)
                continue
            rows.append(json.loads(done.stdout.splitlines()[-1]))
            print(rows[-1], flush=True)
    table = pd.DataFrame(rows)
    shown = table.pivot(index="step", columns="model", values=["beside", "seconds"])
    print(shown.loc[[n for n in names if n in shown.index]].round(2).to_markdown())


if __name__ == "__main__":
    main()
