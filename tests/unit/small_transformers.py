"""Small, randomly initialised models with inputs: those of
:mod:`unit.conformance.models`, and torchvision's. Nothing is downloaded.
"""

import copy
import functools
import logging

import pytest
import torch
from torch import nn

from course_lib.pruning.heads import explicit_attention
from unit.conformance import models
from unit.conformance.models import HEADS, SIZE, VOCABULARY, B, E, L, outputs

__all__ = ["HEADS", "SIZE", "VOCABULARY", "B", "E", "L", "outputs"]

logging.getLogger("transformers").setLevel(logging.ERROR)

# one of each kind: post-norm, fused and on their sides, both stacks with a bias, torch's own
TRANSFORMERS = ["bert", "gpt2 with cross-attention", "t5"]
FAMILIES = [*TRANSFORMERS, "torchvision vit"]
BOTH = pytest.mark.parametrize("attention", ["sdpa", "eager"])
TEXT_CLASSIFIERS = ["bert", "roberta", "electra", "distilbert"]
KINDS = {
    "t5": ["encoder"] * 3 + ["decoder", "cross"] * 3,
    "gpt2 with cross-attention": ["decoder", "cross"] * 3,
}


def full_model(family: str) -> nn.Module:
    """As its class builds it, in float64: to load weights into."""
    if family != "torchvision vit":
        return models.full_model(family)
    from torchvision.models.vision_transformer import VisionTransformer

    return VisionTransformer(8, 4, 3, HEADS, E, 48, num_classes=5).double()


@functools.cache
def _torchvision(seed: int) -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = full_model("torchvision vit")
        for name, parameter in model.named_parameters():
            nn.init.normal_(parameter, 1 if "norm" in name.lower() or ".ln_" in name else 0, 0.3)
    return model.eval()


def model_of(
    family: str, attention: str = "", dtype: torch.dtype = torch.float64, seed: int = 0
) -> nn.Module:
    """A model of this family in evaluation mode, its own copy."""
    if family != "torchvision vit":
        return models.small_model(family, attention, dtype, seed)
    return copy.deepcopy(_torchvision(seed)).to(dtype)


def gateable(family: str, attention: str = "", dtype: torch.dtype = torch.float64) -> nn.Module:
    """The same, with every attention of torch's own replaced by one whose heads can be
    gated.
    """
    return explicit_attention(model_of(family, attention, dtype))


def inputs_of(
    family: str, batch: int = B, dtype: torch.dtype = torch.float64, seed: int = 0
) -> dict[str, torch.Tensor]:
    """Keyword arguments for a model of this family; samples differ, also in how long
    they are.
    """
    if family != "torchvision vit":
        return models.inputs_of(family, batch, dtype, seed)
    g = torch.Generator().manual_seed(seed)
    return {"x": torch.randn(batch, 3, 8, 8, generator=g, dtype=dtype)}


def some_heads(layers: int, seed: int = 1) -> torch.Tensor:
    """Bool (layers, heads): the first layer loses all its heads, the last all but one,
    the others some.
    """
    keep = torch.rand(layers, HEADS, generator=torch.Generator().manual_seed(seed)) > 0.4
    keep[0] = False
    keep[-1] = torch.arange(HEADS) == 2
    return keep


def close(got: torch.Tensor, expected: torch.Tensor, atol: float = 1e-12) -> None:
    torch.testing.assert_close(got, expected, rtol=0, atol=atol)


def hooks_of(model: nn.Module) -> int:
    return sum(len(m._forward_pre_hooks) + len(m._forward_hooks) for m in model.modules())


def loss_of(family):
    """One loss a sample, against fixed labels."""
    return models.loss_of


def data_of(family, n=8):
    return inputs_of(family, batch=n) | {"labels": torch.arange(n) * 7}
