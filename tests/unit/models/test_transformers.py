"""The builders of small transformers, and leaving patches out."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from course_lib.models.bert import SINUSOIDS, sinusoids, small_bert
from course_lib.models.marian import small_marian
from course_lib.models.vit import patch_dropout, small_vit

BUILDERS = {
    "bert": lambda seed=0: small_bert(
        50, 3, layers=2, width=16, heads=4, ffn=24, positions=30, seed=seed
    ),
    "vit": lambda seed=0: small_vit(layers=2, width=16, heads=4, ffn=24, seed=seed),
    "marian": lambda seed=0: small_marian(
        40, layers=2, width=16, heads=4, ffn=24, positions=30, seed=seed
    ),
}


@pytest.mark.parametrize("build", BUILDERS.values(), ids=list(BUILDERS))
def test_builders_follow_the_seed_and_leave_the_global_state_alone(
    build: Callable[[int], Any],
) -> None:
    before = torch.random.get_rng_state()
    first, again, other = (build(seed).state_dict() for seed in (3, 3, 4))
    assert torch.equal(torch.random.get_rng_state(), before)
    assert all(torch.equal(first[key], again[key]) for key in first)
    assert not all(torch.equal(first[key], other[key]) for key in first)
    assert not build(0).training


def test_the_small_bert_is_the_one_of_the_checkpoints() -> None:
    model = small_bert()
    assert (
        model.config.num_hidden_layers,
        model.config.num_attention_heads,
        model.config.intermediate_size,
    ) == (
        4,
        8,
        256,
    )
    assert sum(p.numel() for p in model.parameters()) * 4 < 2.7e6  # bytes
    assert model.config.hidden_dropout_prob == model.config.attention_probs_dropout_prob == 0
    query = model.bert.encoder.layer[0].attention.self.query.weight
    assert query.std().item() == pytest.approx(0.05, rel=0.03)


def test_positions_start_from_sinusoids() -> None:
    table = small_bert(positions=40).bert.embeddings.position_embeddings.weight
    assert table.requires_grad
    torch.testing.assert_close(table.detach(), SINUSOIDS * sinusoids(40, 128))
    waves = sinusoids(40, 128)
    assert waves.shape == (40, 128)
    torch.testing.assert_close(
        waves[7, :2],
        torch.tensor([7.0, 7.0]).sin().where(torch.tensor([True, False]), torch.tensor(7.0).cos()),
    )
    rate = 10_000 ** (-126 / 128)  # of the last pair of columns
    torch.testing.assert_close(
        waves[9, 126:], torch.tensor([9 * rate, 9 * rate + torch.pi / 2]).sin()
    )
    # a shift by k is the same rotation everywhere, which is what makes them good for
    # relative positions
    torch.testing.assert_close(waves[3] @ waves[8], waves[20] @ waves[25])


def test_bert_takes_pairs_and_ignores_padding() -> None:
    model = BUILDERS["bert"]()
    ids = torch.tensor([[2, 7, 8, 3, 9, 3], [2, 7, 3, 9, 3, 0]])
    mask, kinds = (ids != 0).long(), torch.tensor([[0, 0, 0, 0, 1, 1], [0, 0, 0, 1, 1, 0]])
    logits = model(input_ids=ids, attention_mask=mask, token_type_ids=kinds).logits
    assert logits.shape == (2, 3)
    alone = model(input_ids=ids[1:, :5], token_type_ids=kinds[1:, :5]).logits
    torch.testing.assert_close(logits[1:], alone, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("patch", "tokens"), [(1, 65), (2, 17), (4, 5)])
def test_vit_has_a_token_for_each_patch(patch: int, tokens: int) -> None:
    model = small_vit(patch=patch, layers=1, width=16, heads=2)
    out = model(torch.rand(3, 1, 8, 8), output_hidden_states=True)
    assert out.logits.shape == (3, 10)
    assert out.hidden_states[0].shape == (3, tokens, 16)


def test_marian_translates_and_ties_its_embeddings() -> None:
    model = BUILDERS["marian"]()
    ids = torch.tensor([[7, 8, 9, 3], [7, 9, 3, 0]])
    out = model(input_ids=ids, attention_mask=(ids != 0).long(), labels=ids)
    assert out.logits.shape == (2, 4, 40) and torch.isfinite(out.loss)
    shared = model.get_input_embeddings().weight
    assert model.lm_head.weight is shared
    written = model.generate(
        input_ids=ids, attention_mask=(ids != 0).long(), max_new_tokens=6, num_beams=2
    )
    assert written.shape[0] == 2 and written[:, 0].tolist() == [0, 0]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: small_bert(width=100, heads=8), "multiple of heads"),
        (lambda: small_vit(width=30, heads=4), "multiple of heads"),
        (lambda: small_vit(patch=3), "no multiple of 3"),
        (lambda: small_marian(40, width=30, heads=4), "multiple of heads"),
        (lambda: small_marian(3), "end is a piece of the vocabulary"),
    ],
)
def test_impossible_shapes(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


def tokens_seen(model: Any, images: torch.Tensor) -> list[torch.Tensor]:
    """What the first layer is given in one forward pass."""
    seen: list[torch.Tensor] = []
    first = model.vit.layers[0] if hasattr(model.vit, "layers") else model.vit.encoder.layer[0]
    handle = first.register_forward_pre_hook(lambda _, args: seen.append(args[0].detach()))
    model(images)
    handle.remove()
    return seen


def test_left_out_patches_are_gone_and_the_others_are_as_they_were() -> None:
    model, images = BUILDERS["vit"](), torch.rand(6, 1, 8, 8)
    (whole,) = tokens_seen(model, images)
    model.train()
    counts = set()
    with patch_dropout(model, 0.25, torch.Generator().manual_seed(0)):
        for _ in range(40):
            (part,) = tokens_seen(model, images)
            counts.add(part.shape[1] - 1)
            assert torch.equal(part[:, 0], whole[:, 0])
            # the place of each token in the whole image: in order, each once, not the
            # same for all images
            place = (part[:, :, None] == whole[:, None]).all(-1).int().argmax(-1)
            assert (place.diff(dim=1) > 0).all()
            assert torch.equal(part, whole.gather(1, place[:, :, None].expand(-1, -1, 16)))
            assert part.shape[1] in (16, 17) or len({tuple(row.tolist()) for row in place}) > 1
    assert min(counts) == 4 and max(counts) >= 15 and len(counts) > 8
    (after,) = tokens_seen(model, images)
    assert torch.equal(after, whole)


def test_nothing_is_left_out_in_evaluation_or_after_an_error() -> None:
    model, images = BUILDERS["vit"](), torch.rand(2, 1, 8, 8)
    with pytest.raises(KeyError), patch_dropout(model, 0.1, torch.Generator()):
        assert tokens_seen(model, images)[0].shape[1] == 17
        raise KeyError
    assert tokens_seen(model.train(), images)[0].shape[1] == 17


@pytest.mark.parametrize("least", [0.0, 1.5])
def test_the_share_that_stays_is_a_share(least: float) -> None:
    with (
        pytest.raises(ValueError, match="above 0 and at most 1"),
        patch_dropout(BUILDERS["vit"](), least, torch.Generator()),
    ):
        pass


def test_patch_dropout_wants_a_vit() -> None:
    with (
        pytest.raises(ValueError, match="cls_token"),
        patch_dropout(BUILDERS["bert"](), 0.5, torch.Generator()),
    ):
        pass
