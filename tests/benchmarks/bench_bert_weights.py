"""What pruning a BERT's weights costs and gains:
``python tests/benchmarks/bench_bert_weights.py``.

A training step with movement pruning beside a plain one, both of AdamW on the same
batch; and the latency of a BERT-base's encoder with low-rank layers beside the dense
one, at the share of its weights that is left. Ratios of processor time, medians of
turns.
"""

from __future__ import annotations

import copy

import torch

from course_lib.cost.latency import compare, forward
from course_lib.models import checkpoints
from course_lib.pruning import components
from course_lib.pruning.weights import encoder_weights, movement_pruning

SHARES = (0.5, 0.25, 0.1)


def step_of(model: torch.nn.Module, groups: list, batch: dict):
    optimizer = torch.optim.AdamW(groups, lr=1e-5)

    def step() -> None:
        optimizer.zero_grad()
        model(**batch).loss.backward()
        optimizer.step()

    return step


def training() -> None:
    plain = checkpoints.load("reviews-bert-0").model.train()
    moved = copy.deepcopy(plain)
    generator = torch.Generator().manual_seed(0)
    batch = {
        "input_ids": torch.randint(5, 600, (32, 32), generator=generator),
        "attention_mask": torch.ones(32, 32, dtype=torch.int64),
        "labels": torch.randint(2, (32,), generator=generator),
    }
    with movement_pruning(moved, list(encoder_weights(moved))) as scores:
        # all kept: the same numbers
        assert torch.allclose(moved(**batch).logits, plain(**batch).logits, atol=1e-4)
        scores.keep = 0.1
        contest = {
            "plain": step_of(plain, [{"params": list(plain.parameters())}], batch),
            "movement": step_of(moved, scores.groups(moved, 1e-5, 1e-2), batch),
        }
        times = compare(contest, warmup=1, repeats=7, threads=1)
    print(
        f"a training step, BERT-small, 32 texts of 32: movement / plain = {times['movement'].median / times['plain'].median:.2f}"
    )


def low_rank() -> None:
    from transformers import BertConfig, BertModel

    torch.manual_seed(0)
    dense = BertModel(BertConfig(num_hidden_layers=1)).eval()
    inputs = torch.randint(1000, (4, 64))
    contest = {"dense": forward(dense, inputs)}
    for share in SHARES:
        ranks = {
            n: round(share * w.numel() / sum(w.shape)) for n, w in encoder_weights(dense).items()
        }
        contest[f"{share:.0%}"] = forward(components.truncate(dense, ranks), inputs)
    times = compare(contest, repeats=5, threads=1)
    for share in SHARES:
        ratio = times["dense"].median / times[f"{share:.0%}"].median
        print(
            f"BERT-base layers, 4 texts of 64: {share:.0%} of the weights as low rank are {ratio:.2f} times as fast as dense"
        )


if __name__ == "__main__":
    torch.set_num_threads(1)
    training()
    low_rank()
