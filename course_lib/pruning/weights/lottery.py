"""Lottery tickets: prune by size, go back to the beginning, train again.

"A randomly-initialized, dense neural network contains a subnetwork that is initialized such that,
when trained in isolation, it can match the test accuracy of the original network after training for
at most the same number of iterations." To find it, train, prune a share of the weights that are
left, rewind those that stay, and repeat. Two controls say what makes it a ticket: the same mask
with other weights, and the same weights under another mask.

Source: Frankle & Carbin 2019, "The Lottery Ticket Hypothesis"; rewinding to step k > 0: Frankle et
al. 2020, "Linear Mode Connectivity and the Lottery Ticket Hypothesis".
"""

from __future__ import annotations

import copy
import io
import math
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Executor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from course_lib.checks import check_count, check_fraction, check_mask, check_names, check_same_names
from course_lib.progress import open_bar, raising_interrupted
from course_lib.pruning.weights.granularity import count_pruned
from course_lib.pruning.weights.masks import Masks, apply, check, dense_masks, prunable, remaining
from course_lib.pruning.weights.scores import magnitude, random
from course_lib.ranking import prune_lowest
from course_lib.seeding import seeded

Record = dict[str, Any]  # of one round: round, masks, remaining, result
Build = Callable[..., nn.Module]
Train = Callable[..., Any]
#: What a ticket is compared with (its mask with new values; another mask, as many).
CONTROLS = ("reinit", "random")


def shrink(
    weights: Mapping[str, Tensor],
    masks: Mapping[str, Tensor],
    rate: float,
    output_rate: float | None = None,
) -> Masks:
    """Prune a share of the weights that are left: in each layer ``round(rate * survivors)``, those
    with the smallest |w|.

    Args:
        weights: the trained weights by name; only those still alive are looked at.
        masks: the masks so far (True = kept), with the keys and shapes of ``weights``.
        rate: the share to prune in this round, in [0, 1].
        output_rate: the share for the output layer, which is the last key. None: half of ``rate``,
            since it is small and full of weights that matter.

    Returns:
        New masks on the devices of ``masks``, nested in them. Among equal |w| the lower row-major
        index goes first.

    Source: Frankle & Carbin 2019, section 2: "connections to outputs are pruned at half of the rate
    of the rest of the network".
    """
    what = "the share of the surviving weights to prune"
    rates = dict.fromkeys(weights, check_fraction(rate, "rate", what))
    if rates:
        last = rate / 2 if output_rate is None else output_rate
        rates[[*rates][-1]] = check_fraction(last, "output_rate", what)
    check_same_names(masks, weights, "masks")
    result = {}
    for name, size in magnitude(weights).items():
        mask = check_mask(masks[name], f"masks[{name!r}]", size.shape)
        alive = size[mask.to(size.device)]  # (survivors,), in row-major order
        kept = prune_lowest(alive, count_pruned(rates[name], alive.numel()), name=name)
        result[name] = mask.clone()
        result[name][mask] = kept.to(mask.device)
    return result


@torch.no_grad()
def rewind(model: nn.Module, state: Mapping[str, Any], masks: Mapping[str, Tensor]) -> None:
    """Put every parameter and buffer of ``model`` back to ``state``, in place, and the pruned
    weights to zero. Gradients are forgotten; parameters stay the same objects.

    ``state`` is ``deepcopy(model.state_dict())``, taken at the step to go back to; its values are
    copied. One of another model, or the model's own memory (``state_dict()`` gives references), is
    refused before anything is changed.
    """
    check(model, masks)
    own = model.state_dict()
    check_same_names(state, own, "state")
    for name, value in state.items():
        if not isinstance(value, Tensor):
            continue  # what a module put there with set_extra_state
        if value.shape != own[name].shape:
            got, shape = tuple(value.shape), tuple(own[name].shape)
            raise ValueError(f"state[{name!r}] must have the shape {shape}, got {got}")
        if value.numel() and value.device == own[name].device and value.is_set_to(own[name]):
            raise ValueError(f"state[{name!r}] is the model's own memory: keep a deepcopy")
    model.load_state_dict(dict(state))  # copies into the tensors that are there
    apply(model, masks)
    model.zero_grad(set_to_none=True)


def random_ticket(masks: Mapping[str, Tensor], generator: torch.Generator) -> Masks:
    """The control for *which* weights stay: as many in each layer as in ``masks``, but anywhere,
    every choice of places equally likely.

    Drawn in the order of ``masks``; generators with equal seeds give nested masks for nested
    ``masks``, as if a random share had been pruned in every round.
    """
    for name, mask in masks.items():
        check_mask(mask, f"masks[{name!r}]")
    return {
        name: prune_lowest(score, int((~masks[name]).sum())).to(masks[name].device)
        for name, score in random(masks, generator).items()
    }


def reinitialise(model: nn.Module, masks: Mapping[str, Tensor], seed: int) -> None:
    """The control for *where the weights start*: the same mask, but fresh weights, in place.
    Gradients are forgotten.

    The random generators are seeded once, then ``reset_parameters`` is called on every module that
    has it, in the order of ``model.modules()``: the distributions are those of the layers, not one
    for all. A module with parameters and without that method is refused, since they would keep
    their values. The caller's generators are not touched. (The seed from which the model was built
    usually gives its first weights again, so the ticket itself: take another.)

    Source: Frankle & Carbin 2019, section 2: "we randomly reinitialize".
    """
    check(model, masks)
    for name, module in model.named_modules():
        own = [p for p, _ in module.named_parameters(recurse=False)]
        if own and not hasattr(module, "reset_parameters"):
            raise ValueError(
                f"{name or 'the model'} ({type(module).__name__}) holds {', '.join(map(repr, own))}"
                " without a reset_parameters() to draw them afresh: give its class that method"
            )
    with seeded(seed, {p.device for p in model.parameters()}):
        for module in model.modules():
            if hasattr(module, "reset_parameters"):
                module.reset_parameters()  # type: ignore[operator]
    apply(model, masks)
    model.zero_grad(set_to_none=True)


def early_stop(losses: Iterable[float], every: int = 1) -> int:
    """The training step at which the validation loss, measured ``every`` so many steps, was lowest:
    ``every * (1 + index of the first minimum)``. How early it comes says how fast a network learns;
    no smoothing. NaN is passed over, but one loss must be a number.

    Source: Frankle & Carbin 2019, section 2, "early-stopping criterion".
    """
    every = check_count(every, "every", 1)
    numbers = [float(loss) for loss in losses]
    usable = [i for i, loss in enumerate(numbers) if not math.isnan(loss)]
    if not usable:
        raise ValueError(f"losses holds {len(numbers)} numbers, all of them NaN: did it diverge?")
    return every * (1 + min(usable, key=numbers.__getitem__))  # min takes the first of equals


def find_ticket(
    build: Build, train: Train, rounds: int, rate: float, rewind_step: int = 0
) -> list[Record]:
    """Iterative magnitude pruning with rewinding (:func:`find_tickets`: many seeds, and controls).

    Args:
        build: makes the untrained model.
        train: ``train(model, masks, start, stop)`` trains from step ``start`` to step ``stop``
            (None: to the end) with an optimizer of its own, keeps pruned weights at zero, and
            returns what is to be remembered, an accuracy, say. ``masks`` are on its device.
        rounds: how often to prune, after the dense round 0.
        rate: the share of the survivors to prune in each round, see :func:`shrink`.
        rewind_step: k. For larger networks and learning rates a ticket is found only from a small
            k > 0 on.

    Returns:
        ``rounds + 1`` records: ``round``; ``masks`` (on the CPU, nested); ``remaining``, the share
        of prunable weights that is kept; ``result``, what ``train`` returned.

    Source: Frankle & Carbin 2019, section 2 (strategy 1 of its appendix B); Frankle et al. 2020,
    section 4.
    """
    rounds, rewind_step = check_count(rounds, "rounds"), check_count(rewind_step, "rewind_step")
    model = build()
    masks = {name: mask.cpu() for name, mask in dense_masks(model).items()}
    if not masks:
        raise ValueError("build makes a model without weights of two or more dimensions to prune")
    shrink(prunable(model), masks, rate)  # refuses bad rates before any training
    if rewind_step:
        train(model, copy_to_model(model, masks), 0, rewind_step)
    w_k = copy.deepcopy(model.state_dict())
    records = []
    for number in range(rounds + 1):
        if number:
            # a share of those still alive, by their trained size
            masks = shrink(prunable(model), masks, rate)
        rewind(model, w_k, masks)  # back to step k, not to the trained values
        result = train(model, copy_to_model(model, masks), rewind_step, None)
        records.append(
            {"round": number, "masks": masks, "remaining": remaining(masks), "result": result}
        )
    return records


def copy_to_model(model: nn.Module, masks: Masks) -> Masks:
    """A copy of ``masks``, each on the device of its parameter."""
    return {
        name: masks[name].to(weight.device, copy=True) for name, weight in prunable(model).items()
    }


def find_tickets(
    seeds: Iterable[int],
    build: Build,
    train: Train,
    rounds: int,
    rate: float,
    rewind_step: int = 0,
    *,
    controls: Iterable[str] = (),
    folder: str | Path | None = None,
    executor: Executor | None = None,
    progress: bool = False,
) -> dict[int, list[Record]]:
    """:func:`find_ticket` for several seeds, with the controls for its masks.

    Args:
        seeds: different whole numbers from 0 up. Each gives one search, with ``build(seed=s)``,
            ``train(model, masks, start, stop, seed=s)`` and its own controls.
        build, train: as there, with the keyword ``seed``. With an executor or a folder they must be
            picklable (module-level functions, or ``functools.partial`` of them), and so must
            results. What they hold travels with every job: of a large data set bind the name.
        rounds, rate, rewind_step: as there.
        controls: of "reinit" (the round's masks, fresh weights, trained from step 0, since they
            have no step k) and "random" (masks of the same counts per layer anywhere, weights
            w_k). As the ticket has one w_k in all rounds, so they have one initialisation, and
            nested masks. Their randomness is derived from the seed and differs from that of
            ``torch.manual_seed(seed)``, with which w_0 may have been drawn.
        folder: where every training is kept (by ``joblib.Memory``) as soon as it is done. One with
            the same start, masks, steps and arguments is read from there and not repeated; the code
            of ``train`` is not compared. Processes that train must see the folder, too.
        executor: any ``concurrent.futures.Executor`` that is not threads (torch's generator is one
            for all): ``course_lib.parallel.processes()``, or Dask's ``client.get_executor()``. Jobs
            are first the tickets of all seeds, then their controls. Not closed. None: one after the
            other, here.
        progress: show a bar, if it takes longer than a second.

    Returns:
        Seed -> its records, the same whatever the executor. With controls they have a key more,
        ``controls``: name -> ``dict(masks, result)``, without entries in round 0.
    """
    seeds = [check_count(seed, "seeds") for seed in seeds]
    if len(set(seeds)) < len(seeds):
        raise ValueError(f"seeds {seeds} are not all different: the same run twice is not two")
    controls = (controls,) if isinstance(controls, str) else tuple(controls)
    check_names(controls, CONTROLS, "controls")
    each = executor.map if executor else map
    arms = [(seed, arm) for seed in seeds for arm in controls]
    found: dict[int, list[Record]] = {}
    bar = open_bar(len(seeds) + len(arms), "tickets and their controls", shown=progress)
    kept = f"{folder} keeps the finished trainings." if folder else "Its results are lost."
    with raising_interrupted(f"Interrupted: the search for tickets did not end. {kept}"), bar:
        once = partial(_once, build, train, folder)
        ticket = partial(_ticket, build, once, rounds, rate, rewind_step)
        control = partial(_control, build, once, rewind_step)
        packed = {}
        for seed, packed[seed] in zip(seeds, each(ticket, seeds), strict=True):
            found[seed], _ = _unpack(packed[seed])
            for record in found[seed] if controls else ():
                record["controls"] = {}
            bar.update()
        tickets = [packed[seed] for seed, _ in arms]
        for (seed, arm), trained in zip(arms, each(control, arms, tickets), strict=True):
            for record, result in zip(found[seed][1:], _unpack(trained), strict=True):
                record["controls"][arm] = result
            bar.update()
    return found


# What jobs exchange is bytes: torch would send tensors as shared memory, which outlives no
# process, and joblib's digest of a tensor differs from process to process.


def _ticket(build: Build, once: Train, rounds: int, rate: float, k: int, seed: int) -> bytes:
    """All rounds of one seed; and w_k."""
    w_k: dict[str, Any] = {}

    def train_once(model: nn.Module, masks: Masks, start: int, stop: int | None) -> Any:
        if stop is None and not w_k:
            w_k.update(copy.deepcopy(model.state_dict()))
        return once(model, masks, start, stop, seed=seed)

    records = find_ticket(partial(build, seed=seed), train_once, rounds, rate, k)
    return _pack((records, w_k))


def _control(build: Build, once: Train, k: int, which: tuple[int, str], ticket: bytes) -> bytes:
    """A control of all rounds: fresh weights under the ticket's masks, or w_k under others."""
    seed, arm = which
    # Derived: another seed than the one from which w_0 may have been drawn, and the
    # same in every round.
    words = np.random.SeedSequence([seed, CONTROLS.index(arm)]).generate_state(2)
    derived = int(words[0]) << 31 | int(words[1]) >> 1
    (_, *records), w_k = _unpack(ticket)
    found = []
    for record in records:
        model, masks, start = build(seed=seed), record["masks"], 0
        if arm == "reinit":
            reinitialise(model, masks, derived)
        else:
            masks = random_ticket(masks, torch.Generator().manual_seed(derived))
            rewind(model, w_k, masks)
            start = k
        result = once(model, masks, start, None, seed=seed)
        found.append({"masks": masks, "result": result})
    return _pack(found)


def _once(
    build: Build, train: Train, folder: str | Path | None, model: nn.Module, *given: Any, seed: int
) -> Any:
    """Train ``model``, once per arguments if there is a folder; the result."""
    import joblib  # here: importing it sets environment variables, in the grader, too

    own = partial(build, seed=seed), partial(train, seed=seed)
    trained = joblib.Memory(folder, verbose=0).cache(_trained)
    result, after = _unpack(trained(*own, _pack((model.state_dict(), *given))))
    model.load_state_dict(after)
    return result


def _trained(build: Build, train: Train, given: bytes) -> bytes:
    """Train from a state; its result, and the state afterwards."""
    state, masks, start, stop = _unpack(given)
    model = build()
    model.load_state_dict(state)
    result = train(model, copy_to_model(model, masks), start, stop)
    return _pack((result, model.state_dict()))


def _pack(value: Any) -> bytes:
    """As bytes, the same for the same tensors, numbers, strings and containers of them."""
    buffer = io.BytesIO()
    torch.save(value, buffer)
    return buffer.getvalue()


def _unpack(data: bytes) -> Any:
    return torch.load(io.BytesIO(data), weights_only=False, map_location="cpu")
