"""What the loss says about a weight: how much would it change if this weight, alone, became zero?

Taylor's series at w, followed to w' = 0, so by a step of −w: the change is −g·w + ½·h·w² + … with
the loss's gradient g and its second derivative h there. Optimal Brain Damage takes the second term,
since at a minimum g = 0; "Taylor" scores take the size of the first.

::

    from course_lib.pruning import weights

    h = weights.curvature(model, images)  # or empirical_fisher(model, images, labels)
    w = {name: p.detach() for name, p in weights.prunable(model).items()}
    scores = {name: weights.loss_change(w[name], 0 * w[name], h[name]) for name in w}
    masks = weights.global_masks(scores, 0.8)

Each number holds with all other weights in place. To remove many, ask again on the way: see
:func:`course_lib.pruning.weights.prune_rescored`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, jacrev, vmap
from torch.nn import functional as F

from course_lib.checks import check_names
from course_lib.models.layouts import like, note_layouts
from course_lib.modes import evaluating
from course_lib.pruning.weights.masks import prunable
from course_lib.pruning.weights.scores import Scores
from course_lib.wrapped import refuse_wrapped

_MEMORY = 1 << 25  # bytes of per-sample derivatives at a time: more falls out of the caches

Parameters = dict[str, Tensor]
# parameters, a sample (1, …) and its label -> derivatives (k, *shape), and weights (k,)
OfOne = Callable[[Parameters, Tensor, Tensor], tuple[Parameters, Tensor]]


def loss_change(weight: Tensor, gradient: Tensor, curvature: Tensor | None = None) -> Tensor:
    """What the loss would change by if each weight, alone, became 0: −g·w, and + ½·h·w² with
    ``curvature``.

    Signed: negative where the loss would fall. Its absolute value without curvature is the "Taylor"
    saliency |g·w|; with ``gradient`` 0, as at a minimum, it is Optimal Brain Damage's ½·h·w².

    ``gradient`` and ``curvature``, the loss's first and second derivatives by each weight (the
    Hessian's diagonal), have the shape of ``weight``; so has the result, detached, and its dtype.

    Source: LeCun, Denker & Solla 1990, "Optimal Brain Damage", section 2; Molchanov et al. 2017,
    "Pruning Convolutional Neural Networks for Resource Efficient Inference", section 2.2.
    """
    for name, other in (("gradient", gradient), ("curvature", curvature)):
        if other is not None and other.shape != weight.shape:
            raise ValueError(f"{name} must be {tuple(weight.shape)}, got {tuple(other.shape)}")
    w = weight.detach()
    change = -gradient.detach() * w
    if curvature is not None:
        change = change + curvature.detach() * w.square() / 2
    return like(weight, change.to(w.dtype))


def gradients(
    model: nn.Module, x: Tensor, y: Tensor, only: Collection[str] | None = None, batch: int = 256
) -> Scores:
    """The gradient of the mean cross entropy in evaluation mode, for every parameter, frozen ones
    too; ``.grad`` and modes stay as they are.

    The model is images or features (B, …) -> logits (B, classes). ``only``: names of the parameters
    to differentiate by, if not all: memory is needed for these alone. ``batch``: samples at a time.
    """
    _classes(model, x, y)
    parameters = _parameters(model, only)

    def loss(p: Parameters, some: Tensor, labels: Tensor) -> Tensor:
        return F.cross_entropy(functional_call(model, p, (some,)), labels, reduction="sum") / len(x)

    total = {name: torch.zeros_like(p) for name, p in parameters.items()}
    with evaluating(model), torch.no_grad():  # of the parameters that are left out
        for some, labels in zip(x.split(batch), y.split(batch), strict=True):
            for name, g in grad(loss)(parameters, some, labels).items():
                total[name] += g
    note_layouts(model)
    return {name: like(model.get_parameter(name), g) for name, g in total.items()}


def taylor(model: nn.Module, x: Tensor, y: Tensor) -> Scores:
    """|g·w| of every prunable weight, with the gradient of the mean loss on these samples in
    evaluation mode; arguments as :func:`gradients`.

    Source: Molchanov et al. 2017, section 2.2; Mozer & Smolensky 1989, "Skeletonization".
    """
    found = gradients(model, x, y)
    return {name: like(w, loss_change(w, found[name]).abs()) for name, w in prunable(model).items()}


def empirical_fisher(
    model: nn.Module, x: Tensor, y: Tensor, only: Collection[str] | None = None
) -> Scores:
    """Mean over samples of the *square of each sample's own* gradient of its cross entropy: the
    diagonal of (1/N) Σ g gᵀ.

    It stands in for second derivatives where the model is right about the labels' probabilities and
    close to a minimum; not elsewhere (Kunstner, Hennig & Balles 2019, "Limitations of the Empirical
    Fisher Approximation", section 3).

    Arguments as in :func:`gradients`; in evaluation mode batch norm mixes no samples. Scores and
    sums are float64, the derivatives have the model's dtype. Computed in chunks of about 32 MB.
    """
    _classes(model, x, y)

    def of_one(p: Parameters, sample: Tensor, label: Tensor) -> tuple[Parameters, Tensor]:
        def loss(q: Parameters) -> Tensor:
            return F.cross_entropy(functional_call(model, q, (sample,)), label)

        return {name: g[None] for name, g in grad(loss)(p).items()}, torch.ones_like(label).double()

    return _mean(model, of_one, x, y, 1, only)


def mean_squared_gradients(
    model: nn.Module, x: Tensor, q: Tensor, only: Collection[str] | None = None
) -> Scores:
    """Mean over samples of Σ_c q_c·(∂ log p_c/∂w)², p the softmax of the logits.

    ``q`` (N, classes) is held constant: labels, one-hot, give :func:`empirical_fisher` (which needs
    one gradient per sample), the model's own softmax gives :func:`curvature`. Otherwise as there.
    """
    labels = torch.zeros(len(x), dtype=torch.int64, device=x.device)  # not looked at
    classes = _classes(model, x, labels)
    if q.shape != (len(x), classes):
        raise ValueError(
            f"q must be {(len(x), classes)}, samples and classes, got {tuple(q.shape)}"
        )

    def of_one(p: Parameters, sample: Tensor, weights: Tensor) -> tuple[Parameters, Tensor]:
        def log_p(q: Parameters) -> Tensor:
            return F.log_softmax(functional_call(model, q, (sample,)), dim=-1)[0]  # (classes,)

        return jacrev(log_p)(p), weights[0].double()  # name -> (classes, *shape)

    return _mean(model, of_one, x, q, classes, only)


def curvature(model: nn.Module, x: Tensor, only: Collection[str] | None = None) -> Scores:
    """Mean over samples of Σ_c p_c·(∂ log p_c/∂w)², p the softmax of the logits, held constant: the
    Gauss–Newton diagonal.

    No labels: it is the *true* Fisher information's diagonal. Where each weight is used in one
    layer and every non-linearity is piecewise linear (ReLU, max pooling, batch norm in evaluation
    mode) the logits are piecewise linear in each weight alone, and this **is** the Hessian's
    diagonal of the mean cross entropy, whatever the labels. Not for tied weights, GELU or
    attention. Otherwise as :func:`empirical_fisher`.

    Source: Kunstner, Hennig & Balles 2019, section 2.
    """
    _classes(model, x, torch.zeros(len(x), dtype=torch.int64, device=x.device))
    with evaluating(model), torch.no_grad():
        p = F.log_softmax(model(x), dim=-1).double().exp()  # (N, classes)
    return mean_squared_gradients(model, x, p, only)


def _parameters(model: nn.Module, only: Collection[str] | None) -> Parameters:
    parameters = {name: p.detach() for name, p in model.named_parameters()}
    check_names(only or (), parameters, "only")
    return {name: p for name, p in parameters.items() if only is None or name in only}


def _mean(
    model: nn.Module, of_one: OfOne, x: Tensor, y: Tensor, k: int, only: Collection[str] | None
) -> Scores:
    """The mean over samples of Σ_k weight_k · derivative_k² of each parameter."""
    parameters = _parameters(model, only)
    size = (4 + 8) * k * sum(p.numel() for p in parameters.values())  # and as doubles
    chunk = max(1, min(len(x), _MEMORY // max(1, size)))
    total = {name: torch.zeros_like(p, dtype=torch.float64) for name, p in parameters.items()}
    samples = zip(x.unsqueeze(1).split(chunk), y.unsqueeze(1).split(chunk), strict=True)
    with evaluating(model), torch.no_grad():
        for xs, ys in samples:  # (chunk, 1, …), (chunk, 1)
            for found, weights in _found(of_one, parameters, xs, ys, together=chunk > 1):
                for name, values in found.items():
                    squares = values.to(torch.float64, copy=True).flatten(0, -1 - total[name].ndim)
                    squares.mul_(squares)
                    total[name] += torch.tensordot(weights.flatten(), squares, 1)
    note_layouts(model)
    return {name: like(model.get_parameter(name), v.div_(len(x))) for name, v in total.items()}


def _found(
    of_one: OfOne, parameters: Parameters, xs: Tensor, ys: Tensor, together: bool
) -> Iterable[tuple[Parameters, Tensor]]:
    """What ``of_one`` finds: of all samples at once, or one by one where that does not work."""
    try:
        if together:
            return [vmap(of_one, in_dims=(None, 0, 0))(parameters, xs, ys)]
    except RuntimeError as error:
        # a model whose code asks for values (`if x.max() > 1`), or an operator unknown to vmap
        if "vmap" not in str(error):
            raise
    return (of_one(parameters, x, y) for x, y in zip(xs, ys, strict=True))


def _classes(model: nn.Module, x: Tensor, y: Tensor) -> int:
    """How many classes the model tells apart; refuses samples and labels that do not fit it."""
    refuse_wrapped(model, "compile", "prune")
    if not len(x):
        raise ValueError("x holds no sample: a mean over none is undefined")
    with evaluating(model), torch.no_grad():
        logits = model(x[:1])
    if not isinstance(logits, Tensor) or logits.ndim != 2 or len(logits) != 1:
        got = tuple(logits.shape) if isinstance(logits, Tensor) else type(logits).__name__
        raise ValueError(f"model must make logits (1, classes) of one sample, got {got}: wrap it")
    classes = logits.shape[1]
    if y.shape != (len(x),) or y.is_floating_point() or bool(((y < 0) | (y >= classes)).any()):
        raise ValueError(
            f"y must hold one label for each of the {len(x)} samples, a whole number from 0 to"
            f" {classes - 1}; got {y.dtype} {tuple(y.shape)} {y.flatten()[:8].tolist()}"
        )
    return classes
