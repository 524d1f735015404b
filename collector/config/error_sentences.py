"""Sentences for mistakes in a configuration: the path in the file, and what to write instead.

They are made of validation errors, and of what no single key shows: cascades of cascades, and ports that two listeners
would share.
"""

import re
import types
import typing
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from collector.config.settings import Settings
from collector.wording import lowered, requirement, suggestion, unknown
from evaluators.descriptions import described_fields

_MAPPINGS = frozenset({"dict_type", "model_type", "model_attributes_type"})
_MEMBERS = frozenset({"str", "int", "float", "bool"})
_NAMED = re.compile(r"'([^']*)'")
_JOINED = re.compile(r"\w+:\S")
_AMOUNT = re.compile(r"[$€]? ?(\d{1,9}(?:[.,]\d{1,9})?) ?(?:USD|EUR|[$€])?")
_ADDRESS = re.compile(r"([\w.-]+):(\d{1,5})")
_HABITS: Mapping[str, str] = {
    "topic": "traces, logs or turns", "topics": "traces, logs or turns", "endpoint": "host and port",
    "otlp": "otlp_http or otlp_grpc", "http": "otlp_http", "grpc": "otlp_grpc", "brokers": "bootstrap_servers",
    "api_base": "base_url", "sampling_rate": "sample", "metrics": "evaluators", "prompt": "criteria",
}  # fmt: skip
"""Names that other programs have for a key."""
Keys = Sequence[str | int]
"""A path within the file, or keys of one place in it."""
_PERCENT = re.compile(r"\s*(\d{1,3}(?:\.\d+)?)\s*%\s*")


def error_sentences(error: ValidationError, model: type[BaseModel], prefix: Keys = (), beside: Keys = ()) -> list[str]:
    """One sentence per mistake, unknown keys first: a key that is misspelt is often why another is missing.

    `prefix` is the path of the validated part within the file; it may have the keys `beside` those of the model, too.
    """
    details = error.errors(include_url=False)
    details.sort(key=lambda detail: detail["type"] != "extra_forbidden")
    places = [path_text(detail["loc"]) for detail in details]
    sentences: dict[str, str] = {}
    for where, detail in zip(places, details, strict=True):
        if (detail["loc"][-1:] == ("str",) or detail["type"] == "too_short") and any(
            place.startswith((f"{where}.", f"{where}[")) for place in places
        ):
            continue  # the intended type has mistakes, too, and those are told
        sentence = _sentence(detail, model, prefix, beside)
        if detail["type"] == "missing" and any(
            f"did you mean {detail['loc'][-1]!r}" in sentence for sentence in sentences.values()
        ):
            continue
        if where in sentences and detail["type"] in _MAPPINGS:
            requirement_before, separator, remedy = sentences[where].partition("; ")
            sentence = f"{requirement_before}, or a mapping{separator}{remedy}"
        if where not in sentences or detail["type"] in _MAPPINGS:
            sentences[where] = sentence
    return list(sentences.values())


def path_text(path: Keys) -> str:
    """`('receive', 'kafka', 0, 'topic')` as `receive.kafka[0].topic`."""
    text = ""
    for part in path:
        if isinstance(part, str) and ("[" in part or part[:1].isupper() or part in _MEMBERS):
            continue  # a member of a union, by the name that pydantic gives it
        text += f"[{part}]" if isinstance(part, int) else f".{part}"
    return text.lstrip(".")


_HTTP = len("^https?://")
_FORMS = {
    "^https?://": "must begin with http:// or https://",
    "^[a-zA-Z_]": "a name here has letters, digits and _ alone, like team_x",
    "^[A-Za-z0-": "a name here has letters, digits, - and _ alone (a prefix of topics may have . too), like team-x",
}
"""Requirements, by the beginning of their pattern."""


def _sentence(detail: ErrorDetails, model: type[BaseModel], prefix: Keys, beside: Keys) -> str:
    path = [*prefix, *detail["loc"]]
    match detail["type"]:
        case "extra_forbidden":
            *above, key = detail["loc"]
            known = sorted({*_fields_at(model, above), *map(str, () if above else beside)})
            return f"{path_text(path)}: {_unknown_key(str(key), known, ' or '.join(_inner_keys(model, detail['loc'])))}"
        case "missing":
            return f"{path_text(path)}: is missing; {_example(model, detail['loc'])}"
        case "string_pattern_mismatch":
            form = _FORMS.get(str(detail.get("ctx", {}).get("pattern", ""))[:_HTTP], "")
            example = _example(model, detail["loc"])
            return f"{path_text(path)}: {form if form and 'http' not in example else f'has the wrong form; {example}'}"
        case "dict_type" | "model_type" | "model_attributes_type":
            keys = list(_fields_at(model, detail["loc"]))[:3]
            some = f" such as {', '.join(keys)}" if keys else f"; write {detail['loc'][-1]}: {{NAME: …}}"
            joined = isinstance(detail["input"], str) and _JOINED.match(detail["input"])
            space = "; a space is missing after its colon" if joined else ""
            return f"{path_text(path) or 'the file'}: must be a mapping, with key: value{some}{space}"
        case "list_type" | "tuple_type":
            value, key = detail.get("input"), next((part for part in reversed(path) if isinstance(part, str)), "key")
            # The value may be a secret, so it is not repeated.
            example = f"write {key}: […]" if isinstance(value, str | int | float) else "begin each item with -"
            return f"{path_text(path)}: must be a list; {example}"
        case _:
            where = path_text(path)
            own = detail["msg"].removeprefix("Value error, ").removeprefix("Assertion failed, ")
            message = (requirement(detail) or own) + _remedy(detail)
            return f"{where}: {lowered(message)}" if where else message


def _example(model: type[BaseModel], loc: Keys) -> str:
    field = _fields_at(model, loc[:-1]).get(str(loc[-1]))
    return f"needed: {lowered(field).rstrip('.')}" if field else f"write {loc[-1]}: …"


def _inner_keys(model: type[BaseModel], loc: Keys) -> Iterator[str]:
    """The keys beside an unknown one that hold a key of its name."""
    section, name = _model_in(_annotation_at(model, loc[:-1])), str(loc[-1])
    for key, field in section.model_fields.items() if section else ():
        inner = _model_in(field.annotation) or _model_in(_item_of(field.annotation))
        if inner is not None and name in inner.model_fields:
            yield key


def _unknown_key(key: str, known: Sequence[str], inner: str) -> str:
    """The sentence on a key that is none of `known`; those of `inner` hold one of its name."""
    if any(sign.isspace() and sign != " " for sign in key):
        return "a space that is none to YAML (a no-break space) stands before it or in it; write plain spaces"
    if ":" in key and key.partition(":")[0] in known:
        return f"a space is missing after the colon; write {key.partition(':')[0]}: …"
    meant = _HABITS.get(key, "")
    if meant.replace(",", " ").split(" ")[0] in known:
        return f"unknown key; write {meant}"
    return f"unknown key; {f'write it within {inner}' if inner else suggestion(key, known)}"


def _remedy(detail: ErrorDetails) -> str:
    """The advice for values that YAML or habit makes of what was meant: a share in percent, yes and no, a near name."""
    value, expected = detail.get("input"), str(detail.get("ctx", {}).get("expected", ""))
    if detail["type"] in ("string_type", "path_type") and isinstance(value, bool):
        return "; yes, no, on and off are true and false in YAML: write it in quotes"
    if detail["type"] == "literal_error" and isinstance(value, str):
        near = get_close_matches(value, _NAMED.findall(expected), n=1)
        return f"; did you mean {near[0]!r}?" if near else ""
    if isinstance(value, int | float):
        in_percent = detail.get("ctx", {}).get("le") == 1 and 1 < value <= 100
        as_share = f"; for {value:g} % write {value / 100:g}" if in_percent else ""
        as_share += f", for {value:g} of 10 {value / 10:g}" if as_share and value <= 10 else ""
        return f'; write "{value}" in quotes' if detail["type"] == "string_type" else as_share
    if not isinstance(value, str):
        return ""
    if percent := _PERCENT.fullmatch(value):
        return f"; for {value} write {float(percent[1]) / 100:g}"
    if (amount := _AMOUNT.fullmatch(value)) and amount[1].replace(",", ".") != value:
        return f"; for {value} write {amount[1].replace(',', '.')}"
    if detail["type"] == "int_parsing" and (address := _ADDRESS.fullmatch(value)):
        return f"; write host: {address[1]} and port: {address[2]}"
    return ""


def _fields_at(model: type[BaseModel], loc: Keys) -> Mapping[str, str]:
    """The keys, with their descriptions, of the model at a path."""
    section = _model_in(_annotation_at(model, loc))
    fields = described_fields(section).items() if section else ()
    return {name: " ".join((field.description or "…").split()) for name, field in fields}


def _annotation_at(model: type[BaseModel], loc: Keys) -> Any:
    current: Any = model
    for part in loc:
        section = _model_in(current)
        if section is not None and str(part) in section.model_fields:
            current = section.model_fields[str(part)].annotation
        elif section is None:
            current = _item_of(current)
    return current


def _model_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        return next((model for get_arg in typing.get_args(annotation) if (model := _model_in(get_arg))), None)
    return None


def _item_of(annotation: Any) -> Any:
    arguments = typing.get_args(annotation)
    return arguments[-1] if arguments else annotation


def cascade_mistakes(settings: Settings) -> Iterator[str]:
    """One sentence for each mistake."""
    known = sorted({*settings.judges, *settings.juries})
    for name, cascade in settings.cascades.items():
        if name in known:
            yield f"cascades.{name}: a judge or a jury has this name too; rename the cascade"
        for key, judge in (("first", cascade.first), ("then", cascade.then)):
            if judge in settings.cascades:
                yield f"cascades.{name}.{key}: {judge} is a cascade itself; name a judge or a jury"
            elif judge not in known:
                yield f"cascades.{name}.{key}: {unknown('judge', judge, known)}"
        if cascade.first == cascade.then:
            yield f"cascades.{name}.then: is the same as first; name a stronger judge, or write judge: {cascade.first}"


_EVERYWHERE = frozenset({"0.0.0.0", "::", ""})  # noqa: S104 - compared with, not listened on
_SAME = {"localhost": "127.0.0.1"}


def port_mistakes(settings: Settings, exporters: Mapping[str, BaseModel]) -> Iterator[str]:
    """One line for each port that belongs to a listener before it in the file's order: receive, export, page."""
    listeners: list[tuple[str, str, int]] = []
    for where, listener in _listeners(settings, exporters):
        host, port = getattr(listener, "host", None), getattr(listener, "port", None)
        if not isinstance(host, str) or not isinstance(port, int) or port == 0:
            continue
        for other, other_host, other_port in listeners:
            if port == other_port and _overlap(host, other_host):
                yield f"{where}.port: {port} is the port of {other}, too; choose another one"
                break
        listeners.append((where, host, port))


def _listeners(settings: Settings, exporters: Mapping[str, BaseModel]) -> Iterator[tuple[str, Any]]:
    yield "receive.otlp_http", settings.receive.otlp_http
    yield "receive.otlp_grpc", settings.receive.otlp_grpc
    yield from ((f"export.{name}", exporter) for name, exporter in exporters.items())
    yield "page", settings.page


def _overlap(host: str, other: str) -> bool:
    return _SAME.get(host, host) == _SAME.get(other, other) or not _EVERYWHERE.isdisjoint((host, other))
