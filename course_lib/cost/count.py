"""What a whole model costs: run it once on an example, and count every product it
computes on the way.

Source: the lecture on pruning, "Computational Cost"; for what counts as a MAC, Sze,
Chen, Yang and Emer 2020, "Efficient Processing of Deep Neural Networks", section 2.2.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from course_lib.cost.taps import (
    conv_taps,
    hits,
    left_padding,
    nonzeros,
    sum_at_taps,
    sum_of_products,
    transposed_taps,
)
from course_lib.modes import evaluating
from course_lib.wrapped import hold_hooks, refuse_wrapped

Masks = dict[str, Tensor]


@dataclass(frozen=True)
class LayerCost:
    """What one call of one layer costs, on the inputs it was given.

    Numbers are counts of MACs, weights or activations; the ``*_bits`` are bits. Biases
    and the scales of normalisation layers are not counted, as in the lecture's
    formulas.
    """

    # the module's name in the model; parts of attention have one more: ".q_proj",
    # ".scores", ...
    name: str
    # "conv2d", "conv_transpose2d", "linear", "attention", "matmul", "embedding", ...:
    # the operation
    kind: str
    macs: int  # dense; products with padding included
    # with a weight that is not zero; if inputs were looked at, with both factors not
    # zero
    nonzero_macs: int
    weights: int
    nonzero_weights: int
    inputs: int  # activations read
    outputs: int  # activations written
    bits: int = 32  # of a weight and of an activation
    # its weights stand in an earlier row: a module called twice, or tied weights
    repeated: bool = False
    # False: has parameters, or a product, of which the MACs are not known (then macs is 0)
    counted: bool = True

    @property
    def weight_bits(self) -> int:
        return self.bits * self.weights

    @property
    def input_bits(self) -> int:
        return self.bits * self.inputs

    @property
    def output_bits(self) -> int:
        return self.bits * self.outputs


def model_cost(
    model: nn.Module,
    inputs: Tensor | Sequence[Any] | Mapping[str, Any],
    masks: Masks | None = None,
    bits: int = 32,
    *,
    inputs_too: bool = False,
) -> list[LayerCost]:
    """Run ``model`` once on ``inputs`` and count every product with a weight, and every
    product of two activations.

    Counted are convolutions and transposed convolutions (1-3 dimensions, any stride,
    padding, dilation, groups), linear layers on any leading dimensions,
    ``nn.MultiheadAttention`` (which calls its output projection by function, so a hook
    there would never fire), ``scaled_dot_product_attention``, matrix products and
    ``einsum`` of two tensors, whether in the modules of torch.nn or written with
    functions. A parameter of two or more dimensions that none of these used (an LSTM's,
    a positional embedding, a layer that was never called) has a row with
    ``counted=False``; so has every leaf with parameters that are used in another way,
    except normalisation layers and PReLU, whose products are elementwise.

    Args:
        model: any module. It runs in eval mode without gradients. Modes, hooks and
            parameters are afterwards as they were before, also after an exception.
        inputs: the one argument of ``model``, a sequence of its positional arguments,
            or a mapping of its keyword arguments.
        masks: bool masks by parameter name, True = kept; the model runs as if they were
            applied. Weights that are zero count as zero with or without a mask.
        bits: width of a weight and of an activation.
        inputs_too: count a product as non-zero only if its activation is non-zero as
            well, exactly, and products with padding not at all. Needs one more pass
            over every input.

    Returns:
        One ``LayerCost`` per call, in the order of the calls; rows with
        ``counted=False`` that no call made come last.

    Raises:
        ValueError: if a mask has an unknown name, another shape than its parameter, or
            is not bool.
    """
    refuse_wrapped(model, "compile", "prune")
    parameters = dict(model.named_parameters(remove_duplicate=False))
    masked = _apply_masks(parameters, masks or {})
    # one name where weights are tied
    name_of = {id(parameter): name for name, parameter in parameters.items()}
    known = {
        id(masked.get(name, parameter)): name_of[id(parameter)]
        for name, parameter in parameters.items()
    }
    args, kwargs = _as_arguments(inputs)
    recorder = _Recorder(known, bits, inputs_too)
    with evaluating(model), torch.no_grad(), recorder.watching(model), recorder:
        torch.func.functional_call(model, masked, args, kwargs)
    return recorder.rows + _uncounted(model, masked, recorder, name_of, bits)


def totals(costs: Sequence[LayerCost]) -> dict[str, Any]:
    """Sum a ``model_cost``: ``macs``, ``nonzero_macs``, ``weights``,
    ``nonzero_weights``, ``weight_bits`` and ``nonzero_weight_bits`` (weights that are
    used twice are stored once), ``peak_activation_bits``, and ``uncounted``, the names
    of the rows of which the MACs are not known.
    """
    stored = [cost for cost in costs if not cost.repeated]
    return {
        "macs": sum(cost.macs for cost in costs),
        "nonzero_macs": sum(cost.nonzero_macs for cost in costs),
        "weights": sum(cost.weights for cost in stored),
        "nonzero_weights": sum(cost.nonzero_weights for cost in stored),
        "weight_bits": sum(cost.weight_bits for cost in stored),
        "nonzero_weight_bits": sum(cost.bits * cost.nonzero_weights for cost in stored),
        "peak_activation_bits": peak_activation_bits(costs),
        "uncounted": [cost.name for cost in costs if not cost.counted],
    }


def peak_activation_bits(costs: Sequence[LayerCost]) -> int:
    """Bits of input and output of the layer where they are most: what must be held at
    once when one layer runs at a time.

    A maximum, not a sum, since activations are dropped when the next layer has read
    them. What a skip connection keeps for later comes on top.
    """
    return max((cost.input_bits + cost.output_bits for cost in costs), default=0)


# ---------------------------------------------------------- counting while a model runs
# The functions that multiply, by the method of _Recorder that counts them.
_COUNTED: dict[Callable, str] = {
    F.linear: "linear",
    **dict.fromkeys((F.conv1d, F.conv2d, F.conv3d), "conv"),
    **dict.fromkeys((F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d), "conv_transpose"),
    **dict.fromkeys((torch.matmul, torch.mm, torch.bmm, torch.mv, torch.dot), "matmul"),
    **dict.fromkeys(
        (Tensor.matmul, Tensor.__matmul__, Tensor.mm, Tensor.bmm, Tensor.mv, Tensor.dot), "matmul"
    ),
    Tensor.__rmatmul__: "rmatmul",
    **dict.fromkeys((torch.addmm, torch.baddbmm, torch.addbmm, torch.addmv), "add_matmul"),
    **dict.fromkeys((Tensor.addmm, Tensor.baddbmm, Tensor.addbmm, Tensor.addmv), "add_matmul"),
    torch.einsum: "einsum",
    F.scaled_dot_product_attention: "attention",
    F.multi_head_attention_forward: "multi_head_attention",
    F.embedding: "embedding",
    F.embedding_bag: "embedding",
}


class _Recorder(TorchFunctionMode):
    """Sees every torch function that the model calls, and makes a row for each that
    multiplies.

    A forward hook on each layer would miss what a module does by functions (attention
    above all), and would have to know every class. So the functions are counted, and
    hooks only tell in which module the call happens.
    """

    def __init__(self, known: dict[int, str], bits: int, inputs_too: bool) -> None:
        super().__init__()
        self.known = known  # id of a parameter's tensor -> its name
        self.bits = bits
        self.inputs_too = inputs_too
        self.rows: list[LayerCost] = []
        self.used: set[str] = set()  # parameters that have a row
        self.parts: set[tuple[str, int]] = set()  # parameters, and where in them, that have a row
        # modules that compute their weight (parametrised, torch.nn.utils.prune)
        self.own_weights: set[str] = set()
        self.stack: list[str] = []  # modules that are running, the innermost last
        self.called: set[str] = set()

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        # The mode is off inside func, so nothing is counted twice. (It also keeps torch
        # from running an encoder layer as one fused function: as long as any mode is
        # on, torch calls the layer's parts.)
        result = func(*args, **kwargs)
        method = _COUNTED.get(func)
        if method is not None:
            getattr(self, method)(func, result, *args, **kwargs)
        return result

    @contextmanager
    def watching(self, model: nn.Module) -> Iterator[None]:
        """Keep ``stack`` up to date by hooks on all modules, and take them off again
        whatever happens.
        """
        with hold_hooks() as hooks:
            for name, module in model.named_modules():
                name = name or type(model).__name__

                def enter(module, args, name=name):
                    self.stack.append(name)
                    self.called.add(name)

                def leave(module, args, output):
                    self.stack.pop()

                hooks.callback(module.register_forward_pre_hook(enter, prepend=True).remove)
                hooks.callback(module.register_forward_hook(leave, always_call=True).remove)
            yield

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Rows made inside belong to a named part of the running module."""
        self.stack.append(f"{self.here}.{name}")
        try:
            yield
        finally:
            self.stack.pop()

    @property
    def here(self) -> str:
        return self.stack[-1] if self.stack else ""

    # ---- what a row is made of
    def add(
        self,
        kind: str,
        macs: int,
        nonzero: int,
        inputs: int,
        outputs: int,
        weight: Tensor | None,
        counted: bool = True,
    ) -> None:
        repeated = weight is not None and self.seen_before(weight)
        self.rows.append(
            LayerCost(
                name=self.here,
                kind=kind,
                macs=macs,
                nonzero_macs=nonzero,
                weights=0 if weight is None else weight.numel(),
                nonzero_weights=0 if weight is None else nonzeros(weight),
                inputs=inputs,
                outputs=outputs,
                bits=self.bits,
                repeated=repeated,
                counted=counted,
            )
        )

    def seen_before(self, weight: Tensor) -> bool:
        """Whether an earlier row has these weights; from now on one has."""
        parameter = self.parameter_of(weight)
        if parameter is None:
            self.own_weights.add(self.here)
        else:
            self.used.add(parameter)
        # query, key and value share one parameter
        part = (parameter or self.here, int(weight.storage_offset()))
        seen = part in self.parts
        self.parts.add(part)
        return seen

    def parameter_of(self, tensor: Tensor) -> str | None:
        """Name of the parameter that ``tensor`` is, or is a view of (transposed, one of
        three chunks).
        """
        return self.known.get(id(tensor if tensor._base is None else tensor._base))

    def counts_along(self, tensor: Tensor, *axes: int, is_weight: bool = False) -> Tensor:
        """Non-zeros summed over ``axes``; an activation counts as dense unless
        ``inputs_too``.
        """
        return hits(
            tensor if is_weight or self.inputs_too else torch.ones_like(tensor, dtype=torch.bool),
            *axes,
        )

    # ---- one method for each kind of function
    def linear(self, func, result, input, weight, bias=None):
        d_in = weight.shape[-1]
        uses = input.numel() // max(d_in, 1)  # of each weight: once for every vector
        nonzero = uses * nonzeros(weight)
        if self.inputs_too:
            nonzero = sum_of_products(
                hits(weight.reshape(-1, d_in), 0), hits(input.reshape(-1, d_in), 0)
            )
        self.add("linear", uses * weight.numel(), nonzero, input.numel(), result.numel(), weight)

    def conv(
        self, func, result, input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1
    ):
        axes, kernel = weight.ndim - 2, weight.shape[2:]
        uses = result.numel() // weight.shape[0]  # of each weight: once for every output position
        nonzero = uses * nonzeros(weight)
        if self.inputs_too:
            # an image without a batch is a batch of one
            x = input.reshape(-1, *input.shape[-axes - 1 :])
            left = left_padding(padding, kernel, dilation)
            taps = conv_taps(x.shape[2:], kernel, result.shape[-axes:], stride, left, dilation)
            by_group = weight.reshape(groups, -1, *weight.shape[1:])  # (g, M/g, C/g, *kernel)
            nonzero = sum_of_products(
                hits(by_group, 1).flatten(0, 1), sum_at_taps(hits(x, 0), taps)
            )
        self.add(
            f"conv{axes}d", uses * weight.numel(), nonzero, input.numel(), result.numel(), weight
        )

    def conv_transpose(
        self,
        func,
        result,
        input,
        weight,
        bias=None,
        stride=1,
        padding=0,
        output_padding=0,
        groups=1,
        dilation=1,
    ):
        axes, kernel = weight.ndim - 2, weight.shape[2:]  # weight (C, M/g, *kernel)
        uses = input.numel() // weight.shape[0]  # of each weight: once for every input position
        nonzero = uses * nonzeros(weight)
        if self.inputs_too:
            x = input.reshape(-1, *input.shape[-axes - 1 :])
            taps = transposed_taps(
                x.shape[2:], kernel, result.shape[-axes:], stride, padding, dilation
            )
            nonzero = sum_of_products(hits(weight, 1), sum_at_taps(hits(x, 0), taps))
        self.add(
            f"conv_transpose{axes}d",
            uses * weight.numel(),
            nonzero,
            input.numel(),
            result.numel(),
            weight,
        )

    def matmul(self, func, result, *args, **kwargs):
        a, b = [value for value in (*args, *kwargs.values()) if isinstance(value, Tensor)][:2]
        self.product("matmul", a, b)

    def rmatmul(self, func, result, b, a):
        self.product("matmul", a, b)

    def add_matmul(self, func, result, *args, **kwargs):
        _, a, b = [value for value in (*args, *kwargs.values()) if isinstance(value, Tensor)][:3]
        self.product("matmul", a, b)

    def product(self, kind: str, a: Tensor, b: Tensor) -> None:
        """A row for a (..., n, k) times b (..., k, m)."""
        a, b = (a[None] if a.ndim == 1 else a), (b[:, None] if b.ndim == 1 else b)
        batch = math.prod(torch.broadcast_shapes(a.shape[:-2], b.shape[:-2]))
        a_weight, b_weight = (self.parameter_of(tensor) is not None for tensor in (a, b))
        left = self.counts_along(a, -2, is_weight=a_weight)  # (..., k)
        right = self.counts_along(b, -1, is_weight=b_weight)  # (..., k)
        self.add(
            kind,
            macs=batch * a.shape[-2] * a.shape[-1] * b.shape[-1],
            nonzero=sum_of_products(*torch.broadcast_tensors(left, right)),
            inputs=(0 if a_weight else a.numel()) + (0 if b_weight else b.numel()),
            outputs=batch * a.shape[-2] * b.shape[-1],
            weight=a if a_weight else b if b_weight else None,
        )

    def einsum(self, func, result, equation, *operands):
        if len(operands) == 1 and not isinstance(operands[0], Tensor):
            operands = tuple(operands[0])  # they may come as one list
        if len(operands) == 1:
            return  # a transposition or a sum: nothing is multiplied
        if len(operands) != 2 or not isinstance(equation, str) or "..." in equation:
            self.add("einsum", 0, 0, 0, result.numel(), None, counted=False)
            return
        a, b = operands
        terms = equation.replace(" ", "").split("->")[0]  # "bij,bjk"
        sizes: dict[str, int] = {}
        for label, size in zip(terms.replace(",", ""), (*a.shape, *b.shape), strict=True):
            sizes[label] = max(size, sizes.get(label, 1))  # an axis of length 1 is repeated
        a_weight, b_weight = (self.parameter_of(tensor) is not None for tensor in (a, b))
        left, right = (
            self.counts_along(a, is_weight=a_weight),
            self.counts_along(b, is_weight=b_weight),
        )
        self.add(
            "einsum",
            macs=math.prod(sizes.values()),
            nonzero=int(torch.einsum(f"{terms}->", left, right)),
            inputs=(0 if a_weight else a.numel()) + (0 if b_weight else b.numel()),
            outputs=result.numel(),
            weight=a if a_weight else b if b_weight else None,
        )

    def attention(
        self, func, result, query, key, value,
        attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False,
    ):  # fmt: skip
        if enable_gqa:  # several query heads share a key head: each of them multiplies with it
            key, value = (
                t.repeat_interleave(query.shape[-3] // t.shape[-3], dim=-3) for t in (key, value)
            )
        # (..., L, S), dense unless looked at
        weights = query.new_ones(()).expand(*result.shape[:-1], key.shape[-2])
        if self.inputs_too:
            # An identity for the values makes attention return its weights, masked as
            # they are.
            identity = torch.eye(key.shape[-2], dtype=query.dtype, device=query.device).expand(
                *key.shape[:-1], -1
            )
            weights = func(query, key, identity, attn_mask, 0.0, is_causal, scale=scale)
        self.attention_products(query, key, weights, value)

    def attention_products(
        self, query: Tensor, key: Tensor, weights: Tensor, value: Tensor
    ) -> None:
        with self.part("scores"):
            self.product("attention", query, key.mT)
        with self.part("context"):
            self.product("attention", weights, value)

    def multi_head_attention(self, func, result, *args, **kwargs):
        """Write out what the one function does, so that each projection and product
        gets a row of its own.
        """
        arguments = dict(zip(_MHA_ARGUMENTS, args, strict=False)) | kwargs
        # (L, B, E), or (L, E)
        query, key, value = (arguments[name] for name in ("query", "key", "value"))
        heads = arguments["num_heads"]
        # For the weights (heads, L, S) the function itself is asked: it knows its masks
        # and extra keys best.
        asked = arguments | {"need_weights": True, "average_attn_weights": False}
        weights = func(**asked)[1]
        if arguments.get("use_separate_proj_weight"):
            projections = [arguments[f"{name}_proj_weight"] for name in "qkv"]
        else:
            projections = arguments["in_proj_weight"].chunk(3)
        in_bias = arguments["in_proj_bias"]
        biases = [None] * 3 if in_bias is None else in_bias.chunk(3)
        parts = []
        for name, x, weight, bias in zip(
            "qkv", (query, key, value), projections, biases, strict=True
        ):
            x = x.unsqueeze(1) if x.ndim == 2 else x  # (L, 1, E) where there is no batch
            with self.part(f"{name}_proj"), self:
                part = F.linear(x, weight, bias)  # (L, B, E)
            extra = arguments.get(f"bias_{name}")
            if extra is not None:
                part = torch.cat([part, extra.expand(1, part.shape[1], -1)])
            if arguments["add_zero_attn"] and name != "q":
                part = torch.cat([part, torch.zeros_like(part[:1])])
            # (B, heads, L, E/heads)
            parts.append(part.unflatten(2, (heads, -1)).permute(1, 2, 0, 3))
        q, k, v = parts
        weights = weights.reshape(*q.shape[:3], k.shape[2])  # (B, heads, L, S)
        self.attention_products(q, k, weights, v)
        context = (weights @ v).permute(2, 0, 1, 3).flatten(2)  # (L, B, E)
        with self.part("out_proj"), self:
            F.linear(context, arguments["out_proj_weight"], arguments["out_proj_bias"])

    def embedding(self, func, result, input, weight, *args, **kwargs):
        self.add("embedding", 0, 0, 0, result.numel(), weight)  # a look-up multiplies nothing


_MHA_ARGUMENTS = tuple(inspect.signature(F.multi_head_attention_forward).parameters)

# Their parameters scale or shift activations one by one: no sum of products, and at
# inference folded into a neighbour.
_ELEMENTWISE = (nn.modules.batchnorm._NormBase, nn.LayerNorm, nn.GroupNorm, nn.RMSNorm, nn.PReLU)


def _uncounted(
    model: nn.Module, masked: Masks, recorder: _Recorder, name_of: dict[int, str], bits: int
) -> list[LayerCost]:
    """A row for every module with parameters that no counted function used: better
    listed than silently left out.
    """
    rows = []
    for path, module in model.named_modules():
        shown = path or type(model).__name__
        if (
            isinstance(module, _ELEMENTWISE)
            or "parametrizations" in path.split(".")
            or shown in recorder.own_weights
        ):
            continue  # a computed weight was seen where it was used
        own = dict(module.named_parameters(recurse=False))
        unused = {name: p for name, p in own.items() if name_of[id(p)] not in recorder.used}
        # some are pruned to nothing
        matrices = {name: p for name, p in unused.items() if p.ndim >= 2 and p.numel()}
        is_leaf = not any(True for _ in module.children())
        used_otherwise = (
            bool(own) and len(unused) == len(own) and is_leaf and shown in recorder.called
        )
        if not (matrices or used_otherwise):
            continue
        tensors = [
            masked.get(f"{path}.{name}" if path else name, p) for name, p in matrices.items()
        ]
        rows.append(
            LayerCost(
                name=shown,
                kind=type(module).__name__,
                macs=0,
                nonzero_macs=0,
                weights=sum(tensor.numel() for tensor in tensors),
                nonzero_weights=sum(nonzeros(tensor) for tensor in tensors),
                inputs=0,
                outputs=0,
                bits=bits,
                counted=False,
            )
        )
    return rows


def _apply_masks(parameters: Mapping[str, Tensor], masks: Masks) -> Masks:
    """The masked parameters, by name; the model's own are not touched."""
    masked: dict[int, Tensor] = {}  # by parameter, so that tied weights stay tied
    for name, mask in masks.items():
        if name not in parameters:
            raise ValueError(f"the model has no parameter {name!r} for this mask")
        parameter = parameters[name]
        if mask.dtype != torch.bool:
            raise ValueError(f"the mask of {name!r} must be bool, True = kept; got {mask.dtype}")
        if mask.shape != parameter.shape:
            raise ValueError(
                f"the mask of {name!r} is {tuple(mask.shape)}, its parameter"
                f" {tuple(parameter.shape)}"
            )
        # Filled rather than multiplied: NaN times zero is NaN.
        masked[id(parameter)] = masked.get(id(parameter), parameter.detach()).masked_fill(~mask, 0)
    return {name: masked[id(parameters[name])] for name in masks}


def _as_arguments(
    inputs: Tensor | Sequence[Any] | Mapping[str, Any],
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    if isinstance(inputs, Mapping):
        return (), dict(inputs)
    if isinstance(inputs, (tuple, list)):
        return tuple(inputs), {}
    return (inputs,), {}
