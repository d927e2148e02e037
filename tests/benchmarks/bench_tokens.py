"""What dropping tokens saves on the clock, beside what it saves in MACs:
``python tests/benchmarks/bench_tokens.py``.

A BERT of six layers and width 256 (random weights: nothing is downloaded) reads texts
of 128 tokens, one at a time and 32 at once. After its second layer 50 or 15 % of the
tokens go on. The score is the attention row of [CLS], computed alone beside SDPA's
fused kernel; or attention received from all tokens, which SDPA does not have and a
second Q·Kᵀ must make, and which eager attention has anyway. Random scores cost nothing:
they show what is left to gain.

All take turns in one run. Before any time is looked at, the outputs are compared with
those of the slow way, in which the same tokens are masked and stay.
"""

import copy
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from itertools import product

import torch
from contest import WHERE, ratio
from torch import Tensor, nn

from course_lib.cost import texts_macs, token_macs
from course_lib.cost.latency import compare
from course_lib.pruning.tokens import dropping

LAYER, SHARES = 1, (0.5, 0.15)
RUNS, LENGTH, LAYERS, WIDTH = 7, 128, 6, 256
WAYS = [
    ("sdpa", "cls"),
    ("sdpa", "received"),
    ("sdpa", "random"),
    ("eager", "cls"),
    ("eager", "received"),
]


def bert(layers: int, width: int, attention: str) -> nn.Module:
    from transformers import BertConfig, BertForSequenceClassification

    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=1000,
        hidden_size=width,
        num_hidden_layers=layers,
        num_attention_heads=width // 32,
        intermediate_size=4 * width,
        initializer_range=0.1,
        attn_implementation=attention,
    )
    return BertForSequenceClassification(config).eval()


def masked_logits(model: nn.Module, ids: Tensor, alive: Tensor) -> Tensor:
    """The slow way: nobody behind the layer looks at tokens that are not ``alive`` (B,
    L), but all stay.
    """
    mask = alive[:, None, None, :]  # (B, 1, 1, L)
    if model.config._attn_implementation == "eager":
        mask = torch.zeros(mask.shape).masked_fill(~mask, torch.finfo(torch.float32).min)
    handles = [
        layer.register_forward_pre_hook(lambda m, args: (args[0], mask, *args[2:]))
        for layer in model.bert.encoder.layer[LAYER + 1 :]
    ]
    logits = model(ids).logits
    for handle in handles:
        handle.remove()
    return logits


def at_batch(batch: int, models: dict[str, nn.Module], length: int, runs: int) -> None:
    """Prints a table for one batch size."""
    ids = torch.randint(5, 1000, (batch, length), generator=torch.Generator().manual_seed(1))
    config = models["sdpa"].config
    full = token_macs([length] * config.num_hidden_layers, config.hidden_size)
    ways: dict[str, Callable[[], object]] = {
        f"{name} full": partial(m, ids) for name, m in models.items()
    }
    ratios = {}
    with ExitStack() as blocks:
        for share, (attention, score) in product(SHARES, WAYS):
            name = f"{attention} {score} {share}"
            # each way has a block of its own, open while the clock runs
            model = copy.deepcopy(models[attention])
            drop = blocks.enter_context(
                dropping(
                    model, {LAYER: share}, score=score, generator=torch.Generator().manual_seed(0)
                )
            )
            got = model(ids).logits
            assert drop.last is not None
            expected = masked_logits(models[attention], ids, drop.last.alive(LAYER))
            assert torch.allclose(got, expected, atol=1e-4), (
                f"{name} gives something else than masking"
            )
            ratios[name] = (
                full / texts_macs(*drop.lengths(), config.hidden_size).double().mean().item()
            )
            ways[name] = partial(model, ids)
        seconds = compare(ways, warmup=2, repeats=runs, wall=True)
    print(
        f"\nbatch {batch}, nothing dropped: "
        + ", ".join(f"{n} {seconds[f'{n} full']}" for n in models)
    )
    for name, macs in ratios.items():
        attention, score, share = name.split()
        taken = seconds[name]
        print(
            f"    keep {float(share):4.0%}, {attention + ',':6} {score:8}  {macs:.2f}x fewer MACs, "
            f"{ratio(seconds[f'{attention} full'], taken)} faster"
            + ("" if attention == "sdpa" else f", {ratio(seconds['sdpa full'], taken)} than SDPA")
        )


@torch.no_grad()
def main() -> None:
    models = {attention: bert(LAYERS, WIDTH, attention) for attention in ("sdpa", "eager")}
    print(
        f"BERT, {LAYERS} layers x {WIDTH}, texts of {LENGTH} tokens, dropped after the second "
        f"layer's attention; {RUNS} turns, median (quartiles); {WHERE}"
    )
    for batch in (1, 32):
        at_batch(batch, models, LENGTH, RUNS)


if __name__ == "__main__":
    main()
