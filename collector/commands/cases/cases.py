"""The command: reads the logs, joins turns, evaluations and labels, writes a file."""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from collector.commands.cases.formats import FORMATS
from collector.commands.cases.selection import SelectedCase, Which, candidates, diverse
from collector.config.command_options import WindowOptions, require_known, require_window, write_new
from collector.config.configured import Config
from collector.errors import DONE, FAILED, ConfigError
from collector.past.evaluations import EvaluationFilter, evaluations_in, key_of, select, subject_key
from collector.past.turns import Turns, case_of, newest_labels, turns_in_log
from collector.records.grouping import group_by
from collector.service.open_logs import Logs, open_stored_logs
from collector.statistics.agreement import ScoreScale
from collector.wording import plural
from evaluators.cases import Conversation, Turn
from evaluators.results import Evaluation, Label


@dataclass(frozen=True, slots=True, kw_only=True)
class CasesOptions(WindowOptions):
    """The command's options. `most` is how many cases are wanted, `diverse` whether near-duplicates are left out;
    None leaves them out unless the cases represent the traffic.
    """

    which: Which = "failed"
    monitor: str | None = None
    evaluators: Sequence[str] = ()
    below: float | None = None
    most: int = 200
    diverse: bool | None = None
    form: str = "jsonl"
    output: Path
    name: str = "evalstream"


async def write_cases(config: Config, options: CasesOptions, say: Callable[[str], None]) -> int:
    """Write the cases; the exit status: 1 if there are none.

    Raises:
        ConfigError: no such monitor, evaluator or format, no log, or the file exists already or cannot be written.
    """
    _check(config, options)
    async with open_stored_logs(config.settings.log) as logs:
        cases, summary = await _find(config, logs, options)
    if not cases:
        say(f"no case: {summary}; an earlier --from takes in more")
        return FAILED
    write_new(options.output, FORMATS[options.form](cases, options.name))
    say(f"{options.output}: {plural(len(cases), 'case')} as {options.form}; {summary}")
    return DONE


def _check(config: Config, options: CasesOptions) -> None:
    require_known("--as", "format", [options.form], FORMATS)
    require_known("--monitor", "monitor", [options.monitor], config.settings.monitors)
    require_known("--evaluator", "evaluator", options.evaluators, config.evaluators)
    require_window(options.since, options.until)
    if not config.settings.store_text:
        raise ConfigError("store_text is false, so the log has no texts that a case could be made of")


async def _find(config: Config, logs: Logs, options: CasesOptions) -> tuple[Sequence[SelectedCase], str]:
    """The cases, and a summary of what they were chosen from."""
    monitors = [options.monitor] if options.monitor else []
    selection = EvaluationFilter(
        since=options.since, until=options.until, monitors=monitors, evaluators=options.evaluators
    )
    scales = {name: ScoreScale.of(configured.evaluator) for name, configured in config.evaluators.items()}
    past = select([past async for past in evaluations_in(logs.evaluations)], selection, scales)
    evaluations = [evaluation.evaluation for evaluation in past.scored]
    labels = _labels_of(evaluations, await newest_labels(logs.labels))
    chosen = candidates(evaluations, labels, options.which, below=options.below, scales=scales)
    turns = await turns_in_log(logs.turns, {evaluation.subject.conversation_id for evaluation in chosen})
    lost = 0
    joined: list[SelectedCase] = []
    for case, of in _by_subject(chosen, evaluations, turns):
        if case is None:
            lost += 1
        else:
            joined.append(_selected(case, of, labels, options.which))
    few_alike = options.which != "sampled" if options.diverse is None else options.diverse
    cases, duplicates = diverse(joined, options.most) if few_alike else (joined[: options.most], 0)
    left_out = f", {plural(duplicates, 'near-duplicate')} left out" if duplicates else ""
    gone = f", {plural(lost, 'case')} no longer in the log" if lost else ""
    cut = f", only --n {options.most} are taken" if len(cases) + duplicates < len(joined) else ""
    number = f"{len(chosen):,} of {plural(len(evaluations), 'evaluation')}"
    return cases, f"{number} {_WORDS[options.which]}{left_out}{gone}{cut}"


def _labels_of(evaluations: Iterable[Evaluation], labels: Iterable[Label]) -> Mapping[str, Sequence[Label]]:
    """By evaluation, each person's label of its answer, whichever version's score was labelled; a drawn one goes
    before a picked one, and then the newest.
    """
    by_answer: dict[Hashable, dict[str | None, Label]] = {}
    for label in sorted(labels, key=lambda label: (label.label_probability is not None, label.given_at)):
        key = subject_key(label.evaluator, label.scope, label.subject)
        by_answer.setdefault(key, {})[label.given_by] = label
    return {evaluation.evaluation_id: [*by_answer.get(key_of(evaluation), {}).values()] for evaluation in evaluations}


_WORDS: dict[Which, str] = {
    "failed": "did not pass",
    "low": "scored low",
    "disagreed": "were contradicted by people",
    "sampled": "were scored",
}


def _selected(
    case: Turn | Conversation, evaluations: Sequence[Evaluation], labels: Mapping[str, Sequence[Label]], which: Which
) -> SelectedCase:
    return SelectedCase(
        case=case,
        evaluations=tuple(evaluations),
        labels=tuple(label for evaluation in evaluations for label in labels.get(evaluation.evaluation_id, ())),
        which=which,
        probability=evaluations[0].sampling.probability,
    )


def _by_subject(
    chosen: Iterable[Evaluation], every: Iterable[Evaluation], turns: Turns
) -> Iterator[tuple[Turn | Conversation | None, list[Evaluation]]]:
    """Each subject once, in the order of choice, with all its evaluations, the chosen one first."""
    by_subject = group_by(every, lambda each: (each.subject.conversation_id, each.subject.turn_id))
    seen: set[tuple[str, str | None]] = set()
    for evaluation in chosen:
        key = evaluation.subject.conversation_id, evaluation.subject.turn_id
        if key not in seen:
            seen.add(key)
            others = [other for other in by_subject[key] if other.evaluation_id != evaluation.evaluation_id]
            yield case_of(evaluation, turns), [evaluation, *others]
