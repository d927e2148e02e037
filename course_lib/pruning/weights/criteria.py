"""What the loss says about a weight: how much would it change if this weight, alone,
became zero?

Taylor's series at w, followed to w' = 0, so by a step of −w: the change is
−g·w + ½·h·w² + … with the loss's gradient g and its second derivative h there. Optimal
Brain Damage takes the second term, since at a minimum g = 0; "Taylor" scores take the
size of the first. Where h comes from is the second question: :func:`curvature` and
:func:`empirical_fisher` are two answers.

::

    from course_lib.pruning import weights

    h = weights.curvature(model, images)  # or empirical_fisher(model, images, labels)
    w = {name: p.detach() for name, p in weights.prunable(model).items()}
    scores = {name: weights.loss_change(w[name], 0 * w[name], h[name]) for name in w}
    masks = weights.global_masks(scores, 0.8)

Each number holds with all other weights in place. To remove many, ask again on the way:
see :func:`course_lib.pruning.weights.prune_rescored`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, jacrev, vmap
from torch.nn import functional as F

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
    """What the loss would change by if each weight, alone, became 0: −g·w, and + ½·h·w²
    with ``curvature``.

    Signed: negative where the loss would fall. Its absolute value without curvature is
    the "Taylor" saliency |g·w|; with ``gradient`` 0, as at a minimum, it is Optimal
    Brain Damage's ½·h·w².

    Args:
        weight: any shape. gradient: of the loss by it, of the same shape.
        curvature: second derivatives of the loss by each weight, of the same shape (the
            Hessian's diagonal).

    Returns:
        Of the shape and dtype of ``weight``, detached.

    Raises:
        ValueError: if shapes differ.

    Source: LeCun, Denker & Solla 1990, "Optimal Brain Damage", section 2; Molchanov et
    al. 2017, "Pruning Convolutional Neural Networks for Resource Efficient Inference",
    section 2.2.
    """
    for name, other in (("gradient", gradient), ("curvature", curvature)):
        if other is not None and other.shape != weight.shape:
            raise ValueError(
                f"{name} has shape {tuple(other.shape)}, the weight {tuple(weight.shape)}: one"
                " number a weight"
            )
    w = weight.detach()
    change = -gradient.detach() * w
    if curvature is not None:
        change = change + curvature.detach() * w.square() / 2
    return like(weight, change.to(w.dtype))


def gradients(
    model: nn.Module,
    x: Tensor,
    y: Tensor,
    batch: int = 256,
    only: Collection[str] | None = None,
) -> Scores:
    """The gradient of the mean cross entropy in evaluation mode, for every parameter;
    ``.grad`` and modes stay as they are.

    Args:
        model: images or features (B, …) -> logits (B, classes). x: (B, …). y: (B,)
            int64. batch: samples at a time. only: names of the parameters to
            differentiate by, if not all: memory is needed for these alone.

    Returns:
        Name -> gradient like the parameter, frozen ones too.

    Raises:
        ValueError: if there is no sample, there are more or fewer labels, the model
            makes no (B, classes), a label is none of the classes, or a name in ``only``
            is no parameter.
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
    """|g·w| of every prunable weight, with the gradient of the mean loss on these
    samples in evaluation mode.

    Args, raises: as :func:`gradients`.

    Returns:
        Name -> score like the weight; larger = more important.

    Source: Molchanov et al. 2017, section 2.2; Mozer & Smolensky 1989,
    "Skeletonization".
    """
    found = gradients(model, x, y)
    return {name: like(w, loss_change(w, found[name]).abs()) for name, w in prunable(model).items()}


def empirical_fisher(
    model: nn.Module, x: Tensor, y: Tensor, only: Collection[str] | None = None
) -> Scores:
    """Mean over samples of the *square of each sample's own* gradient of its cross
    entropy: the diagonal of (1/N) Σ g gᵀ.

    It stands in for second derivatives where the model is right about the labels'
    probabilities and close to a minimum; not elsewhere (Kunstner, Hennig & Balles 2019,
    "Limitations of the Empirical Fisher Approximation", section 3).

    Args:
        model: (B, …) -> logits (B, classes); any modules, in evaluation mode meanwhile
            (so batch norm mixes no samples).
        x: (B, …). y: (B,) int64. only: as in :func:`gradients`.

    Returns:
        Name -> float64 like the parameter, for every one of ``named_parameters()``,
        frozen ones too. Sums are float64, the derivatives have the model's dtype.
        Computed in chunks of about 32 MB.

    Raises:
        ValueError: if there is no sample, there are more or fewer labels, the model
            makes no (B, classes), a label is none of the classes, or a name in ``only``
            is no parameter.
    """
    _classes(model, x, y)

    def of_one(p: Parameters, sample: Tensor, label: Tensor) -> tuple[Parameters, Tensor]:
        def loss(q: Parameters) -> Tensor:
            return F.cross_entropy(functional_call(model, q, (sample,)), label)

        return {name: g[None] for name, g in grad(loss)(p).items()}, torch.ones_like(label).double()

    return _mean(model, of_one, x, y, 1, only)


def curvature(model: nn.Module, x: Tensor, only: Collection[str] | None = None) -> Scores:
    """Mean over samples of Σ_c p_c·(∂ log p_c/∂w)², p the softmax of the logits, held
    constant: the Gauss–Newton diagonal.

    No labels: it is the *true* Fisher information's diagonal. Where each weight is used
    in one layer and every non-linearity is piecewise linear (ReLU, max pooling, batch
    norm in evaluation mode) the logits are piecewise linear in each weight alone, and
    this **is** the Hessian's diagonal of the mean cross entropy, whatever the labels.
    Not for tied weights, GELU or attention.

    Args:
        model: (B, …) -> logits (B, classes), in evaluation mode meanwhile. x: (B, …).
            only: as in :func:`gradients`.

    Returns:
        Name -> float64 like the parameter, as :func:`empirical_fisher`.

    Raises:
        ValueError: if there is no sample, the model makes no (B, classes), or a name in
            ``only`` is no parameter.

    Source: Kunstner, Hennig & Balles 2019, section 2.
    """
    labels = torch.zeros(len(x), dtype=torch.int64, device=x.device)  # not looked at
    classes = _classes(model, x, labels)

    def of_one(p: Parameters, sample: Tensor, label: Tensor) -> tuple[Parameters, Tensor]:
        def log_p(q: Parameters) -> tuple[Tensor, Tensor]:
            logs = F.log_softmax(functional_call(model, q, (sample,)), dim=-1)[0]  # (classes,)
            return logs, logs

        by_class, logs = jacrev(log_p, has_aux=True)(p)  # name -> (classes, *shape)
        return by_class, logs.detach().double().exp()

    return _mean(model, of_one, x, labels, classes, only)


def _parameters(model: nn.Module, only: Collection[str] | None) -> Parameters:
    parameters = {name: p.detach() for name, p in model.named_parameters()}
    if only is None:
        return parameters
    if isinstance(only, str) or (unknown := sorted(set(only) - parameters.keys())):
        got = only if isinstance(only, str) else unknown[0]
        raise ValueError(f"only must hold names of parameters of the model, in a list; got {got!r}")
    return {name: p for name, p in parameters.items() if name in only}


def _mean(
    model: nn.Module,
    of_one: OfOne,
    x: Tensor,
    y: Tensor,
    at_once: int,
    only: Collection[str] | None,
) -> Scores:
    """The mean over samples of Σ_k weight_k · derivative_k², for the derivatives of each
    parameter and the weights that ``of_one`` finds, ``at_once`` of them.
    """
    parameters = _parameters(model, only)
    # derivatives, and as doubles
    size = (4 + 8) * at_once * sum(p.numel() for p in parameters.values())
    chunk = max(1, min(len(x), _MEMORY // max(1, size)))
    total = {
        name: torch.zeros(p.shape, dtype=torch.float64, device=p.device)
        for name, p in parameters.items()
    }
    with evaluating(model), torch.no_grad():
        for found, weights in _found(of_one, parameters, x, y, chunk):
            for name, values in found.items():  # (samples, k, *shape)
                squares = values.to(torch.float64, copy=True).flatten(0, 1)
                squares.mul_(squares)
                total[name] += torch.tensordot(weights.flatten(), squares, 1)
    note_layouts(model)
    return {name: like(model.get_parameter(name), v.div_(len(x))) for name, v in total.items()}


def _found(
    of_one: OfOne, parameters: Parameters, x: Tensor, y: Tensor, chunk: int
) -> Iterator[tuple[Parameters, Tensor]]:
    """What ``of_one`` finds, (samples, k, *shape) for each parameter and weights
    (samples, k): many samples at once, or one by one where that does not work.
    """
    together = chunk > 1
    chunks = zip(x.unsqueeze(1).split(chunk), y.unsqueeze(1).split(chunk), strict=True)
    for xs, ys in chunks:  # (chunk, 1, …), (chunk, 1)
        if together:
            try:
                yield vmap(of_one, in_dims=(None, 0, 0))(parameters, xs, ys)
                continue
            except RuntimeError as error:
                # a model whose code asks for values (`if x.max() > 1`), or an operator
                # unknown to vmap
                if "vmap" not in str(error):
                    raise
                together = False
        for sample, label in zip(xs, ys, strict=True):
            found, weights = of_one(parameters, sample, label)
            yield {name: v.unsqueeze(0) for name, v in found.items()}, weights


def _classes(model: nn.Module, x: Tensor, y: Tensor) -> int:
    """How many classes the model tells apart.

    Raises:
        ValueError: if there is no sample, the model makes no (B, classes), or the labels
            are not one whole number for each sample, from 0 to classes − 1.
    """
    refuse_wrapped(model, "compile", "prune")
    if not len(x):
        raise ValueError("x holds no sample: a mean over none is undefined")
    with evaluating(model), torch.no_grad():
        logits = model(x[:1])
    if not isinstance(logits, Tensor) or logits.ndim != 2 or len(logits) != 1:
        got = tuple(logits.shape) if isinstance(logits, Tensor) else type(logits).__name__
        raise ValueError(
            f"model makes {got} of one sample, and logits (1, classes) are needed: wrap it in a"
            " module that returns them"
        )
    classes = logits.shape[1]
    if y.shape != (len(x),) or y.is_floating_point() or bool(((y < 0) | (y >= classes)).any()):
        span = f" from {y.min():g} to {y.max():g}" if y.numel() else ""
        raise ValueError(
            f"y must hold one label for each of the {len(x)} samples, a whole number from 0 to"
            f" {classes - 1}; got {y.dtype} {tuple(y.shape)}{span}"
        )
    return classes
