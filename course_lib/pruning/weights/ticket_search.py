"""Lottery tickets of several seeds, each with its controls, in parallel, and resumable.

The method is :func:`~course_lib.pruning.weights.lottery.find_ticket`. What is different
here: tickets of several seeds, and the controls of all rounds, are jobs for an executor;
with a folder, ``joblib.Memory`` keeps every training, so that an interrupted search goes
on where it was.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Executor, Future, as_completed
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from course_lib.checks import check_count, check_names
from course_lib.progress import open_bar, raising_interrupted
from course_lib.pruning.weights.lottery import (
    Build,
    Record,
    Train,
    copy_to_model,
    find_ticket,
    layer_rates,
    random_ticket,
    reinitialise,
    rewind,
)
from course_lib.pruning.weights.masks import Masks

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
        build, train: as there, with the keyword ``seed``. With an executor or a folder
            they must be picklable (module-level functions, or ``functools.partial`` of
            them), and results plain: numbers, strings, None, tensors, and lists, tuples
            and dicts of them. What they hold travels with every job: of a large data set
            bind the name.
        rounds, rate, rewind_step, output_rate: as there.
        controls: of "reinit" (the round's masks, fresh weights, trained from step 0,
            since they have no step k) and "random" (masks of the same counts per layer
            anywhere, weights w_k). Each differs from the ticket in one thing. As the
            ticket has one w_k in all rounds, so they have one initialisation, and
            nested masks. Their randomness is derived from the seed and differs from
            that of ``torch.manual_seed(seed)``, with which w_0 may have been drawn.
        folder: where every training is kept as soon as it is done. A training with the
            same start, masks, steps and arguments is read from there and not repeated;
            the code of ``train`` is not compared. Processes that train must see the
            folder, too.
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
        ValueError: for a bad argument, before anything is trained.
        Exception: what a training raises ends the search; finished trainings stay in
            ``folder``.
    """
    seeds = [check_count(seed, "seeds") for seed in seeds]
    if len(set(seeds)) < len(seeds):
        raise ValueError(f"seeds {seeds} are not all different: the same run twice is not two")
    rounds, rewind_step = check_count(rounds, "rounds"), check_count(rewind_step, "rewind_step")
    controls = (controls,) if isinstance(controls, str) else tuple(controls)
    check_names(controls, CONTROLS, "controls")
    # here and not in a thread, since it may draw from torch's generator
    rates = {seed: layer_rates(build(seed=seed), rate, output_rate) for seed in seeds}
    submit = executor.submit if executor else _at_once
    trainings = len(seeds) * (1 + rounds * len(controls))
    bar = open_bar(trainings, "tickets and their controls", shown=progress, unit=" trainings")

    def job(run: Callable[..., Any], seed: int, *arguments: Any) -> Future[bytes]:
        own = partial(build, seed=seed), partial(train, seed=seed)
        return submit(_packed, run, folder, *own, _pack(arguments))

    found: dict[int, list[Record]] = {}
    waiting: dict[Future[bytes], tuple[Any, ...]] = {}
    kept = f"{folder} keeps the finished trainings." if folder else "Its results are lost."
    with raising_interrupted(f"Interrupted: the search for tickets did not end. {kept}"), bar:
        try:
            for seed in seeds:
                waiting[job(_ticket, seed, rounds, rates[seed], rewind_step)] = (seed,)
            while waiting:
                done = next(as_completed(waiting))
                seed, *place = waiting.pop(done)
                result = _unpack(done.result())  # the first error ends it all
                bar.update()
                if place:
                    record, arm = place
                    record["controls"][arm] = result
                    continue
                found[seed], w_k = result
                for record in found[seed] if controls else ():
                    record["controls"] = dict.fromkeys(controls) if record["round"] else {}
                    for arm in record["controls"]:
                        control = job(_control, seed, arm, w_k, record["masks"], rewind_step, seed)
                        waiting[control] = (seed, record, arm)
        finally:
            for future in waiting:
                future.cancel()
    return {seed: found[seed] for seed in seeds}


# ---- the jobs: plain functions of plain data, so that any executor can carry them


def _ticket(
    kept: Callable[..., Any],
    build: Build,
    train: Train,
    rounds: int,
    rates: dict[str, float],
    rewind_step: int,
) -> tuple[list[Record], State]:
    """All rounds of one seed; and w_k."""
    states: list[State] = []

    def train_kept(model: Any, masks: Masks, start: int, stop: int | None) -> Any:
        before = _on_cpu(model.state_dict())
        if stop is None and not states:
            states.append(before)
        result, after = kept(_trained, build, train, before, _on_cpu(masks), start, stop)
        model.load_state_dict(after)
        return result

    model = build()
    records = find_ticket(lambda: model, train_kept, rounds, rates, rewind_step)
    return records, states[0]


def _control(
    kept: Callable[..., Any],
    build: Build,
    train: Train,
    arm: str,
    w_k: State,
    masks: Masks,
    rewind_step: int,
    seed: int,
) -> Record:
    """Train a control: fresh weights under the ticket's masks, or w_k under others."""
    # Derived: another seed than the one from which w_0 may have been drawn, and the
    # same in every round.
    words = np.random.SeedSequence([seed, CONTROLS.index(arm)]).generate_state(2, np.uint32)
    derived = int(words[0]) << 31 | int(words[1]) >> 1
    model = build()
    if arm == "random":
        masks = random_ticket(masks, torch.Generator().manual_seed(derived))
        rewind(model, w_k, masks)
    else:
        reinitialise(model, masks, derived)
    start = 0 if arm == "reinit" else rewind_step
    state = _on_cpu(model.state_dict())
    return {"masks": masks, "result": kept(_trained, build, train, state, masks, start, None)[0]}


def _trained(
    build: Build, train: Train, state: State, masks: Masks, start: int, stop: int | None
) -> tuple[Any, State]:
    """Train from a state; its result, and the state afterwards."""
    model = build()
    model.load_state_dict(state)
    result = train(model, copy_to_model(model, masks), start, stop)
    return result, _on_cpu(model.state_dict())


def _packed(
    run: Callable[..., Any], folder: str | Path | None, build: Build, train: Train, arguments: bytes
) -> bytes:
    """A job, in this process or another. Bytes, because torch would send tensors as
    shared memory, which outlives no process.
    """
    return _pack(run(partial(_kept, folder), build, train, *_unpack(arguments)))


def _kept(folder: str | Path | None, run: Callable[..., Any], *arguments: Any) -> Any:
    """``run(*arguments)``, computed once per arguments if there is a folder."""
    if folder is None:
        return run(*arguments)
    import joblib  # here: importing it sets environment variables, in the grader, too

    build, train, *data = arguments
    memory = joblib.Memory(folder, verbose=0)
    # as bytes: joblib's digest of a tensor differs from process to process
    return _unpack(memory.cache(_run_packed)(run, build, train, _pack(data)))


def _run_packed(run: Callable[..., Any], build: Build, train: Train, data: bytes) -> bytes:
    return _pack(run(build, train, *_unpack(data)))


def _at_once(run: Callable[..., Any], *arguments: Any) -> Future[Any]:
    future: Future[Any] = Future()
    future.set_result(run(*arguments))
    return future


def _pack(value: Any) -> bytes:
    """Plain data as bytes, the same bytes for the same data.

    Raises:
        TypeError: if it is not plain: numbers, strings, None, tensors, and lists, tuples
            and dicts of them.
    """
    buffer = io.BytesIO()
    torch.save(value, buffer)
    try:
        _unpack(buffer.getvalue())
    except Exception as error:  # of another kind in each release of torch
        raise TypeError(
            "train returned something that is not plain data: return numbers, strings, None,"
            " tensors, and lists, tuples and dicts of them (of a numpy number .item())"
        ) from error
    return buffer.getvalue()


def _unpack(data: bytes) -> Any:
    return torch.load(io.BytesIO(data), weights_only=True, map_location="cpu")


def _on_cpu(state: Mapping[str, Any]) -> State:
    """A copy of a state, on the CPU."""
    return {k: v.detach().cpu().clone() if isinstance(v, Tensor) else v for k, v in state.items()}
