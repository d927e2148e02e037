"""Lottery tickets: prune by size, go back to the beginning, train again.

"A randomly-initialized, dense neural network contains a subnetwork that is initialized such that, when trained in
isolation, it can match the test accuracy of the original network after training for at most the same number of
iterations." To find it, train, prune a share of the weights that are left, rewind those that stay, and repeat. Two
controls say what makes it a ticket: the same mask with other weights, and the same weights under another mask.

Source: Frankle & Carbin 2019, "The Lottery Ticket Hypothesis"; rewinding to step k > 0: Frankle et al. 2020, "Linear Mode
Connectivity and the Lottery Ticket Hypothesis".
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from tqdm.auto import tqdm

from course_lib.pruning.weights.exact import count_pruned, flat, prune_smallest
from course_lib.pruning.weights.masks import Masks, apply, check, dense_masks, prunable, remaining
from course_lib.pruning.weights.scores import magnitude, random
from course_lib.pruning.weights.ticket_folder import Folder, described, digest, pack, unpack

State = dict[str, Any]  # what model.state_dict() gives, on the CPU
Record = dict[str, Any]  # of one round: round, masks, remaining, result; with controls also controls
Build = Callable[..., nn.Module]
Train = Callable[..., Any]
CONTROLS = ("reinit", "random")


# ---- one round, piece by piece


def shrink(
    weights: Mapping[str, Tensor],
    masks: Mapping[str, Tensor],
    rate: float | Mapping[str, float],
    output_rate: float | None = None,
) -> Masks:
    """Prune a share of the weights that are left: in each layer the smallest ``round(rate * survivors)`` |w|.

    Args:
        weights: the trained weights by name, of any shapes. Only those still alive are looked at. Not changed.
        masks: the masks so far (True = kept), with the keys and shapes of ``weights``. Not changed.
        rate: the share to prune in this round, in [0, 1]; or one share for each name.
        output_rate: the share for the output layer, which is the last key. None: half of ``rate``, since it is small
            and full of weights that matter (or, with one rate for each name, the rate it has there).

    Returns:
        New masks on the devices of ``masks``, nested in them. Among equal |w| the lower row-major index goes first.

    Raises:
        ValueError: if a rate is outside [0, 1], keys or shapes differ, a mask is not bool or a surviving weight is NaN.

    Source: Frankle & Carbin 2019, section 2: "connections to outputs are pruned at half of
    the rate of the rest of the network".
    """
    rates = _rates(list(weights), rate, output_rate)
    if missing := [name for name in weights if name not in masks]:
        raise ValueError(f"there is no mask for {', '.join(map(repr, missing))}: shrink needs one for every weight")
    if unknown := [name for name in masks if name not in weights]:
        raise ValueError(f"there are masks, but no weights, for {', '.join(map(repr, unknown))}: give both or neither")
    result = {}
    for name, size in magnitude(weights).items():
        mask = _bool(masks, name, size.shape)
        alive = size[mask.to(size.device)]  # (survivors,), in row-major order
        (kept,) = prune_smallest([flat(alive, name)], count_pruned(rates[name], alive.numel()))
        result[name] = mask.clone()
        result[name][mask] = torch.from_numpy(kept).to(mask.device)
    return result


@torch.no_grad()
def rewind(model: nn.Module, state: Mapping[str, Any], masks: Mapping[str, Tensor]) -> None:
    """Put every parameter and buffer of ``model`` back to ``state``, in place, and the pruned weights to zero.

    The values are copied: what is trained next leaves ``state`` as it is. Gradients are forgotten.

    Args:
        model: any module; its parameters stay the same objects.
        state: ``deepcopy(model.state_dict())``, taken at the step to go back to.
        masks: True = kept.

    Raises:
        ValueError: before anything is changed, if ``state`` or ``masks`` belong to another model, or if ``state`` is the
            model's own memory (``state_dict()`` gives references; without a copy there is nothing to go back to).
    """
    check(model, masks)
    own = model.state_dict(keep_vars=True)
    if odd := sorted(own.keys() ^ state.keys()):
        raise ValueError(
            f"state and model do not have the same entries, {odd[0]!r} is only in one of them: was state taken from "
            "another model?"
        )
    for name, value in state.items():
        if not isinstance(value, Tensor):
            continue  # what a module put there with set_extra_state
        if value.shape != own[name].shape:
            raise ValueError(
                f"state[{name!r}] has shape {tuple(value.shape)}, but the model's has {tuple(own[name].shape)}: was state "
                "taken from another model?"
            )
        if _same_memory(value, own[name]):
            raise ValueError(
                f"state[{name!r}] is the model's own memory and has been trained with it: keep a copy at the step to "
                "rewind to, copy.deepcopy(model.state_dict())"
            )
    model.load_state_dict(dict(state))  # copies into the tensors that are there
    apply(model, masks)
    model.zero_grad(set_to_none=True)


def random_ticket(masks: Mapping[str, Tensor], generator: torch.Generator) -> Masks:
    """The control for *which* weights stay: as many in each layer as in ``masks``, but anywhere.

    Every choice of places is equally likely. Drawn in the order of ``masks``; generators with equal seeds give nested
    masks for nested ``masks``, as if a random share had been pruned in every round.

    Args:
        masks: True = kept. Not changed; only shapes and counts are used.
        generator: where the randomness comes from, e.g. ``torch.Generator().manual_seed(0)``.

    Returns:
        New masks on the devices of ``masks``.

    Raises:
        ValueError: if a mask is not bool.
        TypeError: if ``generator`` is not a ``torch.Generator``.
    """
    for name, mask in masks.items():
        _bool(masks, name, getattr(mask, "shape", torch.Size()))
    result = {}
    for name, score in random(masks, generator).items():
        mask = masks[name]
        pruned = mask.numel() - int(mask.count_nonzero())
        (kept,) = prune_smallest([flat(score)], pruned)  # (n,)
        result[name] = torch.from_numpy(kept).view(mask.shape).to(mask.device)
    return result


def reinitialise(model: nn.Module, masks: Mapping[str, Tensor], seed: int) -> None:
    """The control for *where the weights start*: the same mask, but fresh weights, in place.

    The random generators are seeded once, then ``reset_parameters`` is called on every module that has it, in the order
    of ``model.modules()``: the distributions are those of the layers, not one for all. The caller's generators are not
    touched. (With the seed from which the model was built, this usually gives its first weights again, so the ticket
    itself: take another.)

    Args:
        model: any module; its parameters stay the same objects. Gradients are forgotten.
        masks: True = kept; pruned weights are zero afterwards.
        seed: decides the fresh weights.

    Raises:
        ValueError: before anything is changed, if ``masks`` do not fit the model, or if a module holds parameters of its
            own but has no ``reset_parameters``, so that they would keep their trained values.

    Source: Frankle & Carbin 2019, section 2: "we randomly reinitialize".
    """
    check(model, masks)
    for name, module in model.named_modules():
        own = [p for p, _ in module.named_parameters(recurse=False)]
        if own and not hasattr(module, "reset_parameters"):
            raise ValueError(
                f"{name or 'the model'} ({type(module).__name__}) holds {', '.join(map(repr, own))}, but has no "
                "reset_parameters(), so nobody knows how to draw them afresh: give its class that method"
            )
    with _seeded_like(model, seed):
        for module in model.modules():
            if hasattr(module, "reset_parameters"):
                module.reset_parameters()  # type: ignore[operator]
    apply(model, masks)
    model.zero_grad(set_to_none=True)


def early_stop(losses: Iterable[float], every: int = 1) -> int:
    """The training step at which the validation loss was lowest: ``every * (1 + index of the first minimum)``.

    How early it comes says how fast a network learns; no smoothing, the loss as it was measured.

    Args:
        losses: the validation loss after ``every``, 2 ``every``, … steps. NaN is passed over.
        every: steps between two measurements.

    Raises:
        ValueError: if there is no loss, or all are NaN, or ``every`` is below 1.

    Source: Frankle & Carbin 2019, section 2, "early-stopping criterion".
    """
    every = _whole(every, "every", 1)
    numbers = [float(loss) for loss in losses]
    usable = [i for i, loss in enumerate(numbers) if not math.isnan(loss)]
    if not usable:
        why = "they are all NaN: did training diverge?" if numbers else "there are none: was validation measured?"
        raise ValueError(f"no minimum among {len(numbers)} losses, {why}")
    return every * (1 + min(usable, key=numbers.__getitem__))  # min takes the first of equals


def steps_to(values: Iterable[float], level: float, every: int = 1) -> int | None:
    """The first training step at which ``values`` reach ``level``: ``every * (1 + index)``; None if they never do.

    Args:
        values: for example the validation accuracy in % after ``every``, 2 ``every``, … steps. NaN reaches nothing.
        level: in the unit of ``values``, for example 95.
        every: steps between two measurements.

    Raises:
        ValueError: if ``every`` is below 1 or ``level`` is NaN.
    """
    every = _whole(every, "every", 1)
    if math.isnan(level):
        raise ValueError("level is NaN, which nothing reaches: give a number")
    return next((every * (1 + i) for i, value in enumerate(values) if float(value) >= level), None)


# ---- the search


def find_ticket(
    build: Build,
    train: Train,
    rounds: int,
    rate: float | Mapping[str, float],
    rewind_step: int = 0,
    *,
    output_rate: float | None = None,
    controls: Iterable[str] = (),
    seed: int = 0,
    folder: str | Path | None = None,
    progress: bool = False,
) -> list[Record]:
    """Iterative magnitude pruning with rewinding, and the controls for the same masks.

    ::

        train the dense network for k steps, keep w_k          (k = rewind_step; for 0 these are the first weights)
        in round 0 train from w_k to the end, nothing pruned
        in every further round
            prune a share of the weights that are left, those whose trained values are smallest
            put the others back to w_k, and train to the end

    Args:
        build: makes the untrained model, the same one at every call.
        train: ``train(model, masks, start, stop)`` trains from step ``start`` to step ``stop`` (None: to the end) with an
            optimizer of its own, keeps pruned weights at zero, and returns what is to be remembered, an accuracy, say.
            ``masks`` are on the model's device.
        rounds: how often to prune, after the dense round 0.
        rate: the share of the survivors to prune in each round, see :func:`shrink`; 0.2 leaves 0.8^rounds.
        rewind_step: k. For larger networks and learning rates a ticket is found only from a small k > 0 on.
        output_rate: the share for the output layer; None: half of ``rate``.
        controls: of "reinit" (the round's masks, fresh weights, trained from step 0, since they have no step k) and
            "random" (masks of the same counts per layer anywhere, weights w_k). Each differs from the ticket in one
            thing. As the ticket has one w_k in all rounds, so they have one initialisation, and nested masks.
        seed: decides the controls, nothing else. Their randomness is derived from it and differs from that of
            ``torch.manual_seed(seed)``, with which w_0 may have been drawn.
        folder: where each round is written as soon as it is done, and each control. If it is called again with the same
            arguments, what is there is read, not trained again; ``rounds`` and ``controls`` may have grown meanwhile.
            Results must then be plain: numbers, strings, None, tensors, and lists, tuples and dicts of them.
        progress: show a bar, if it takes longer than a second.

    Returns:
        ``rounds + 1`` records: ``round``; ``masks`` (on the CPU, nested); ``remaining``, the share of the weights with two
        or more dimensions that is kept; ``result``, what ``train`` returned. With controls also ``controls``: name ->
        ``dict(masks, result)``, without entries in round 0, where nothing is pruned and nothing to be controlled.

    Raises:
        ValueError: for a bad argument, and if ``folder`` holds rounds of another configuration (told apart by the rates, k,
            the seed, the first weights, and the arguments that a ``functools.partial`` or dataclass ``train`` holds. What
            is written in the body of a function cannot be seen: bind what you will vary).
        TypeError: if a result cannot be written to ``folder``.
        RuntimeError: if another process is at work in ``folder``.

    Source: Frankle & Carbin 2019, section 2 (strategy 1 of its appendix B); Frankle et al. 2020, section 4.
    """
    search = _Search(build, train, rounds, rate, rewind_step, output_rate, controls, seed, folder)
    model = search.model  # one for all rounds: rewinding puts back all there is

    def same_model() -> nn.Module:
        return model

    with search.opened(), _bar(search.trainings, progress) as bar:
        if search.start is None:
            search.begun(_begin(same_model, train, rewind_step))
        for round in range(rounds + 1):
            if round not in search.records:
                search.done(round, _round(same_model, train, *search.task(round)))
                bar.update()
            for arm in search.missing(round):
                search.controlled(round, arm, _control(same_model, train, *search.control_task(round, arm)))
                bar.update()
    return search.result()


def find_tickets(
    seeds: Iterable[int],
    build: Build,
    train: Train,
    rounds: int,
    rate: float | Mapping[str, float],
    rewind_step: int = 0,
    *,
    output_rate: float | None = None,
    controls: Iterable[str] = (),
    folder: str | Path | None = None,
    executor: Executor | None = None,
    progress: bool = False,
) -> dict[int, list[Record]]:
    """:func:`find_ticket` for several seeds, side by side if there is an executor.

    Args:
        seeds: different whole numbers from 0 up. Each gives one search, with ``build(seed=s)``, ``train(model, masks,
            start, stop, seed=s)`` and its own controls.
        build, train: as there, with the keyword ``seed``. With an executor they must be picklable (module-level functions,
            or ``functools.partial`` of them), and results plain. What they hold travels with every training: of a large data
            set bind the name, or for ``models.build`` something light with its ``shape`` and ``classes``.
        folder: each seed has a subfolder ``seed-0``, … Only this process writes: executors need no common disk.
        executor: any ``concurrent.futures.Executor``: ``course_lib.parallel.processes()``, or Dask's
            ``client.get_executor()``. The rounds of a seed follow each other; controls, and other seeds, fill the time. None:
            one after the other, here. Not closed. Threads are no help: torch's generator is one for all.
        rounds, rate, rewind_step, output_rate, controls, progress: as in :func:`find_ticket`.

    Returns:
        Seed -> its records, in the order of ``seeds``; the same whatever the executor.

    Raises:
        ValueError, TypeError, RuntimeError: as :func:`find_ticket`. An error in one training ends it all; rounds that
            are done stay in ``folder``.
    """
    seeds = [_whole(seed, "a seed", 0) for seed in seeds]
    if len(set(seeds)) < len(seeds):
        raise ValueError(f"seeds {seeds} are not all different: the same run twice is not two")
    controls = tuple(controls)
    searches = {
        s: (partial(build, seed=s), partial(train, seed=s), None if folder is None else Path(folder) / f"seed-{s}")
        for s in seeds
    }
    if executor is None:
        return {
            s: find_ticket(
                make,
                run,
                rounds,
                rate,
                rewind_step,
                output_rate=output_rate,
                controls=controls,
                seed=s,
                folder=place,
                progress=progress,
            )
            for s, (make, run, place) in searches.items()
        }
    return _side_by_side(
        {
            s: _Search(make, run, rounds, rate, rewind_step, output_rate, controls, s, place)
            for s, (make, run, place) in searches.items()
        },
        executor,
        progress,
    )


# ---- the trainings: plain functions of plain data, so that any executor can carry them


def _begin(build: Build, train: Train, rewind_step: int) -> State:
    """w_k: the first weights, or those after k steps of dense training."""
    model = build()
    if rewind_step:
        train(model, dense_masks(model), 0, rewind_step)
    return {name: _copy(value) for name, value in model.state_dict().items()}


def _round(build: Build, train: Train, w_k: State, masks: Masks, rewind_step: int, rates: dict[str, float]) -> Record:
    """Train the ticket, and say what is left of it in the next round."""
    model = build()
    rewind(model, w_k, masks)
    result = train(model, _beside(model, masks), rewind_step, None)
    weights = {name: weight.detach().cpu() for name, weight in prunable(model).items()}
    return {"result": result, "masks": masks, "next": shrink(weights, masks, rates)}


def _control(build: Build, train: Train, arm: str, w_k: State, masks: Masks, rewind_step: int, seed: int) -> Record:
    """Train a control of the ticket that has these masks."""
    model = build()
    if arm == "reinit":
        reinitialise(model, masks, seed)
        return {"result": train(model, _beside(model, masks), 0, None), "masks": masks}
    elsewhere = random_ticket(masks, torch.Generator().manual_seed(seed))
    rewind(model, w_k, elsewhere)
    return {"result": train(model, _beside(model, elsewhere), rewind_step, None), "masks": elsewhere}


def _carried(training: Callable[..., Any], build: Build, train: Train, arguments: bytes) -> bytes:
    """What runs in a worker. Bytes, because torch would send tensors as shared memory, which outlives no process."""
    return pack(training(build, train, *unpack(arguments)))


class _Search:
    """The arguments of one search, checked, and what it has found so far, in memory and in its folder."""

    def __init__(
        self,
        build: Build,
        train: Train,
        rounds: int,
        rate: float | Mapping[str, float],
        rewind_step: int,
        output_rate: float | None,
        controls: Iterable[str],
        seed: int,
        folder: str | Path | None,
    ) -> None:
        self.build, self.train = build, train
        self.rounds = _whole(rounds, "rounds", 0)
        self.rewind_step = _whole(rewind_step, "rewind_step", 0)
        self.seed = _whole(seed, "seed", 0)
        self.controls = (controls,) if isinstance(controls, str) else tuple(controls)
        if unknown := [name for name in self.controls if name not in CONTROLS]:
            raise ValueError(f"there is no control {unknown[0]!r}: choose from {', '.join(CONTROLS)}")
        self.model = build()
        weights = prunable(self.model)
        if not weights:
            raise ValueError("the model has no weights with two or more dimensions, so there is nothing to prune")
        self.rates = _rates(list(weights), rate, output_rate)

        self.start: State | None = None  # w_k
        self.records: dict[int, Record] = {}  # with the key "next" for the masks of the round after, and all controls
        self._dense = {name: mask.cpu() for name, mask in dense_masks(self.model).items()}
        self._folder = folder and Folder(
            folder,
            {
                "rates": self.rates,
                "rewind_step": self.rewind_step,
                "seed": self.seed,
                "first weights": digest(self.model.state_dict()),
                "train": described(train),
            },
        )

    @contextmanager
    def opened(self) -> Iterator[None]:
        """Inside, the folder is ours, and what it holds has been read."""
        if not self._folder:
            yield
            return
        with self._folder.opened():
            self.start = self._folder.read("start")
            for round in range(self.rounds + 1):
                if (record := self._folder.read(_file(round))) is None:
                    break  # of what comes after it the masks are not known
                self.records[round] = record
            yield

    @property
    def trainings(self) -> int:
        """How many are still to be done."""
        return sum((r not in self.records) + len(self.missing(r)) for r in range(self.rounds + 1))

    def missing(self, round: int) -> list[str]:
        """The controls that a round still needs. Round 0 has none: nothing is pruned."""
        there = self.records.get(round, {}).get("controls", {})
        return [arm for arm in self.controls if round and arm not in there]

    def task(self, round: int) -> tuple[Any, ...]:
        masks = self.records[round - 1]["next"] if round else self._dense
        return self.start, masks, self.rewind_step, self.rates

    def control_task(self, round: int, arm: str) -> tuple[Any, ...]:
        # Derived: another one than the seed itself, from which w_0 may have been drawn, and the same in every round.
        derived = np.random.SeedSequence([self.seed, CONTROLS.index(arm)]).generate_state(2, np.uint32)
        return (
            arm,
            self.start,
            self.records[round]["masks"],
            self.rewind_step,
            int(derived[0]) << 31 | int(derived[1]) >> 1,
        )

    def begun(self, state: State) -> None:
        if self._folder:
            self._folder.write("start", state)
        self.start = state

    def done(self, round: int, record: Record) -> None:
        self._keep(round, {"round": round, "remaining": remaining(record["masks"]), **record, "controls": {}})

    def controlled(self, round: int, arm: str, control: Record) -> None:
        record = self.records[round]
        self._keep(round, {**record, "controls": {**record["controls"], arm: control}})

    def _keep(self, round: int, record: Record) -> None:
        if self._folder:
            self._folder.write(_file(round), record)
        self.records[round] = record

    def result(self) -> list[Record]:
        kept = []
        for round in range(self.rounds + 1):
            record = self.records[round]
            kept.append({key: record[key] for key in ("round", "masks", "remaining", "result")})
            if self.controls:
                there = record["controls"]
                kept[-1]["controls"] = {arm: there[arm] for arm in self.controls if arm in there}
        return kept


def _side_by_side(searches: dict[int, _Search], executor: Executor, progress: bool) -> dict[int, list[Record]]:
    """All searches at once: whatever can be trained is given to ``executor``, and what comes back opens up the next."""
    waiting: dict[Future[bytes], tuple[_Search, Callable[[Any], None]]] = {}
    asked: set[tuple[int, int, str]] = set()

    def submit(search: _Search, then: Callable[[Any], None], training: Callable[..., Any], *arguments: Any) -> None:
        waiting[executor.submit(_carried, training, search.build, search.train, pack(arguments))] = search, then

    def ask(search: _Search) -> None:
        if search.start is None:
            submit(search, search.begun, _begin, search.rewind_step)
            return
        next_round = len(search.records)  # first: the rounds after it wait for it, for controls nobody does
        if next_round <= search.rounds and (search.seed, next_round, "") not in asked:
            asked.add((search.seed, next_round, ""))
            submit(search, partial(search.done, next_round), _round, *search.task(next_round))
        for round in search.records:
            for arm in search.missing(round):
                if (search.seed, round, arm) not in asked:
                    asked.add((search.seed, round, arm))
                    submit(search, partial(search.controlled, round, arm), _control, *search.control_task(round, arm))

    with ExitStack() as stack:
        for search in searches.values():
            stack.enter_context(search.opened())
        bar = stack.enter_context(_bar(sum(search.trainings for search in searches.values()), progress))
        try:
            for search in searches.values():
                ask(search)
            while waiting:
                done, _ = wait(waiting, return_when=FIRST_COMPLETED)
                for future in sorted(done, key=lambda f: f.exception() is not None):  # keep what is there, then fail
                    search, then = waiting.pop(future)
                    begun = search.start is not None
                    then(unpack(future.result()))
                    bar.update(begun)
                    ask(search)
        finally:
            for future in waiting:
                future.cancel()
    return {s: search.result() for s, search in searches.items()}


# ---- small change


def _file(round: int) -> str:
    return f"round-{round:02d}"


def _bar(trainings: int, progress: bool) -> Any:
    return tqdm(total=trainings, desc="lottery", unit="training", disable=not progress, leave=False, delay=1)


def _copy(value: Any) -> Any:
    return value.detach().cpu().clone() if isinstance(value, Tensor) else copy.deepcopy(value)


def _beside(model: nn.Module, masks: Masks) -> Masks:
    """A copy of ``masks``, each on the device of its parameter."""
    return {name: masks[name].to(weight.device, copy=True) for name, weight in prunable(model).items()}


def _same_memory(a: Tensor, b: Tensor) -> bool:
    return a.device == b.device and a.device.type != "meta" and a.numel() > 0 and a.data_ptr() == b.data_ptr()


def _bool(masks: Mapping[str, Tensor], name: str, shape: torch.Size) -> Tensor:
    mask = masks[name]
    if not isinstance(mask, Tensor) or mask.dtype != torch.bool:
        got = mask.dtype if isinstance(mask, Tensor) else type(mask).__name__
        raise ValueError(f"masks[{name!r}] should be a bool tensor, True = kept, got {got}: try mask.bool()")
    if mask.shape != shape:
        raise ValueError(f"masks[{name!r}] has shape {tuple(mask.shape)}, but its weight has {tuple(shape)}")
    return mask


def _rates(names: list[str], rate: float | Mapping[str, float], output_rate: float | None) -> dict[str, float]:
    """The share to prune in each layer; the last name is the output layer."""
    if isinstance(rate, Mapping):
        if odd := set(rate).symmetric_difference(names):
            raise ValueError(f"rate has one share for each of {', '.join(names)}; missing or unknown: {sorted(odd)}")
        rates = {name: float(rate[name]) for name in names}
        last = output_rate
    else:
        rates = dict.fromkeys(names, float(rate))
        last = rate / 2 if output_rate is None else output_rate
    if names and last is not None:
        rates[names[-1]] = float(last)
    for name, share in [*rates.items(), ("the rate itself", rate), ("the output rate", last)]:
        if isinstance(share, int | float) and not 0 <= share <= 1:
            hint = f" (for {share:g} % write {share / 100:g})" if 1 < share <= 100 else ""
            raise ValueError(
                f"a rate is the share of the surviving weights to prune, between 0 and 1; for {name} got {share:g}{hint}"
            )
    return rates


def _whole(value: int, what: str, least: int) -> int:
    if isinstance(value, bool) or value != int(value) or value < least:
        raise ValueError(f"{what} is a whole number, {least} or more, got {value!r}")
    return int(value)


@contextmanager
def _seeded_like(model: nn.Module, seed: int) -> Iterator[None]:
    """Seeds the generators of the devices that ``model`` is on, and puts them back."""
    places = {p.device for p in model.parameters()}
    cuda = sorted({p.index for p in places if p.type == "cuda"})
    mps = torch.mps.get_rng_state() if any(p.type == "mps" for p in places) else None
    with torch.random.fork_rng(devices=cuda):
        # not torch.manual_seed: it would also reseed devices whose state is not put back
        torch.default_generator.manual_seed(seed)
        for index in cuda:
            torch.cuda.default_generators[index].manual_seed(seed)
        try:
            if mps is not None:
                torch.mps.manual_seed(seed)
            yield
        finally:
            if mps is not None:
                torch.mps.set_rng_state(mps)
