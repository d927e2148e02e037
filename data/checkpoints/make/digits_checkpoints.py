"""How the vision checkpoints were trained: small convolutional nets on scikit-learn's
handwritten digits.
"""

from __future__ import annotations

import json
import time
from typing import Any

import torch
from torch import nn

from course_lib import files
from course_lib.capstone.files import to_bytes
from course_lib.capstone.measured import given_file
from course_lib.data import images
from course_lib.models.convnet import SmallConvNet
from course_lib.models.initial import weights_from
from course_lib.training import evaluate, fit

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
