"""Lines of `check` about traffic: the counts of a service that runs here, from its /metrics, and traces in files.

Counts are turns and evaluations of each monitor by outcome. For traces it names the text that no dialect reads, with
the remedy in the configuration.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import cast

from prometheus_client.parser import text_string_to_metric_families

from collector.assemble.collect_trace import TracePiece
from collector.assemble.unread.examination import examine
from collector.commands.normalize import describe_unread, pieces_in
from collector.config.configured import Config
from collector.config.live_part import is_live
from collector.config.section_hashes import differing, section_hashes, with_secrets_set
from collector.config.yaml_file import unset_variables
from collector.errors import ConfigError
from collector.evaluate.outcomes import resumed_here
from collector.judging.batches import at_batch_prices
from collector.plugins.registry import installed_packages
from collector.receive.files import files_in, first_unreadable
from collector.records.grouping import group_by
from collector.service.assembly_builder import build_assembler
from collector.service.plan_builder import strata_of, tokens_usd
from collector.telemetry import series
from collector.wording import listed, plural
from evaluators.results import SkipReason, Usage
from evaluators.wire.http_client import ask_blocking

_FUNNEL = tuple(
    each.name for each in (series.TURNS, series.UNMATCHED_TURNS, series.EVALUATIONS_DUE, series.EVALUATIONS_ENDED)
)

Counts = dict[tuple[str, str], dict[str, float]]
"""Counts by outcome, by monitor and evaluator ("" for the turns themselves)."""


def traffic(config: Config) -> Iterator[str]:
    """Lines of the plan: the counts of the service with this configuration since its start, if it is reachable."""
    metrics, problem = running_metrics(config)
    if problem:
        yield f"traffic    unknown ({problem})"
        return
    counts = parse_counts(metrics)
    for name, variables in unset_secrets(config, _sections(metrics)).items():
        yield f"traffic    {name} is compared without its secrets; not set here: {listed(variables)}"
    yield from (f"traffic    the service says: {problem}" for problem in running_problems(config))
    if config.settings.log.kind == "kafka":
        yield "traffic    counts of this process; its stages may read different partitions, so counts need not add up;"
        yield "           evalstream audit adds up those of all processes"
    yield from arrival_lines(metrics, has_turns=any(any(counts[key].values()) for key in counts if not key[1]))
    yield from count_lines(config, counts)
    yield from boost_lines(config, metrics)
    yield from letter_lines(metrics)


def running_metrics(config: Config) -> tuple[str, str]:
    """The text of /metrics of the service that runs with this configuration on this machine; else "" and the reason."""
    text, sections, problem = running_sections(config)
    if not problem and (other := differing(section_hashes(config), sections)):
        problem = _difference(config, other, "; to run beside that service, this file needs other ports")
    return ("", problem) if problem else (text, "")


def _difference(config: Config, sections: Sequence[str], otherwise: str = "") -> str:
    live, refusal = all(map(is_live, sections)), running_refusal(config)
    by_itself = "it refused a change of its file" if refusal else "it takes changes of its file within seconds"
    remedy = by_itself if live else "to take this file, restart that service"
    names = ["the code of plug-ins" if name == "plugins" and config.settings.plugins else name for name in sections]
    differ = f"{listed(names)} {'differs' if len(names) == 1 else 'differ'}; {remedy}{otherwise}"
    return f"{_service(config)} has another configuration: {differ}{refusal and f'. That service says: {refusal}'}"


def _service(config: Config) -> str:
    return f"the service on port {config.exporters['prometheus'].model_dump()['port']}"


def service_difference(config: Config, versions: Mapping[tuple[str, str], str]) -> str:
    """Why the service on this machine would judge by other versions, of a monitor and an evaluator, than these; "" if
    it would not, or none answers.
    """
    text, sections, _ = running_sections(config)
    running, other = running_versions(text), differing(section_hashes(config), sections) if sections else []
    wrong = sorted({use[1] for use, version in versions.items() if running and version not in running.get(use, ())})
    if "plugins" in other or (wrong and other):
        return _difference(config, other)
    return f"{_service(config)} has other code of {listed(wrong)}; restart it" if wrong else ""


def unset_secrets(config: Config, running: Mapping[str, str]) -> dict[str, list[str]]:
    """The sections that differ only as secrets are not set here, with the environment variables of these."""
    ours, as_if_set = section_hashes(config), section_hashes(with_secrets_set(config))
    only = [name for name in differing(ours, running) if as_if_set.get(name) == running.get(name)]
    return {name: variables for name in only if (variables := unset_variables(Path(config.source), name))}


def running_sections(config: Config) -> tuple[str, dict[str, str], str]:
    """Read /metrics on this machine: its text, the hashes of the running sections, and why there are none.

    A section that differs only as secrets are not set here has the hash of the file.
    """
    exporter = config.prometheus
    if exporter is None or not exporter.port:
        return "", {}, "no port is configured for /metrics"
    text = _answer(exporter.host, exporter.port, "metrics")
    if text is None:
        return "", {}, f"no service answers on /metrics, port {exporter.port}"
    sections = _sections(text)
    if not sections:
        return "", {}, f"what answers on port {exporter.port} is no service of this version; set export.prometheus.port"
    ours = section_hashes(config)
    return text, sections | {name: ours[name] for name in unset_secrets(config, sections)}, ""


def spent_so_far(metrics: str) -> dict[str, tuple[float, float]]:
    """The cost of each evaluator's priced requests, in US dollars, and their number, in the text of /metrics.

    The number is as if those evaluations had asked, too, that were skipped for what their subjects are.
    """
    counters = series.JUDGE_COST, series.JUDGE_CALLS, series.JUDGE_UNPRICED_CALLS
    costs, calls, unpriced = (_sums(metrics, of, "evaluator") for of in counters)
    share = _shares_with_calls(metrics)
    names = costs.keys() & calls.keys()
    return {name: (costs[name], (calls[name] - unpriced.get(name, 0)) / share.get(name, 1.0)) for name in names}


def _shares_with_calls(metrics: str) -> dict[str, float]:
    """The shares of evaluations that asked, of those that were not refused, where any did."""
    subjects, without = Counter[str](), Counter[str]()
    for key, number in _sums(metrics, series.EVALUATIONS, "evaluator", "outcome", "reason").items():
        name, _, ended = key.partition(" ")
        if ended not in _REFUSED:
            subjects[name] += round(number)
            without[name] += round(number) * (ended in _NO_CALL)
    return {name: 1.0 - without[name] / of_all for name, of_all in subjects.items() if of_all > without[name]}


_REFUSED = frozenset({f"skipped {SkipReason.OVER_BUDGET}", f"skipped {SkipReason.SHED}"})
_NO_CALL = frozenset(f"skipped {reason}" for reason in {*SkipReason} - {SkipReason.GATED, SkipReason.NOT_COMPLETED})
"""Skips by what subjects are; of a gate, and of whether a task was completed, there was a call."""


def spent_at_present(config: Config, metrics: str) -> dict[str, tuple[float, float]]:
    """The cost and number of each evaluator's requests so far, at its present judge's prices: others may have answered
    before. It is what was paid if several judges answer an evaluator, or some in batches and some at once.
    """
    spent = spent_so_far(metrics)
    for name, usage in tokens_so_far(metrics).items():
        monitors = config.settings.monitors.values()
        urgencies = {monitor.urgency for monitor in monitors if name in [use.name for use in monitor.uses]}
        priced = at_batch_prices(config) if urgencies == {"hours"} else config
        if len(urgencies) == 1 and (paid := tokens_usd(priced, name, usage)) is not None:
            spent[name] = paid, usage.calls
    return spent


def tokens_so_far(metrics: str) -> dict[str, Usage]:
    """The tokens of each evaluator's requests, and their number as in `spent_so_far`, in the text of /metrics."""
    share = _shares_with_calls(metrics)
    tokens = _sums(metrics, series.JUDGE_TOKENS, "evaluator", "direction")
    tokens |= _sums(metrics, series.JUDGE_CACHED_TOKENS, "evaluator", "cache")
    return {
        name: Usage(
            input_tokens=round(tokens.get(f"{name} input", 0)), output_tokens=round(tokens.get(f"{name} output", 0)),
            cached_input_tokens=round(tokens.get(f"{name} read", 0)),
            cache_write_tokens=round(tokens.get(f"{name} write", 0)), calls=round(calls / share.get(name, 1.0)),
        )
        for name, calls in _sums(metrics, series.JUDGE_CALLS, "evaluator").items()
    }  # fmt: skip


def running_problems(config: Config) -> list[str]:
    """The present problems of the service with this configuration on this machine, as /readyz says them."""
    exporter = config.prometheus
    text = _answer(exporter.host, exporter.port, "readyz") if exporter is not None and exporter.port else None
    with suppress(ValueError, TypeError, KeyError):
        return [str(problem) for problem in json.loads(text or "")["problems"]]
    return []


def running_refusal(config: Config) -> str:
    """The sentence of the service on this machine about a configuration that it refuses at present; "" for none."""
    refused = (problem for problem in running_problems(config) if "configuration refused" in problem)
    return next(refused, "").removeprefix("configuration: ")


def _sections(text: str) -> dict[str, str]:
    """The hashes of the running configuration's sections, in the text of /metrics."""
    try:
        return {labels["section"]: labels["hash"] for labels in _labels(text, series.CONFIG_SECTION_INFO)}
    except ValueError:  # no metrics at all
        return {}


def running_versions(metrics: str) -> dict[tuple[str, str], list[str]]:
    """The versions in use, by monitor and evaluator, in the text of /metrics: that of a fallback judge as well."""
    uses = group_by(_labels(metrics, series.EVALUATOR_INFO), lambda labels: (labels["monitor"], labels["evaluator"]))
    return {use: sorted(labels["evaluator_version"] for labels in of_use) for use, of_use in uses.items()}


def other_packages(metrics: str) -> dict[str, str]:
    """The packages with evaluators, by module, that the service lacks or has in another version, in the text of
    /metrics.
    """
    running = {(labels["package"], labels["version"]) for labels in _labels(metrics, series.PACKAGE_INFO)}
    packages = installed_packages().items() if metrics else ()
    return {module: " ".join(package) for module, package in packages if package not in running}


def lacks_exporters(metrics: str) -> bool:
    """Whether the process of this text of /metrics runs other stages alone, so that it counts no cost."""
    return bool(metrics) and "export" not in [labels["stage"] for labels in _labels(metrics, series.STAGE_UP)]


def _labels(metrics: str, gauge: series.Series) -> list[Mapping[str, str]]:
    """The labels of a gauge's samples that are not 0."""
    families = (family for family in text_string_to_metric_families(metrics) if family.name == gauge.name)
    return [sample.labels for family in families for sample in family.samples if sample.value]


def parse_counts(text: str) -> Counts:
    """The counts in the text of /metrics."""
    counts: Counts = {}
    for family in text_string_to_metric_families(text):
        if f"{family.name}_total" not in _FUNNEL:
            continue
        for sample in family.samples:
            labels = cast("Mapping[str, str]", sample.labels)
            outcome = labels.get("origin") or labels.get("outcome", "unmatched")
            reason = f" ({labels['reason']})" if labels.get("reason") else ""
            outcomes = counts.setdefault((labels.get("monitor", ""), labels.get("evaluator", "")), {})
            outcomes[outcome + reason] = outcomes.get(outcome + reason, 0.0) + sample.value
    return counts


def arrival_lines(metrics: str, *, has_turns: bool) -> Iterator[str]:
    """The items received, how many of them dialects read, and unread text: everything before a turn."""
    requests = _sums(metrics, series.RECEIVE_REQUESTS, "status")
    refused = {f"with {status}": number for status, number in requests.items() if status not in _ACCEPTED}
    came = {
        name.replace("traces ", "spans " if number != 1 else "span ").replace("logs ", "log records "): number
        for name, number in _sums(metrics, series.RECEIVE_ITEMS, "signal", "result").items()
    }
    if came or refused or not has_turns:  # a process of other stages has turns alone
        others = f"; requests refused: {_listed(refused)}" if refused else ""
        yield f"traffic    received by this process since its start: {_listed(came) or 'nothing'}{others}"
    if read := _sums(metrics, series.SPANS_READ, "dialect"):
        none = read.pop("none", 0.0)
        by = f", {none:.0f} others are no model calls of a known library" if none else ""
        yield f"           spans read: {_listed(read) or 'none'}{by}"
    if turns := _sums(metrics, series.TURNS_ASSEMBLED, "outcome", "reason"):
        yield f"           turns made: {_listed(turns)}"
    if opened := round(sum(_sums(metrics, series.OPEN_TRACES).values())):
        yield f"           {plural(opened, 'trace')} open: turns come a while after a trace's last span"
    for scope in _sums(metrics, series.UNREAD_TEXT, "scope"):
        yield f"           no dialect reads text of {scope}: evalstream explain TRACE_ID shows what helps"


_ACCEPTED = frozenset({"200", "OK"})
_ORIGINS = frozenset({"matched", "resumed", "retried", "backfilled"})
"""The origins of `evalstream_evaluations_due_total`."""


def _sums(metrics: str, counter: series.Series, *labels: str) -> dict[str, float]:
    """The sums of a counter that are not 0, by the labels that are not empty."""
    sums: dict[str, float] = {}
    for sample in (each for family in text_string_to_metric_families(metrics) for each in family.samples):
        if sample.name == counter.name and sample.value:
            name = " ".join(filter(None, (sample.labels.get(label, "") for label in labels)))
            sums[name] = sums.get(name, 0.0) + sample.value
    return sums


def count_lines(config: Config, counts: Counts) -> Iterator[str]:
    """The counts in words, and the reason for each evaluator that has not run since the start."""
    if unmatched := counts.get(("", ""), {}).get("unmatched", 0):
        yield f"traffic    {plural(round(unmatched), 'turn')} matched no monitor"
    came = any(any(numbers.values()) for (_, evaluator), numbers in counts.items() if not evaluator)
    for name, monitor in config.settings.monitors.items():
        turns = {what: number for what, number in counts.get((name, ""), {}).items() if number}
        yield f"traffic    {name}: turns {_listed(turns) or ('none matched' if came else 'none yet')}"
        for use in monitor.uses:
            every = counts.get((name, use.name), {})
            again = resumed_here(every)
            once = {name: number - again * (name in {"resumed", "reassigned"}) for name, number in every.items()}
            evaluations = {outcome: number for outcome, number in once.items() if number}
            yield f"           - {use.name}: {_outcomes(evaluations) or _why(config, use.name, turns, came=came)}"


def boost_lines(config: Config, metrics: str) -> Iterator[str]:
    """The boosts that no judged turn has met; none before something was judged."""
    judged = _labels(metrics, series.SAMPLING_PROBABILITY)
    for name, monitor in config.settings.monitors.items():
        met = {labels["stratum"] for labels in judged if labels["monitor"] == name}
        boosts = [boost.stratum for boost in strata_of(monitor.boost, config).boosts]
        if met and (unmet := [stratum for stratum in boosts if stratum not in met]):
            yield f"traffic    {name}: no judged turn has met the boost {' or '.join(unmet)}"


def _outcomes(counts: Mapping[str, float]) -> str:
    """How many evaluations were due, and how they ended."""
    due = {origin: number for origin, number in counts.items() if origin in _ORIGINS}
    ended = {outcome: number for outcome, number in counts.items() if outcome not in _ORIGINS}
    waiting = {"not ended yet": left} if (left := sum(due.values()) - sum(ended.values())) > 0 else {}
    origins = f" ({_listed(due)})" if due.keys() - {"matched"} else ""
    return f"{sum(due.values()):.0f} in all{origins}: {_listed(ended | waiting)}" if due else _listed(ended)


def letter_lines(metrics: str) -> Iterator[str]:
    """How many records each stage could not process: what came and is in no turn."""
    by_stage = _sums(metrics, series.DEAD_LETTERS, "stage")
    if counts := ", ".join(f"{number:.0f} by {stage}" for stage, number in by_stage.items()):
        yield f"           dead-lettered, as they could not be processed: {counts}; why: evalstream dead-letters list"


def _why(config: Config, evaluator: str, turns: Mapping[str, float], *, came: bool) -> str:
    if turns and config.evaluators[evaluator].evaluator.scope != "conversation":
        return "not run since this start"
    none = "no turn matched its monitor" if came else "no turn is complete yet"
    return f"not run since this start: {'no sampled conversation has ended yet' if turns else none}"


def _listed(counts: Mapping[str, float]) -> str:
    return ", ".join(f"{number:.0f} {what}" for what, number in counts.items())


def _answer(host: str, port: int, path: str) -> str | None:
    url = f"http://{'127.0.0.1' if host in {'0.0.0.0', '::'} else host}:{port}/{path}"  # noqa: S104
    try:
        return ask_blocking(url, None, {"Accept": "*/*"}, timeout=2.0, proxied=False).decode()
    except (OSError, ValueError):
        return None


MOST_TRACES = 200
"""Traces that are examined; the first of them."""
_LARGEST = 20_000_000
"""Bytes of a file of `receive.files` that is examined without being named."""


def trace_lines(config: Config, named: Sequence[Path] = ()) -> Iterator[str]:
    """The findings about the named files; without any, of those that `receive.files` has, and only what is wrong.

    Raises:
        ConfigError: a named file does not exist or has other content.
    """
    settings = config.settings
    unread: Counter[str] = Counter()
    traces = pieces_in(named, 0, unread) if named else _pieces_of_received(map(Path, settings.receive.files))
    first = list(islice(traces.values(), MOST_TRACES))
    examination = examine(first, build_assembler(settings.assemble, settings.dialects)) if first else None
    if examination:
        yield ""
        yield f"traces     of {len(first)} traces:"
        yield from (f"           {line}" for line in examination.lines())
    elif named:
        yield f"traces     of {len(first)} traces no text is unread" if first else "traces     there are none"
    if unread:
        yield f"           {describe_unread(unread)}"
    files = () if named else _files_of(map(Path, settings.receive.files))
    yield from (f"files      {mistake}" for mistake in filter(None, map(first_unreadable, files)))


def _pieces_of_received(paths: Iterable[Path]) -> dict[str, list[TracePiece]]:
    """The pieces of traces in files that may also hold other things, or not be there yet: those are passed over."""
    traces: dict[str, list[TracePiece]] = {}
    for file in _files_of(paths):
        if file.stem.endswith((".references", ".feedback")):
            continue
        with suppress(ConfigError):
            for trace_id, pieces in pieces_in([file]).items():
                traces.setdefault(trace_id, []).extend(pieces)
    return traces


def _files_of(paths: Iterable[Path]) -> Iterator[Path]:
    with suppress(ConfigError):
        files = files_in([path for path in paths if path.exists()])
        yield from (file for file in files if file.is_file() and file.stat().st_size <= _LARGEST)
