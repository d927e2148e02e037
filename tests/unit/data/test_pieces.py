from typing import Any

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


def test_words_and_text_give_the_same_pieces_and_none_is_unknown(data: Any, tokenizer: Any) -> None:
    rows = pieces.encode(data["test"], tokenizer)
    assert [list(ids) for ids in rows["input_ids"]] == tokenizer(list(rows["text"]))["input_ids"]
    assert not any(tokenizer.unk_token_id in ids for ids in rows["input_ids"])


def test_pieces_know_their_word(data: Any, tokenizer: Any) -> None:
    split = 0
    for row in pieces.encode(data["test"], tokenizer):
        assert row["word"][0] == row["word"][-1] == -1
        assert sorted(set(row["word"][1:-1])) == list(range(len(row["words"])))
        for place in range(1, len(row["word"]) - 1):
            word = row["word"][place]
            assert row["piece_evidence"][place] == row["evidence"][word]
            assert row["piece_rarity"][place] == row["rarity"][word]
            head = row["head"][word]
            assert row["piece_head"][place] == (-1 if head == -1 else row["word"].index(head))
        for name in ("piece_evidence", "piece_rarity"):
            assert row[name][0] == row[name][-1] == 0
        spelt = tokenizer.convert_ids_to_tokens(row["input_ids"])
        for word, text in enumerate(row["words"]):
            parts = [spelt[i] for i, of in enumerate(row["word"]) if of == word]
            assert "".join(part.removeprefix("##") for part in parts) == text
            split += len(parts) > 1
    assert split > 100


def test_pairs_run_on(data: Any, tokenizer: Any) -> None:
    for row in pieces.encode(reviews.task(data, "agreement")["test"], tokenizer):
        assert sorted(set(row["word"]) - {-1}) == list(range(len(row["words"])))
        seps = [i for i, piece in enumerate(row["input_ids"]) if piece == tokenizer.sep_token_id]
        assert len(seps) == 2 and row["word"][seps[0] + 1] == row["second"]
        assert row["token_type_ids"] == [int(i > seps[0]) for i in range(len(row["word"]))]
        for place, word in enumerate(row["word"]):
            if word >= 0 and row["head"][word] >= 0:
                assert row["word"][row["piece_head"][place]] == row["head"][word]


def test_the_fingerprint_changes_with_the_pieces_only(data: Any, tokenizer: Any) -> None:
    before = pieces.fingerprint(tokenizer)
    tokenizer(["a film.", "the food was good."], padding=True, truncation=True, max_length=5)
    assert pieces.fingerprint(tokenizer) == before
    assert (
        pieces.fingerprint(pieces.train_tokenizer(data["train"]["text"], vocabulary=301)) != before
    )


def test_batches_hold_every_text_once_padded_as_little_as_possible(
    data: Any, tokenizer: Any
) -> None:
    rows = pieces.encode(data["validation"], tokenizer)
    wanted = sorted(
        (tuple(ids), label) for ids, label in zip(rows["input_ids"], rows["sentiment"], strict=True)
    )
    for seed in (None, 3):
        got = []
        for batch in pieces.batches(
            rows, "sentiment", 16, seed=seed, extra=("piece_evidence", "piece_rarity")
        ):
            ids, mask = batch["input_ids"], batch["attention_mask"]
            assert (
                ids.shape
                == mask.shape
                == batch["piece_evidence"].shape
                == batch["piece_rarity"].shape
            )
            assert torch.equal(mask.bool(), ids != 0) and mask[:, -1].any()
            assert (
                batch["piece_evidence"].dtype == torch.int64
                and batch["piece_rarity"].dtype == torch.float32
            )
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
    spread = sum(max(lengths[i] for i in b) - min(lengths[i] for i in b) for b in first) / len(
        first
    )
    assert spread < 8  # of 75
    assert [max(lengths[i] for i in b) for b in first] != sorted(
        max(lengths[i] for i in b) for b in first
    )


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
