"""The column loop beside the published algorithms in plain torch, and llmcompressor where it is
installed; the walk over layers beside a whole forward pass for every layer.
"""

from __future__ import annotations

import copy
import importlib.util
from collections.abc import Callable
from typing import Any

import torch
from run import Row
from torch import Tensor, nn

from course_lib.pruning.weights import (
    encoder_weights,
    per_output_masks,
    prune_and_round,
    walk_layers_,
)


def published(weight: Tensor, gram: Tensor, sparsity: float, bits: int, group: int) -> Tensor:
    """SparseGPT's box in its paper: masks of 128 columns (2:4 where ``sparsity`` is 0), the columns
    right of each one updated at once, those of later blocks once a block. GPTQ with ``bits``.
    """
    w, h = weight.clone(), gram.clone()
    h.diagonal().add_(0.01 * h.diagonal().mean())
    u = torch.linalg.cholesky(torch.cholesky_inverse(torch.linalg.cholesky(h)), upper=True)
    low = step = w[:, 0]
    for a in range(0, w.shape[1], 128):
        block, inner = w[:, a : a + 128].clone(), u[a : a + 128, a : a + 128]
        d, errors, goes = inner.diagonal(), torch.zeros_like(block), torch.zeros_like(block).bool()
        if sparsity:
            score = (block / d).square().flatten()
            goes.view(-1)[score.argsort()[: round(sparsity * score.numel())]] = True
        for i in range(block.shape[1]):
            if not bits and not sparsity and i % 4 == 0:
                score = (block[:, i : i + 4] / d[i : i + 4]).square()
                goes[:, i : i + 4].scatter_(1, score.topk(2, largest=False).indices, True)
            if bits and i % group == 0:
                low = block[:, i : i + group].amin(1).clamp(max=0)
                step = (block[:, i : i + group].amax(1).clamp(min=0) - low) / (2**bits - 1)
            column = block[:, i].clone()
            value = column
            if bits:
                value = ((column - low) / step).round().clamp(0, 2**bits - 1) * step + low
            value = value.masked_fill(goes[:, i], 0)
            errors[:, i] = (column - value) / d[i]
            block[:, i:] -= errors[:, i, None] * inner[i, i:]
            block[:, i] = value
        w[:, a : a + 128] = block
        w[:, a + 128 :] -= errors @ u[a : a + 128, a + 128 :]
    return w


def llmcompressor(weight: Tensor, gram: Tensor) -> Tensor:
    """2:4, as its ``SparseGPTModifier`` calls it (for a fraction it prunes one weight more in every
    block).
    """
    from llmcompressor.modifiers.pruning.sparsegpt.sgpt_sparsify import sparsify_weight

    layer = nn.Linear(weight.shape[1], weight.shape[0], bias=False).requires_grad_(False)
    layer.weight.copy_(weight)
    result: Tensor = sparsify_weight(layer, {layer: gram.clone()}, 0.5, 2, 4, 128, 0.01, False)[1]
    return result


def loop(name: str) -> Row:
    weight = torch.randn(576, 1536)
    x = torch.randn(2048, 1536) @ torch.randn(1536, 1536) / 40  # correlated
    gram = x.T @ x
    sparsity, bits = 0.5 if "50 %" in name else 0.0, 4 if "int4" in name else 0
    given: dict[str, Any] = {"sparsity": sparsity, "bits": bits or None}
    if "2:4" in name:
        given["pattern"] = (2, 4)

    def same(ours: Tensor, theirs: Tensor) -> None:
        """In single precision a near tie may fall the other way."""
        assert ((ours == 0) != (theirs == 0)).float().mean() < 2e-3
        errors = [float((x @ (w - weight).T).norm()) for w in (ours, theirs)]
        assert abs(errors[0] / errors[1] - 1) < 2e-3, errors

    def ours() -> Tensor:
        return prune_and_round(weight, gram, **given)

    peers = {"paper in plain torch": lambda: published(weight, gram, sparsity, bits, 64)}
    if "2:4" in name and importlib.util.find_spec("llmcompressor"):
        peers["llmcompressor"] = lambda: llmcompressor(weight, gram)
    return Row(name, ours, peers, same, rounds=5)


def walk(name: str) -> Row:
    """Wanda at 50 %."""
    from transformers import LlamaConfig, LlamaForCausalLM

    sizes = {"hidden_size": 256, "intermediate_size": 640, "num_hidden_layers": 8}
    config = LlamaConfig(vocab_size=1000, num_attention_heads=8, initializer_range=0.1, **sizes)
    dense, ids = LlamaForCausalLM(config).eval(), torch.randint(1000, (4, 4, 128))

    def wanda(name: str, weight: Tensor, squares: Tensor) -> Tensor:
        return weight * per_output_masks({name: weight.abs() * squares.sqrt()}, 0.5)[name]

    def ours(model: nn.Module) -> nn.Module:
        walk_layers_(model, ids, wanda, squares=True)
        return model

    @torch.no_grad()
    def theirs(model: nn.Module) -> nn.Module:
        for layer in range(config.num_hidden_layers):
            squares: dict[str, Any] = {}

            def note(name: str) -> Callable[..., None]:
                def add(_: nn.Module, inputs: tuple[Tensor, ...]) -> None:
                    found = inputs[0].flatten(0, 1).square().sum(0)  # noqa: B023
                    squares[name] = squares.get(name, 0) + found  # noqa: B023

                return add

            names = [n for n in encoder_weights(model) if f".layers.{layer}." in n]
            linear = [model.get_submodule(n.removesuffix(".weight")) for n in names]
            hooks = [
                m.register_forward_pre_hook(note(n)) for n, m in zip(names, linear, strict=True)
            ]
            for batch in ids:
                model(batch, use_cache=False)
            for hook in hooks:
                hook.remove()
            for n, m in zip(names, linear, strict=True):
                weight = m.get_parameter("weight")
                weight.copy_(wanda(n, weight.clone(), squares[n]))
        return model

    def same(one: nn.Module, other: nn.Module) -> None:
        pairs = zip(encoder_weights(one).values(), encoder_weights(other).values(), strict=True)
        for mine, peer in pairs:
            assert ((mine == 0) != (peer == 0)).float().mean() < 1e-4

    peers = {"whole pass for each layer": theirs}
    return Row(name, ours, peers, same, lambda: (copy.deepcopy(dense),), rounds=3)


ROWS = {
    "SparseGPT 50 %, 576 x 1,536": loop,
    "SparseGPT 2:4, 576 x 1,536": loop,
    "GPTQ int4, 576 x 1,536": loop,
    "SparseGPT 50 % of int4, 576 x 1,536": loop,
    "Wanda layer by layer, Llama of 8 layers": walk,
}
