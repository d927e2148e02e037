"""The translation checkpoints: they load, do what their record says, and a retraining
begins as theirs did.
"""

import pytest
import torch
import translation_checkpoints as recipe

from course_lib.data import translation
from course_lib.models import checkpoints

DATA = translation.load(200, 100, 50)


@pytest.mark.parametrize("seed", recipe.SEEDS)
def test_a_checkpoint_translates(seed):
    torch.set_num_threads(1)
    shipped, data = checkpoints.load(recipe.name(seed)), DATA["validation"]
    found, right = translation.translate(shipped.model, data), list(data["target"])
    recorded = shipped.record["measured"]["validation"]["bleu"]
    assert translation.bleu(found, right) == pytest.approx(recorded, abs=3)
    assert recipe.exact(found, right) > 80
    assert recipe.token_accuracy(shipped.model, translation.batches(data, 50)) > 97


@pytest.mark.long
def test_training_is_the_same_every_time_and_learns():
    torch.set_num_threads(1)
    (one, history), (other, _) = (
        recipe.train(0, DATA["train"], 12, progress=False) for _ in range(2)
    )
    assert all(map(torch.equal, one.parameters(), other.parameters()))
    assert history.done == 12
    fresh, batch = recipe.fresh(0), next(translation.batches(DATA["train"], 32))
    with torch.no_grad():
        assert one(**batch).loss < fresh(**batch).loss
    assert not torch.equal(recipe.fresh(1).model.shared.weight, fresh.model.shared.weight)
    assert len(one.model.encoder.layers) == 3 and len(one.model.decoder.layers) == 1
