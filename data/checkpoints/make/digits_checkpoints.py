"""How the vision checkpoints were trained: small ViTs on scikit-learn's handwritten
digits.

"digits-vit-…" was trained plainly, "digits-vit-dropout-…" with random patches left out
of every batch. The two do about equally well on whole digits; on digits of which tokens
are dropped they do not.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn

from course_lib import files
from course_lib.capstone.files import to_bytes
from course_lib.capstone.measured import given_file
from course_lib.data import images
from course_lib.models import checkpoints
from course_lib.models.convnet import SmallConvNet
from course_lib.models.initial import weights_from
from course_lib.training import evaluate, fit

SEEDS = (0, 1, 2)
EPOCHS = 120
LEAST = 0.25  # the smallest share of patches that is left in a batch


class Logits(nn.Module):
    """A transformers model for images as the course's training wants it: images (B, C,
    H, W) in, logits out.
    """

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Tensor) -> Tensor:
        return self.model(pixel_values=x).logits


def small_vit(patch: int = 2, seed: int = 0) -> Any:
    """A fresh ViT of 4 layers of 4 heads for the digits: (8 / patch)² tokens and [CLS].

    Source: Dosovitskiy et al. 2021, "An Image is Worth 16x16 Words".
    """
    from transformers import ViTConfig, ViTForImageClassification

    config = ViTConfig(
        image_size=8,
        patch_size=patch,
        num_channels=1,
        num_hidden_layers=4,
        hidden_size=64,
        num_attention_heads=4,
        intermediate_size=128,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        initializer_range=0.05,
    )
    config.num_labels = 10
    with weights_from(seed):
        return ViTForImageClassification(config).eval()


@contextmanager
def patch_dropout(model: Any, least: float, generator: torch.Generator) -> Iterator[None]:
    """Within the block a ViT in training mode sees a random part of each image's patches;
    [CLS] always stays.

    For each batch the share of patches that stay is drawn evenly between ``least`` and 1, and
    which ones for each image. The others are not masked but left out, after their positions
    were added; so the model learns to answer from any part of the image, and later does not
    mind that tokens are dropped.

    Source: Liu et al. 2023, "PatchDropout: Economizing Vision Transformers Using Patch
    Dropout", section 3.
    """

    def drop(module: nn.Module, _: Any, tokens: Tensor) -> Tensor:  # tokens: (B, 1 + N, E)
        if not module.training:
            return tokens
        batch, n = tokens.shape[0], tokens.shape[1] - 1
        share = least + (1 - least) * torch.rand((), generator=generator).item()
        order = torch.rand(batch, n, generator=generator).argsort(dim=1)
        kept = order[:, : max(1, round(share * n))].sort(dim=1).values
        index = torch.cat([torch.zeros(batch, 1, dtype=torch.int64), kept + 1], dim=1)  # (B, 1 + K)
        return tokens.gather(1, index[:, :, None].expand(-1, -1, tokens.shape[2]))  # (B, 1 + K, E)

    hook = model.vit.embeddings.register_forward_hook(drop)
    try:
        yield
    finally:
        hook.remove()


def name(seed: int, dropout: bool, patch: int = 2) -> str:
    return f"digits-vit-{'dropout-' if dropout else ''}p{patch}-{seed}"


def train(
    seed: int, dropout: bool, patch: int = 2, epochs: int = EPOCHS, progress: bool = True
) -> Any:
    """A trained ViT in evaluation mode; ``dropout``: with random patches left out
    (``patch_dropout``).
    """
    data = images.load("digits")
    model = small_vit(patch=patch, seed=seed)
    left_out = (
        patch_dropout(model, LEAST, torch.Generator().manual_seed(seed))
        if dropout
        else nullcontext()
    )
    with left_out:
        fit(
            Logits(model),
            data.train,
            epochs=epochs,
            lr=1e-3,
            optimizer="adamw",
            weight_decay=0.05,
            batch_size=64,
            seed=seed,
            schedule="cosine",
            progress=progress,
        )
    return model.eval()


def remake(seed: int, dropout: bool, patch: int = 2, progress: bool = True) -> dict[str, Any]:
    """Train a checkpoint, measure it, save it in the course's ``data/``; returns its
    record.
    """
    started = time.process_time()
    model = train(seed, dropout, patch, progress=progress)
    seconds = time.process_time() - started
    data = images.load("digits")
    about = {
        "task": "scikit-learn's handwritten digits (course_lib.data.images)",
        "seed": seed,
        "accuracy": {
            part: round(evaluate(Logits(model), getattr(data, part)), 3)
            for part in ("validation", "test")
        },
        "patch_dropout": LEAST if dropout else None,
        "cpu_seconds": round(seconds),
        "command": (
            f"python data/checkpoints/make digits --seed {seed} --patch"
            f" {patch}{'' if dropout else ' --plain'}"
        ),
    }
    checkpoints.save(name(seed, dropout, patch), model, None, about)
    return about


CONVNET_EPOCHS = 24


def train_convnet(seed: int, epochs: int = CONVNET_EPOCHS, progress: bool = True) -> nn.Module:
    """The small convolutional net on digits that are turned, shifted and scaled a
    little, others in every epoch; in evaluation mode.
    """
    data, generator = images.load("digits"), torch.Generator().manual_seed(seed)
    with weights_from(seed):
        model = SmallConvNet()
    fit(
        model,
        images.distorted(data.train, generator, epochs),  # an epoch's worth of copies for each
        epochs=1,
        lr=2e-3,
        batch_size=64,
        seed=seed,
        schedule="cosine",
        progress=progress,
    )
    return model.eval()


def remake_convnet(seed: int, progress: bool = True) -> dict[str, Any]:
    """Train the capstone's convolutional net, measure it, save it in the course's
    ``data/``; returns its record. Half a minute.
    """
    started = time.process_time()
    model = train_convnet(seed, progress=progress)
    data = images.load("digits")
    distorted = images.distorted(data.test, torch.Generator().manual_seed(1000 + seed), 5)
    about = {
        "task": "scikit-learn's handwritten digits, distorted (course_lib.data.images.distorted)",
        "seed": seed,
        "accuracy": {
            "validation": round(evaluate(model, data.validation), 3),
            "test": round(evaluate(model, data.test), 3),
            "test, distorted": round(evaluate(model, distorted), 3),
        },
        "cpu_seconds": round(time.process_time() - started),
        "command": f"python data/checkpoints/make convnet --seed {seed}",
    }
    file = given_file(seed)
    file.parent.mkdir(parents=True, exist_ok=True)
    files.write_atomic(file, to_bytes(model))
    (file.parent / "about.json").write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")
    return about
