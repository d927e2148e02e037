"""Heads of BERT-base: what gates, importance and removal cost and save:
``python tests/benchmarks/bench_heads.py``.

Three figures, each beside what it is to be measured by, in one run and taking turns
(random weights: time does not care):

- gates on all 144 heads beside the same forward pass without;
- the importance of all heads in one backward pass for each batch beside switching each
  head off in turn;
- the same half of the heads removed beside the best there can be: the same layers with
  freshly built Linear(768, 384) for query, key and value and Linear(384, 768) for the
  output. (BertConfig(num_attention_heads=6, head_dim=64) would not do: it still builds
  768 x 768.) A heads' worth of gates at zero is checked to give the same outputs before
  any time is looked at.

Everything gets one thread.
"""

import copy

import torch
import torch.nn.functional as F
from contest import WHERE
from torch import Tensor, nn

from course_lib.cost import latency, model_cost, totals
from course_lib.cost.latency import Latency
from course_lib.pruning.heads import (
    ablate_each,
    choose_heads,
    find_attention,
    gated,
    head_importance,
)
from course_lib.pruning.heads.removal import remove_heads

Batch = dict[str, Tensor]
RUNS, LENGTH, LAYERS = 5, 128, 4


def bert_base(layers: int) -> nn.Module:
    from transformers import BertConfig, BertForSequenceClassification

    torch.manual_seed(0)
    return BertForSequenceClassification(BertConfig(num_hidden_layers=layers)).eval()


def batch_of(size: int, length: int) -> Batch:
    g = torch.Generator().manual_seed(0)
    return {
        "input_ids": torch.randint(1000, 30000, (size, length), generator=g),
        "labels": torch.arange(size) % 2,
    }


def run(model: nn.Module, batch: Batch) -> Tensor:
    return model(input_ids=batch["input_ids"]).logits


def losses(model: nn.Module, batch: Batch) -> Tensor:
    return F.cross_entropy(run(model, batch), batch["labels"], reduction="none")


def fresh_half(model: nn.Module) -> nn.Module:
    """The ideal: layers that were built with half the width."""
    model = copy.deepcopy(model)
    for layer in model.bert.encoder.layer:
        attention, out = layer.attention.self, layer.attention.output
        attention.query, attention.key, attention.value = (nn.Linear(768, 384) for _ in range(3))
        out.dense = nn.Linear(384, 768)
        attention.num_attention_heads, attention.all_head_size = 6, 384
    return model.eval()


def times_faster(a: Latency, b: Latency) -> str:
    return f"{a.times_slower_than(b):.2f}x"


def bench_gates(model: nn.Module, batch: Batch, runs: int) -> None:
    found = find_attention(model)
    xi = torch.rand(len(found), 12)
    per_sample = torch.rand(len(found), len(batch["labels"]), 12)

    def with_gates(gates: Tensor) -> None:
        with gated(model, gates, found):
            run(model, batch)

    with torch.inference_mode():
        seconds = latency.compare(
            {
                "plain": lambda: run(model, batch),
                "gates": lambda: with_gates(xi),
                "for each sample": lambda: with_gates(per_sample),
            },
            repeats=runs,
            wall=True,
        )
    extra = [
        seconds[name].times_slower_than(seconds["plain"]) - 1
        for name in ("gates", "for each sample")
    ]
    print(
        f"  forward pass {seconds['plain']}   with gates {extra[0]:+.1%}   with gates for each sample {extra[1]:+.1%}"
    )


def bench_importance(model: nn.Module, batch: Batch, runs: int) -> None:
    """Ablation is timed on a few heads and multiplied, since each costs the same
    forward pass.
    """
    found = find_attention(model)
    heads = sum(a.heads for a in found)
    keep = torch.ones(len(found), 12)
    keep[0, 0] = 0

    @torch.inference_mode()
    def one_ablation() -> None:
        with gated(model, keep, found):
            losses(model, batch)

    seconds = latency.compare(
        {
            "importance": lambda: head_importance(model, [batch], losses, found),
            "ablation": one_ablation,
        },
        repeats=runs,
        wall=True,
    )
    importance, ablation = seconds["importance"], seconds["ablation"]
    per_pass = importance.times_slower_than(ablation)
    print(
        f"  importance of all {heads} heads {importance}, {per_pass:.1f} forward passes   switching each off "
        f"{(heads + 1) * ablation.median:.3g} s ({heads + 1} forward passes)   {(heads + 1) / per_pass:.0f}x faster"
    )


def check_ablation(layers: int = 2) -> None:
    """To first order a head's ablation changes the loss by its slope: the two agree in
    sign and order on small gates.
    """
    model, batch = bert_base(layers).double(), batch_of(2, 16)
    one = {name: x[:1] for name, x in batch.items()}
    step = 1e-4

    def loss(xi: torch.Tensor) -> float:
        with gated(model, 1 - step * (1 - xi)), torch.no_grad():
            return float(losses(model, one))

    slopes = ablate_each(loss, layers, 12).abs() / step
    torch.testing.assert_close(head_importance(model, [one], losses), slopes, rtol=1e-2, atol=1e-6)


def bench_removal(model: nn.Module, batches: list[Batch], runs: int) -> None:
    layers = len(find_attention(model))
    rng = torch.Generator().manual_seed(0)
    # six of each layer
    keep = torch.cat([choose_heads(1, 12, 6, "random", rng) for _ in range(layers)])
    smaller, ideal = remove_heads(model, keep), fresh_half(model)
    with torch.inference_mode(), gated(model, keep):
        expected = run(model, batches[0])
    with torch.inference_mode():
        torch.testing.assert_close(run(smaller, batches[0]), expected, rtol=0, atol=1e-5)
    macs = [
        totals(model_cost(m, {"input_ids": batches[0]["input_ids"][:1]}))["macs"]
        for m in (model, smaller, ideal)
    ]
    assert macs[1] == macs[2], "the ideal is another model"
    print(f"  {macs[0] / macs[1]:.2f}x fewer MACs")
    for batch in batches:
        with torch.inference_mode():
            seconds = latency.compare(
                {
                    "full": lambda b=batch: run(model, b),
                    "removed": lambda b=batch: run(smaller, b),
                    "ideal": lambda b=batch: run(ideal, b),
                },
                repeats=runs,
                wall=True,
            )
        full, removed, best = seconds["full"], seconds["removed"], seconds["ideal"]
        saved = [1 - other.times_slower_than(full) for other in (removed, best)]
        print(
            f"  batch {len(batch['labels']):2d}: full {full}   half the heads removed {removed}, "
            f"{times_faster(full, removed)}   freshly built halves {best}, {times_faster(full, best)}   "
            f"{saved[0] / saved[1]:.0%} of the time that these save"
        )


def main() -> None:
    check_ablation()
    model = bert_base(LAYERS)
    batches = [batch_of(size, LENGTH) for size in (1, 8)]
    print(
        f"BERT-base, {LAYERS} layers of 12 heads, {LENGTH} tokens, {RUNS} runs, median and "
        f"quartiles; {WHERE}"
    )
    middle = batches[len(batches) // 2]
    print(f"gates, batch {len(middle['labels'])}")
    bench_gates(model, middle, 3 * RUNS)
    print(f"importance, batch {len(middle['labels'])}")
    bench_importance(model, middle, RUNS)
    print("removal")
    bench_removal(model, batches, RUNS)


if __name__ == "__main__":
    main()
