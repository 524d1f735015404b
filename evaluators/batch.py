"""Evaluation of many cases at once, with a progress bar and a file of results that a later run resumes from."""

import asyncio
from collections.abc import Callable, Coroutine, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, TypeAlias

from pydantic import ValidationError

from evaluators.cases import Conversation, Json, Scope, Turn, scope_of
from evaluators.evaluation import check_judge, evaluate, make_record, utc_now
from evaluators.evaluator import Evaluator
from evaluators.identity import CASE_DIGEST, digest_of, judged_version, make_evaluation_id, subject_id_of
from evaluators.judge import Judge, NoJudge
from evaluators.judges.definition_cache import DefinitionCache
from evaluators.private_files import open_private
from evaluators.records import from_json, to_json
from evaluators.results import Evaluation

MONITOR = "library"
"""The placeholder in evaluations that no monitor of a service requested."""

Write: TypeAlias = Callable[[Evaluation], None]


@dataclass(frozen=True, slots=True)
class _Task:
    """One evaluator, one case, and the identity of their evaluation."""

    evaluator: Evaluator[Any]
    case: Turn | Conversation
    evaluation_id: str
    version: str
    attributes: Mapping[str, Json]

    async def run(self, judge: Judge, now: Callable[[], datetime]) -> Evaluation:
        """Evaluate the case."""
        return make_record(
            self.evaluator,
            self.case,
            await evaluate(self.evaluator, self.case, judge, now=now),
            evaluation_id=self.evaluation_id,
            evaluator_version=self.version,
            monitor=MONITOR,
            attributes=self.attributes,
        )


async def evaluate_many(
    evaluators: Iterable[Evaluator[Any]],
    cases: Iterable[Turn | Conversation],
    judge: Judge | None = None,
    *,
    concurrency: int = 10,
    results: str | Path | None = None,
    progress: bool | None = None,
    now: Callable[[], datetime] = utc_now,
) -> list[Evaluation]:
    """Evaluate each case with each evaluator of its scope; the evaluations of the first case come first.

    Like `evaluate`, it raises no exception for a case without a score: see each `Evaluation.outcome`. Evaluations of
    the same identity are made once.

    Args:
        evaluators: of turns and of conversations, in any mixture.
        cases: turns and conversations, in any mixture.
        judge: answers the evaluators' questions; evaluators in code need none.
        concurrency: how many evaluations run at a time, at least 1.
        results: a JSONL file. Each evaluation is added to it when it is complete, and evaluations that an earlier run
            left there of cases with the same content are not made again, except failures. It has the form of
            `evalstream score --output`.
        progress: whether stderr shows a progress bar; None shows it if stderr is a terminal.
        now: the time, for the records.

    Raises:
        TypeError: no evaluator has the scope of a case, or a case has the wrong type; or an evaluator needs a judge and
        none is given. ValueError: `concurrency` is below 1, or the file of results holds something else. OSError: the
        file of results cannot be read or written.
    """
    if concurrency < 1:
        raise ValueError(f"concurrency: at least 1 is needed, not {concurrency}")
    evaluators = tuple(evaluators)
    for evaluator in evaluators:
        check_judge(evaluator, judge)
    answering = NoJudge() if judge is None else DefinitionCache(judge)  # the judge writes steps only once
    path = None if results is None else Path(results)
    tasks = list(_tasks(evaluators, cases, answering, resumable=path is not None))
    wanted = {task.evaluation_id: task for task in tasks}
    made = {
        one.evaluation_id: one
        for one in results_of(attempts_in(path))
        if (task := wanted.get(one.evaluation_id)) and one.attributes.get(CASE_DIGEST) in task.attributes.values()
    }
    todo = [task for name, task in wanted.items() if name not in made]

    with _writing(path) as write, _progress_bar(len(wanted), len(made), visible=progress) as advance:

        async def work(waiting: Iterator[_Task]) -> None:
            for task in waiting:  # one iterator for all workers: each takes the next task
                record = made[task.evaluation_id] = await task.run(answering, now)
                write(record)
                advance(record)

        await _run_workers(work, iter(todo), min(concurrency, len(todo)))
    return [made[task.evaluation_id] for task in tasks]


async def _run_workers(
    work: Callable[[Iterator[_Task]], Coroutine[Any, Any, None]], waiting: Iterator[_Task], count: int
) -> None:
    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(count):
                group.create_task(work(waiting))
    except ExceptionGroup as error:  # workers fail for one reason alone: the file cannot be written
        raise error.exceptions[0] from None


def _tasks(
    evaluators: tuple[Evaluator[Any], ...], cases: Iterable[Turn | Conversation], judge: Judge, *, resumable: bool
) -> Iterator[_Task]:
    models = [judge.model if evaluator.needs_judge else "" for evaluator in evaluators]
    versions = map(judged_version, evaluators, models)
    definitions = list(zip(evaluators, versions, models, strict=True))
    for case in cases:
        scope = _scope_of(case)
        matching = [definition for definition in definitions if definition[0].scope == scope]
        if not matching:
            raise TypeError(f"there is a {scope} among the cases, and no evaluator of a {scope}")
        attributes = dict[str, Json]()
        with suppress(TypeError):  # a case that cannot be written as JSON is judged in each run
            attributes = {CASE_DIGEST: digest_of(case)} if resumable else attributes
        subject = subject_id_of(case)
        for evaluator, version, model in matching:
            evaluation_id = make_evaluation_id(evaluator.name, version, model, *subject)
            yield _Task(evaluator, case, evaluation_id, version, attributes)


def _scope_of(case: object) -> Scope:
    if isinstance(case, Turn | Conversation):
        return scope_of(case)
    raise TypeError(f"cases are turns and conversations, not {type(case).__name__}")


def results_of(attempts: Iterable[Evaluation]) -> list[Evaluation]:
    """The latest evaluation of each identity; failures are left out, so that they are made again."""
    latest = {one.evaluation_id: one for one in attempts}
    return [evaluation for evaluation in latest.values() if evaluation.outcome != "failed"]


def attempts_in(path: Path | None, *, is_resumed: bool = True) -> list[Evaluation]:
    """All evaluations in a JSONL file; none if there is no file. The last line, if an interrupted run left only a part
    of it, does not count; it is cut off a file that is resumed.

    Raises:
        ValueError: a line is no evaluation.
        OSError: the file cannot be read.
    """
    if path is None or not path.exists():
        return []
    *lines, rest = path.read_bytes().split(b"\n")
    attempts: list[Evaluation] = []
    for number, line in enumerate(lines, 1):
        try:
            attempts.append(from_json(line, Evaluation))
        except ValidationError:
            raise ValueError(f"{path}: line {number}: {_OF_SOMETHING_ELSE}") from None
    if not (attempts or _FIRST_BYTES.startswith(rest[: len(_FIRST_BYTES)])):
        raise ValueError(f"{path}: line {len(lines) + 1}: {_OF_SOMETHING_ELSE}")
    if rest and is_resumed:  # only now, as nothing is cut off a file of something else
        with path.open("r+b") as file:
            file.truncate(path.stat().st_size - len(rest))
    return attempts


_FIRST_BYTES = b'{"evaluation_id":'
_OF_SOMETHING_ELSE = "not an evaluation; name another file"


@contextmanager
def _writing(path: Path | None) -> Generator[Write]:
    if path is None:
        yield lambda _record: None
        return
    with open(path, "ab", opener=open_private) as file:

        def write(record: Evaluation) -> None:
            file.write(to_json(record) + b"\n")
            file.flush()  # a complete line survives an interruption

        yield write


@contextmanager
def _progress_bar(total: int, completed: int, *, visible: bool | None) -> Generator[Callable[[Evaluation], None]]:
    if visible is False:
        yield lambda _record: None
        return
    from evaluators.progress import progress_bar

    spent = 0.0
    with progress_bar(visible=visible) as bar:
        task = bar.add_task("", total=total, completed=completed, cost="")

        def advance(record: Evaluation) -> None:
            nonlocal spent
            spent += record.cost_usd or 0.0
            bar.update(task, advance=1, cost=f"{spent:.2f} USD" if spent else "")

        yield advance
