"""A search for tickets that may take days: several seeds, each with its controls, side
by side, and all of it on disk.

The method is :func:`~course_lib.pruning.weights.lottery.find_ticket`, as it stands
there. What is different here is the ``train`` that it is given: one that reads from a
folder what was trained before, gives the rest to an executor, and trains the controls
of each round beside its ticket.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Executor, Future, ThreadPoolExecutor, as_completed
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from tqdm.auto import tqdm

from course_lib.pruning.weights.lottery import (
    Build,
    Record,
    Train,
    beside,
    find_ticket,
    random_ticket,
    reinitialise,
    rewind,
    shares,
    whole,
)
from course_lib.pruning.weights.masks import Masks
from course_lib.pruning.weights.ticket_folder import Folder, described, digest, pack, unpack

State = dict[str, Any]  # what model.state_dict() gives, on the CPU
#: What a ticket is compared with (its mask with new values; another mask, as many).
CONTROLS = ("reinit", "random")


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
    """:func:`~course_lib.pruning.weights.lottery.find_ticket` for several seeds, with
    the controls for its masks.

    Args:
        seeds: different whole numbers from 0 up. Each gives one search, with
            ``build(seed=s)``, ``train(model, masks, start, stop, seed=s)`` and its own
            controls.
        build, train: as there, with the keyword ``seed``. With an executor they must be
            picklable (module-level functions, or ``functools.partial`` of them), and
            results plain. What they hold travels with every training: of a large data
            set bind the name, or for ``models.build`` something light with its
            ``shape`` and ``classes``.
        rounds, rate, rewind_step, output_rate: as there.
        controls: of "reinit" (the round's masks, fresh weights, trained from step 0,
            since they have no step k) and "random" (masks of the same counts per layer
            anywhere, weights w_k). Each differs from the ticket in one thing. As the
            ticket has one w_k in all rounds, so they have one initialisation, and
            nested masks. Their randomness is derived from the seed and differs from
            that of ``torch.manual_seed(seed)``, with which w_0 may have been drawn.
        folder: each seed has a subfolder ``seed-0``, …, where each training is written
            as soon as it is done. If it is called again with the same arguments, what
            is there is read, not trained again; ``rounds`` and ``controls`` may have
            grown meanwhile. Results must then be plain: numbers, strings, None,
            tensors, and lists, tuples and dicts of them. Only this process writes:
            executors need no common disk.
        executor: any ``concurrent.futures.Executor``:
            ``course_lib.parallel.processes()``, or Dask's ``client.get_executor()``.
            The rounds of a seed follow each other; controls, and other seeds, fill the
            time. None: one after the other, here. Not closed. Executors whose trainings
            share a process are no help: torch's generator is one for all.
        progress: show a bar, if it takes longer than a second.

    Returns:
        Seed -> its records, in the order of ``seeds``; the same whatever the executor.
        With controls they have a key more, ``controls``:
        name -> ``dict(masks, result)``, without entries in round 0, where nothing is
        pruned and nothing to be controlled.

    Raises:
        ValueError: for a bad argument, and if ``folder`` holds rounds of another
            configuration (told apart by the rates, k, the seed, the first weights, and
            the arguments that a ``functools.partial`` or dataclass ``train`` holds.
            What is written in the body of a function cannot be seen: bind what you will
            vary).
        TypeError: if a result cannot be written to ``folder``.
        RuntimeError: if another process is at work in ``folder``.
        Exception: what a training raises ends it all; trainings that are done stay in
            ``folder``.
    """
    seeds = [whole(seed, "a seed", 0) for seed in seeds]
    if len(set(seeds)) < len(seeds):
        raise ValueError(f"seeds {seeds} are not all different: the same run twice is not two")
    rounds, rewind_step = whole(rounds, "rounds", 0), whole(rewind_step, "rewind_step", 0)
    controls = (controls,) if isinstance(controls, str) else tuple(controls)
    if unknown := [name for name in controls if name not in CONTROLS]:
        raise ValueError(f"there is no control {unknown[0]!r}: choose from {', '.join(CONTROLS)}")
    total = len(seeds) * (bool(rewind_step) + rounds + 1 + rounds * len(controls))
    bar = tqdm(
        total=total, desc="lottery", unit="training", disable=not progress, leave=False, delay=1
    )
    with bar, ExitStack() as folders:
        searches = []
        for seed in seeds:
            build_one, train_one = partial(build, seed=seed), partial(train, seed=seed)
            # here and not in a thread, since it may draw from torch's generator
            model = build_one()
            rates = shares(model, rate, output_rate)
            kept = None
            if folder is not None:
                configuration = {
                    "rates": rates,
                    "rewind_step": rewind_step,
                    "seed": seed,
                    "first weights": digest(model.state_dict()),
                    "train": described(train_one),
                }
                kept = Folder(Path(folder) / f"seed-{seed}", configuration)
                folders.enter_context(kept.opened())
            searches.append(
                _Search(
                    build_one,
                    train_one,
                    model,
                    rounds,
                    rates,
                    rewind_step,
                    controls,
                    seed,
                    kept,
                    executor,
                    bar,
                )
            )
        if executor is None:
            return {search.seed: search.run() for search in searches}
        # A thread waits for the trainings of each search, which are elsewhere, and
        # looks which come next.
        with ThreadPoolExecutor(len(searches) or 1) as threads:
            running = {threads.submit(search.run): search.seed for search in searches}
            try:
                for done in as_completed(running):
                    done.result()  # the first error ends it all
            finally:
                for search in searches:
                    search.cancel()
        return {seed: done.result() for done, seed in running.items()}


@dataclass
class _Search:
    """One search, and the ``train`` that its :func:`find_ticket` is given."""

    build: Build
    train_one: Train
    model: nn.Module
    rounds: int
    rates: dict[str, float]
    rewind_step: int
    controls: tuple[str, ...]
    seed: int
    folder: Folder | None
    executor: Executor | None
    bar: Any
    w_k: State = field(default_factory=dict)
    reading: bool = True  # till a ticket is not there: what comes after it was made of another one
    controlled: list[dict[str, Future[Record]]] = field(default_factory=list)  # for each round
    pending: list[Future[Any]] = field(default_factory=list)
    cancelled: bool = False

    def run(self) -> list[Record]:
        """The records, with controls."""
        records = find_ticket(
            lambda: self.model, self.train, self.rounds, self.rates, self.rewind_step
        )
        if self.controls:
            for record, there in zip(records, self.controlled, strict=True):
                record["controls"] = {arm: future.result() for arm, future in there.items()}
        return records

    def train(self, model: nn.Module, masks: Masks, start: int, stop: int | None) -> Any:
        """Train ``model``, here or elsewhere, or find it trained; and the controls for
        these masks, if there are some.
        """
        state, masks = (
            _on_cpu(model.state_dict()),
            {name: mask.cpu() for name, mask in masks.items()},
        )
        number = len(self.controlled)
        name = "start" if stop is not None else f"round-{number:02d}"
        found = self._read(name) if self.reading else None
        self.reading = found is not None
        trained = (
            self._done(found) if found else self._begin(name, _trained, state, masks, start, stop)
        )
        if stop is None:
            if number == 0:
                self.w_k = state  # as it was rewound to, and nothing is pruned yet
            arms = self.controls if number else ()
            self.controlled.append(
                {arm: self._control(arm, f"{name}-{arm}", masks) for arm in arms}
            )
        ticket = trained.result()
        model.load_state_dict(ticket["state"])
        return ticket["result"]

    def _control(self, arm: str, name: str, masks: Masks) -> Future[Record]:
        # Derived: another seed than the one from which w_0 may have been drawn, and the
        # same in every round.
        derived = np.random.SeedSequence([self.seed, CONTROLS.index(arm)]).generate_state(
            2, np.uint32
        )
        seed = int(derived[0]) << 31 | int(derived[1]) >> 1
        if arm == "random":
            masks = random_ticket(masks, torch.Generator().manual_seed(seed))
        found = self._read(name)
        if found and all(torch.equal(mask, found["masks"][name]) for name, mask in masks.items()):
            return self._done(found)
        return self._begin(name, _controlled, arm, self.w_k, masks, self.rewind_step, seed)

    def _begin(self, name: str, job: Callable[..., Record], *arguments: Any) -> Future[Record]:
        """Have a training done, and its result written to the file of that name."""
        if self.executor is None:
            result = job(lambda: self.model, self.train_one, *arguments)
            if self.folder:
                self.folder.write(name, pack(result))
            return self._done(result)
        written: Future[Record] = Future()
        there = self.executor.submit(_carried, job, self.build, self.train_one, pack(arguments))
        self.pending += [written, there]
        there.add_done_callback(partial(self._arrived, name, written))
        if self.cancelled:  # meanwhile
            self.cancel()
        return written

    def _arrived(self, name: str, written: Future[Record], there: Future[bytes]) -> None:
        error: BaseException | None = None
        try:
            packed = there.result()
            if self.folder:  # also where nobody waits for it any more: it was trained
                self.folder.write(name, packed)
        # a training that failed or was cancelled, or a disk that is full
        except BaseException as caught:
            error = caught
        if not written.set_running_or_notify_cancel():
            return
        if error is not None:
            written.set_exception(error)
        else:
            written.set_result(unpack(packed))
            self.bar.update()

    def cancel(self) -> None:
        """Wait for nothing any more."""
        self.cancelled = True
        for future in self.pending:
            future.cancel()

    def _read(self, name: str) -> Record | None:
        return self.folder.read(name) if self.folder else None

    def _done(self, result: Record) -> Future[Record]:
        self.bar.update()
        future: Future[Record] = Future()
        future.set_result(result)
        return future


# ---- the trainings: plain functions of plain data, so that any executor can carry them


def _trained(
    build: Build, train: Train, state: State, masks: Masks, start: int, stop: int | None
) -> Record:
    """Train from a state: the dense steps before w_k, or a ticket."""
    model = build()
    model.load_state_dict(state)
    result = train(model, beside(model, masks), start, stop)
    return {"result": result, "state": _on_cpu(model.state_dict())}


def _controlled(
    build: Build, train: Train, arm: str, w_k: State, masks: Masks, rewind_step: int, seed: int
) -> Record:
    """Train a control: fresh weights under the ticket's masks, or w_k under others."""
    model = build()
    if arm == "reinit":
        reinitialise(model, masks, seed)
    else:
        rewind(model, w_k, masks)
    return {
        "masks": masks,
        "result": train(model, beside(model, masks), 0 if arm == "reinit" else rewind_step, None),
    }


def _carried(job: Callable[..., Record], build: Build, train: Train, arguments: bytes) -> bytes:
    """What runs in a worker. Bytes, because torch would send tensors as shared memory,
    which outlives no process.
    """
    return pack(job(build, train, *unpack(arguments)))


def _on_cpu(state: Mapping[str, Any]) -> State:
    """A copy of a state."""
    return {
        k: v.detach().cpu().clone() if isinstance(v, Tensor) else copy.deepcopy(v)
        for k, v in state.items()
    }
