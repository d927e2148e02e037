"""A real encoder fine-tuned on real sentences, for the results of labs 06, 07, 09 and 10
on SST-2 and other tasks of GLUE.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from course_lib.data import glue, pieces
from course_lib.training import History, endless, fit_batches, warm_up_then_decay

LONGEST = 64  # pieces; SST-2's longest sentence has 66
# rows of a task of which there is no training part, and its development set is cut
CUT = {"validation": 400, "test": 600}


def prepared(
    sentences: int = 12_000, longest: int = LONGEST, tokenizer: Any = None, name: str = "sst2"
) -> Any:
    """A GLUE task as pieces, for ``pieces.batches``: the first ``sentences`` training
    rows, all of validation and test. Where there is no training part (QNLI), all three
    are cut from the development set, in an order that is the same for everyone, and
    its figures are no longer GLUE's.

    Raises:
        DataMissing: if the task is not here and cannot be downloaded.
    """
    data = glue.load(name)
    if "train" not in data:
        order = np.random.RandomState(glue.SPLIT_SEED).permutation(len(data["test"]))
        rows = data["test"].select(order)
        ends = (CUT["test"], CUT["test"] + CUT["validation"])
        data["test"] = rows.select(range(ends[0]))
        data["validation"] = rows.select(range(*ends))
        data["train"] = rows.select(range(ends[1], len(rows)))
    data["train"] = data["train"].select(range(min(sentences, len(data["train"]))))

    def encode(rows: dict[str, list[str]]) -> Any:
        return tokenizer(rows["text"], rows.get("text_pair"), truncation=True, max_length=longest)

    return data.map(encode, batched=True, load_from_cache_file=False)


def fine_tune(
    model: Any,
    data: Any,
    *,
    epochs: int = 1,
    lr: float = 1e-4,
    batch_size: int = 32,
    seed: int = 0,
    progress: bool = True,
) -> History:
    """Fine-tune a classifier in place on ``data["train"]``: AdamW, warm-up over a tenth
    of the steps, then linear decay.

    Args:
        model: from ``load_classifier``.
        data: from ``prepared``.

    Source: Devlin et al. 2019, "BERT", section 4.1, with the larger rate that a small
    encoder likes.
    """
    per_epoch = -(-len(data["train"]) // batch_size)
    steps = epochs * per_epoch
    warm_up = max(1, steps // 10)
    return fit_batches(
        model,
        endless(
            lambda order: pieces.batches(data["train"], batch_size=batch_size, seed=order), seed
        ),
        steps,
        lr=lr,
        betas=(0.9, 0.999),
        rate=warm_up_then_decay(warm_up, warm_up),
        seed=seed,
        progress=progress,
    )
