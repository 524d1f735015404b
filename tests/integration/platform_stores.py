"""Stubs of platforms that keep scores by the identity that each API gives them, and answer its SDK's questions.

Each is what the platform's own SDK asks for and reads, by its types; what no API says is not there. `respond` is for
`PlatformStub`.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from aiohttp import web
from platform_stub import OPIK_SPAN, Call

NOW = datetime(2026, 5, 4, 13, tzinfo=UTC).isoformat().replace("+00:00", "Z")
PROJECT = "3f8e1c7a-5a41-4b6e-9d27-0c2b6a1f9e55"
"""LangSmith's project that has the run."""
Row = dict[str, Any]


def _path(call: Call) -> str:
    return urlsplit(call.path).path


def _query(call: Call) -> list[tuple[str, str]]:
    return parse_qsl(urlsplit(call.path).query)


def _missing() -> web.Response:
    return web.json_response({"detail": "not there"}, status=404)


class LangfuseStore:
    """A score is its id and its time: an update needs both. What is read has pages of one, with cursors."""

    def __init__(self) -> None:
        self.scores: dict[tuple[str, str], Row] = {}

    def respond(self, call: Call) -> web.Response:
        match call.method, _path(call):
            case "POST", "/api/public/scores":
                is_list = isinstance(call.body, list)
                for each in call.body if is_list else [call.body]:
                    self.scores[each["id"], each["timestamp"]] = each
                return web.json_response({"message": "Accepted"}, status=202) if is_list else web.json_response({})
            case "GET", "/api/public/v3/scores":
                return self._page(dict(_query(call)))
        return _missing()

    def _page(self, query: dict[str, str]) -> web.Response:
        wanted = {"traceId": "trace_id", "observationId": "observation_id", "sessionId": "session_id"}
        rows = [
            each
            for each in self.scores.values()
            if all(query.get(name, each.get(name)) == each.get(name) for name in wanted)
        ]
        begin = int(base64.urlsafe_b64decode(query["cursor"])) if "cursor" in query else 0
        rest = {"cursor": base64.urlsafe_b64encode(str(begin + 1).encode()).decode()} if len(rows) > begin + 1 else {}
        return web.json_response(
            {"data": [_as_langfuse(each) for each in rows[begin : begin + 1]], "meta": {"limit": 1, **rest}}
        )


def _as_langfuse(score: Row) -> Row:
    place = (
        {"kind": "session", "id": score["sessionId"]}
        if "sessionId" in score
        else {"kind": "observation", "id": score["observationId"], "traceId": score["traceId"]}
    )
    core = {name: score[name] for name in ("id", "name", "value", "dataType", "timestamp")}
    times = {"createdAt": NOW, "updatedAt": NOW, "environment": score.get("environment", "default")}
    details = {"comment": score.get("comment"), "metadata": score.get("metadata"), "configId": None}
    return {**core, **times, "projectId": "p", "source": "API", **details, "subject": place}


class LangSmithStore:
    """Feedback by its id. As its newest deployments, it finds no run without the project, and takes four decimals."""

    def __init__(self) -> None:
        self.feedback: dict[str, Row] = {}

    def respond(self, call: Call) -> web.Response:
        match call.method, _path(call).split("/"):
            case "GET", ["", "info"]:
                return web.json_response(
                    {"version": "0.16.0", "instance_flags": {"ch_query_enabled": False, "sdb_query_enabled": True}}
                )
            case "POST", ["", "feedback"]:
                return self._take(call.body)
            case "GET", ["", "feedback"]:
                return self._page(_query(call))
            case "GET", ["", "feedback", name]:
                known = self.feedback.get(name)
                return _missing() if known is None else web.json_response(known)
        return _missing()

    def _take(self, sent: Row) -> web.Response:
        score = sent.get("score")
        if sent.get("session_id") != PROJECT or score != (score and round(score, 4)):
            return web.json_response({"detail": "session_id, or decimal places of score"}, status=422)
        self.feedback[sent["id"]] = {"trace_id": None, "correction": None, **sent}
        return web.json_response(self.feedback[sent["id"]])

    def _page(self, query: list[tuple[str, str]]) -> web.Response:
        known, runs = dict(query), [value for name, value in query if name == "run"]
        rows = [each for each in self.feedback.values() if each["run_id"] in runs]
        begin = int(known.get("offset", 0))
        return web.json_response(rows[begin : begin + int(known["limit"])])


class OpikStore:
    """A score of a span or thread is its name and its author. It knows the span of the samples, and its thread."""

    def __init__(self) -> None:
        self.scores: dict[tuple[str, str, str], Row] = {}
        self.looked_up: list[dict[str, str]] = []

    def respond(self, call: Call) -> web.Response:
        match call.method, _path(call):
            case "PUT", "/v1/private/spans/feedback-scores":
                return self._take(call.body["scores"], "id")
            case "PUT", "/v1/private/traces/threads/feedback-scores":
                return self._take(call.body["scores"], "thread_id")
            case "GET", "/v1/private/spans":
                self.looked_up.append(dict(_query(call)))
                [chosen] = json.loads(self.looked_up[-1]["filters"])
                is_there = OPIK_SPAN.endswith(chosen["value"])
                return web.json_response({"page": 1, "size": 1, "content": [self._span()] if is_there else []})
            case "GET", path if path == f"/v1/private/spans/{OPIK_SPAN}":
                return web.json_response(self._span())
            case "POST", "/v1/private/spans/search":
                return self._stream([self._span()], call.body.get("last_retrieved_id"))
            case "POST", "/v1/private/traces/threads/search":
                thread = {"id": "visit-7", "feedback_scores": self._of("visit-7")}
                return self._stream([thread], call.body.get("last_retrieved_thread_model_id"))
        return web.json_response({})

    def _take(self, scores: Iterable[Row], place: str) -> web.Response:
        for each in scores:
            self.scores[each[place], each["name"], "we"] = each
        return web.Response(status=204)

    def _of(self, place: str) -> list[Row]:
        named = ("name", "value", "category_name", "reason", "source")
        rows = [score for (of, _name, _author), score in self.scores.items() if of == place]
        return [{name: each.get(name) for name in named} | {"created_by": "we"} for each in rows]

    def _span(self) -> Row:
        return {"id": OPIK_SPAN, "start_time": NOW, "feedback_scores": self._of(OPIK_SPAN)}

    @staticmethod
    def _stream(rows: list[Row], after: str | None) -> web.Response:
        lines = [] if after else [json.dumps(each) + "\r\n" for each in rows]
        return web.Response(text="".join(lines), content_type="application/octet-stream")


class WeaveStore:
    """Feedback replaces that of the same project, ref, user and id."""

    def __init__(self) -> None:
        self.feedback: dict[tuple[str, str, str], Row] = {}

    def respond(self, call: Call) -> web.Response:
        match call.method, _path(call):
            case "POST", "/feedback/create":
                sent = call.body
                row = {"wb_user_id": "u", "creator": None, "created_at": NOW, **sent}
                self.feedback[sent["project_id"], sent["weave_ref"], sent["id"]] = row
                return web.json_response({name: row[name] for name in ("id", "created_at", "wb_user_id", "payload")})
            case "POST", "/feedback/query":
                rows = [each for each in self.feedback.values() if each["project_id"] == call.body["project_id"]]
                chosen = [each for each in rows if _weave_holds(call.body["query"]["$expr"], each)]
                return web.json_response({"result": chosen, "total_count": len(chosen)})
        return _missing()


def _weave_holds(expression: Any, row: Row) -> Any:
    [(operator, value)] = expression.items()
    match operator:
        case "$and":
            return all(_weave_holds(each, row) for each in value)
        case "$eq":
            left, right = (_weave_holds(each, row) for each in value)
            return left == right
        case "$literal":
            return value
        case "$getField":
            return row[value]
    raise AssertionError(f"unknown: {operator}")


class BraintrustStore:
    """A row of a project's logs replaces that of its id, unless it is to be merged. `address` is where it is served."""

    def __init__(self) -> None:
        self.address: Callable[[], str] = str
        self.rows: dict[str, Row] = {}

    def respond(self, call: Call) -> web.Response:
        match call.method, _path(call):
            case "POST", "/api/apikey/login":
                address = self.address()
                organization = {
                    "id": "o",
                    "name": "shop",
                    "api_url": address,
                    "proxy_url": address,
                    "git_metadata": None,
                }
                return web.json_response(
                    {"org_info": [{**organization, "realtime_url": None, "is_universal_api": True}]}
                )
            case "POST", "/v1/project_logs/p-1/insert":
                events = call.body["events"]
                self.rows |= {each["id"]: {**each, "project_id": "p-1", "_xact_id": "1000"} for each in events}
                return web.json_response({"row_ids": [each["id"] for each in events]})
            case "POST", "/btql":
                query = call.body["query"]
                [source] = query["from"]["args"]
                assert (query["from"]["name"]["name"], source["value"]) == (["project_logs"], "p-1")
                rows = [each for each in self.rows.values() if _btql(query["filter"], each)]
                return web.json_response({"data": rows, "cursor": None})
        return _missing()


def _btql(expression: Any, row: Row) -> Any:
    match expression:
        case {"op": "and", "children": children}:
            return all(_btql(each, row) for each in children)
        case {"op": "or", "children": children}:
            return any(_btql(each, row) for each in children)
        case {"op": "eq" | "ne" as operator, "left": left, "right": right}:
            return (_btql(left, row) == _btql(right, row)) == (operator == "eq")
        case {"op": "isnull" | "isnotnull" as operator, "expr": inner}:
            return (_btql(inner, row) is None) == (operator == "isnull")
        case {"op": "in", "left": left, "right": right}:
            return _btql(left, row) in _btql(right, row)
        case {"op": "literal", "value": value}:
            return value
        case {"op": "ident", "name": names}:
            value: Any = row
            for each in names:
                value = value.get(each) if isinstance(value, dict) else None
            return value
    raise AssertionError(f"unknown: {expression}")
