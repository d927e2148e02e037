"""Many submissions, several judges: who marks what, and what becomes of a submission
that ends its judge.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Generator, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait

from course_lib.grading import sandbox
from course_lib.grading.marking.judge import Judge, JudgeLost, Limits
from course_lib.grading.marking.lab import GradingResult, Lab, Task


class Judges:
    """One judge a thread."""

    def __init__(self, layer: sandbox.Isolation, limits: Limits | None = None) -> None:
        self.layer = layer
        self.limits = limits or Limits()
        self._local = threading.local()
        self._all: list[Judge] = []
        self._closed = False

    def mark(self, lab: Lab, task: Task) -> GradingResult:
        """The marks of one submission, by this thread's judge.

        Raises:
            JudgeLost: if the judge ended meanwhile.
        """
        if task.problem:  # there is nothing to judge
            return lab.unread(task, self.layer.name)
        if self._closed:
            raise RuntimeError("grading was stopped")
        if not hasattr(self._local, "judge"):
            self._local.judge = Judge(self.layer, self.limits)
            self._all.append(self._local.judge)
        try:
            return self._local.judge.mark(lab.spec, task)
        except JudgeLost:
            if self._closed:
                raise RuntimeError("grading was stopped") from None
            raise
        except Exception as error:
            return lab.failed(error, self.layer.name)

    def mark_or_set_aside(self, lab: Lab, task: Task) -> GradingResult:
        """As :meth:`mark`, for who has one submission: a judge that is lost is replaced
        once.
        """
        for _ in range(2):
            try:
                return self.mark(lab, task)
            except JudgeLost as lost:
                why = str(lost)
        return lab.set_aside(why, self.layer.name)

    def interrupt(self) -> None:
        """Let whatever is under way fail at once, and nothing be begun: for another
        thread than theirs, which still use them.
        """
        self._closed = True
        for judge in list(self._all):
            judge.end()

    def stop(self) -> None:
        """End all judges; none is started again. Their threads must have ended, or be
        at rest.
        """
        self._closed = True
        for judge in self._all:
            judge.shutdown()


def mark_here(
    lab: Lab,
    tasks: Iterable[Task],
    layer: sandbox.Isolation,
    jobs: int,
    limits: Limits | None = None,
) -> Generator[tuple[Task, GradingResult], None, None]:
    """Mark with ``jobs`` judges, in the order the marks come. A submission that ends
    its judge is tried once more, after all others.

    Closing the iterator ends what is under way, and its processes, without waiting for
    it.
    """
    judges = Judges(layer, limits)
    pool = ThreadPoolExecutor(jobs, thread_name_prefix="grader")
    waiting: dict[Future[GradingResult], Task] = {}
    again: deque[Task] = deque()
    tried: set[tuple[str, int]] = set()
    source = iter(tasks)
    try:
        while True:
            while len(waiting) <= jobs:  # one waits beside those under way, so that no thread does
                task = next(source, None) or (again.popleft() if again else None)
                if task is None:
                    break
                waiting[pool.submit(judges.mark, lab, task)] = task
            if not waiting:
                return
            for future in wait(waiting, return_when=FIRST_COMPLETED).done:
                task = waiting.pop(future)
                try:
                    yield task, future.result()
                except JudgeLost as lost:
                    if (task.id, task.version) in tried:
                        yield task, lab.set_aside(str(lost), layer.name)
                    else:
                        tried.add((task.id, task.version))
                        again.append(task)
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        begun = [future for future in waiting if not future.cancelled()]
        while wait(begun, timeout=0.1).not_done:
            judges.interrupt()  # again and again: one may just have been starting
        judges.stop()
