from typing import Any

import numpy as np
import pytest
import torch
from datasets import Dataset

from course_lib.data import pieces, reviews


@pytest.fixture(scope="module")
def data() -> Any:
    return reviews.load(train=2000, validation=100, test=100)


@pytest.fixture(scope="module")
def tokenizer(data: Any) -> Any:
    return pieces.train_tokenizer(data["train"]["text"], vocabulary=300)


def test_the_tokenizer_has_the_size_and_the_marks_that_were_asked_for(tokenizer: Any) -> None:
    assert len(tokenizer) == 300
    assert tokenizer.convert_tokens_to_ids(list(pieces.SPECIAL.values())) == [0, 1, 2, 3, 4]
    one, two = tokenizer("the food.")["input_ids"], tokenizer("the food.", "a film.")["input_ids"]
    assert (one[0], one[-1], one.count(3), two.count(3)) == (2, 3, 1, 2)


def test_pieces_know_their_word(data: Any, tokenizer: Any) -> None:
    split = 0
    for row in pieces.encode(data["test"], tokenizer, aligned=("evidence",)):
        assert row["input_ids"] == tokenizer(row["text"])["input_ids"]
        assert tokenizer.unk_token_id not in row["input_ids"]
        spelt = tokenizer.convert_ids_to_tokens(row["input_ids"])
        starts = [i for i, piece in enumerate(spelt) if not piece.startswith("##")]
        of_word = row["piece_evidence"][1:-1]
        wanted = np.repeat(row["evidence"], np.diff(starts)[1:]).tolist()
        assert of_word == wanted and row["piece_evidence"][0] == row["piece_evidence"][-1] == 0
        split += len(of_word) - len(row["words"])
    assert split > 100


def test_batches_hold_every_text_once_padded_as_little_as_possible(
    data: Any, tokenizer: Any
) -> None:
    rows = pieces.encode(data["validation"], tokenizer, aligned=("evidence",))
    wanted = sorted(
        (tuple(ids), label) for ids, label in zip(rows["input_ids"], rows["sentiment"], strict=True)
    )
    for seed in (None, 3):
        got = []
        for batch in pieces.batches(rows, "sentiment", 16, seed=seed, extra=("piece_evidence",)):
            ids, mask = batch["input_ids"], batch["attention_mask"]
            assert ids.shape == mask.shape == batch["piece_evidence"].shape
            assert torch.equal(mask.bool(), ids != 0) and mask[:, -1].any()
            got += [
                (tuple(i[m.bool()].tolist()), y)
                for i, m, y in zip(ids, mask, batch["labels"].tolist(), strict=True)
            ]
        assert sorted(got) == wanted


def test_batches_by_length_are_shuffled_and_follow_the_seed() -> None:
    lengths = torch.randint(5, 80, (1000,), generator=torch.Generator().manual_seed(0)).tolist()
    first, again, other = (list(pieces.by_length(lengths, 32, seed)) for seed in (1, 1, 2))
    assert first == again != other
    assert sorted(i for batch in first for i in batch) == list(range(1000))
    of_batches = [[lengths[i] for i in batch] for batch in first]
    assert sum(max(b) - min(b) for b in of_batches) / len(first) < 8  # of 75
    assert [max(b) for b in of_batches] != sorted(max(b) for b in of_batches)


def test_batches_of_pairs_tell_the_texts_apart() -> None:
    rows = Dataset.from_dict(
        {
            "input_ids": [[2, 5, 3, 6, 3], [2, 3, 3]],
            "token_type_ids": [[0, 0, 0, 1, 1], [0, 0, 1]],
            "label": [1, 0],
        }
    )
    (batch,) = pieces.batches(rows, batch_size=2)
    assert batch["token_type_ids"].tolist() == [[0, 0, 1, 0, 0], [0, 0, 0, 1, 1]]
    assert batch["labels"].tolist() == [0, 1]
