"""A small vision transformer from transformers' own classes, and training with patches
missing.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from course_lib.models.initial import weights_from
from course_lib.wrapped import hold_hooks


def small_vit(
    image: int = 8,
    patch: int = 2,
    classes: int = 10,
    *,
    channels: int = 1,
    layers: int = 4,
    width: int = 64,
    heads: int = 4,
    ffn: int = 128,
    seed: int = 0,
) -> Any:
    """A fresh ``ViTForImageClassification``, initialised from ``seed``; the global
    random state stays as it was.

    Args:
        image, patch: sides of the square image and of its square patches:
            (image / patch)² tokens and [CLS]; an 8x8 digit has 16 patches of 2x2, or 64
            of one pixel.
        classes, channels: as in the data.
        layers, width, heads, ffn: L, E, H and the hidden width of the feed-forward
            layers.

    Raises:
        ValueError: if the patches do not fill the image, or ``width`` is no multiple of
            ``heads``.

    Source: Dosovitskiy et al. 2021, "An Image is Worth 16x16 Words".
    """
    from transformers import ViTConfig, ViTForImageClassification

    if patch < 1 or image % patch:
        raise ValueError(f"patches must fill the image: {image} is no multiple of {patch}")
    if width % heads:
        raise ValueError(f"width must be a multiple of heads, got width={width}, heads={heads}")
    config = ViTConfig(
        image_size=image,
        patch_size=patch,
        num_channels=channels,
        num_hidden_layers=layers,
        hidden_size=width,
        num_attention_heads=heads,
        intermediate_size=ffn,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        initializer_range=0.05,
    )
    config.num_labels = classes
    with weights_from(seed):
        return ViTForImageClassification(config).eval()


@contextmanager
def patch_dropout(model: nn.Module, least: float, generator: torch.Generator) -> Iterator[None]:
    """Within the block a ViT in training mode sees a random part of each image's
    patches; [CLS] always stays.

    For each batch the share of patches that stay is drawn evenly between ``least`` and
    1, and which ones for each image. The others are not masked but left out, after
    their positions were added; so the model learns to answer from any part of the
    image, and later does not mind that tokens are dropped. In evaluation mode nothing
    changes.

    Args:
        model: a ViT-type model of transformers (with ``embeddings`` that return (B,
            1 + patches, E)).
        least: in (0, 1].
        generator: draws shares and patches; on the CPU.

    Raises:
        ValueError: if ``least`` is outside (0, 1], or the model has no such embeddings.

    Source: Liu et al. 2023, "PatchDropout: Economizing Vision Transformers Using Patch
    Dropout", section 3.
    """
    if not 0 < least <= 1:
        raise ValueError(
            f"least is the smallest share of patches that stay, above 0 and at most 1, got {least}"
        )
    found = [
        module
        for name, module in model.named_modules()
        if name.split(".")[-1] == "embeddings" and hasattr(module, "cls_token")
    ]
    if len(found) != 1:
        raise ValueError(
            "expected one module `embeddings` with a cls_token, as in transformers' ViT, found"
            f" {len(found)}"
        )

    def drop(module: nn.Module, _: Any, tokens: Tensor) -> Tensor:  # tokens: (B, 1 + N, E)
        if not module.training:
            return tokens
        batch, n = tokens.shape[0], tokens.shape[1] - 1
        share = least + (1 - least) * torch.rand((), generator=generator).item()
        kept = (
            torch.rand(batch, n, generator=generator)
            .argsort(dim=1)[:, : max(1, round(share * n))]
            .sort(dim=1)
            .values
        )
        # (B, 1 + K)
        index = torch.cat([torch.zeros(batch, 1, dtype=torch.int64), kept + 1], dim=1).to(
            tokens.device
        )
        return tokens.gather(1, index[:, :, None].expand(-1, -1, tokens.shape[2]))  # (B, 1 + K, E)

    with hold_hooks() as hooks:
        hooks.callback(found[0].register_forward_hook(drop).remove)
        yield
