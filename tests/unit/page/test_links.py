from __future__ import annotations

import json
from urllib.parse import parse_qs, urlsplit

import pytest
from pydantic import ValidationError

from collector.page.settings import TraceLinkSettings

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


@pytest.mark.parametrize(
    ("settings", "link"),
    [
        ({"kind": "jaeger", "url": "http://j:16686/"}, f"http://j:16686/trace/{TRACE}?uiFind={SPAN}"),
        ({"kind": "phoenix", "url": "https://p"}, f"https://p/redirects/spans/{SPAN}"),
        ({"kind": "langfuse", "url": "https://l", "project": "cx1"}, f"https://l/project/cx1/traces/{TRACE}?observation={SPAN}"),
        ({"kind": "template", "url": "https://t/a?t={trace_id}&s={span_id}"}, f"https://t/a?t={TRACE}&s={SPAN}"),
    ],
)  # fmt: skip
def test_leads_to_the_span(settings, link):
    assert TraceLinkSettings(**settings).link(TRACE, SPAN) == link


@pytest.mark.parametrize("kind", ["grafana", "tempo"])
def test_grafana_explores_the_trace_in_the_data_source(kind):
    link = TraceLinkSettings(kind=kind, url="https://g/sub", datasource="traces-1").link(TRACE, SPAN)
    assert link.startswith("https://g/sub/explore?")
    (pane,) = json.loads(parse_qs(urlsplit(link).query)["panes"][0]).values()
    assert pane["datasource"] == "traces-1"
    assert pane["queries"][0]["query"] == TRACE


def test_without_a_span_it_leads_to_the_trace():
    assert TraceLinkSettings(kind="phoenix", url="https://p").link(TRACE, None) == f"https://p/redirects/traces/{TRACE}"
    assert TraceLinkSettings(kind="jaeger", url="https://j").link(TRACE, None) == f"https://j/trace/{TRACE}"


@pytest.mark.parametrize("kind", ["jaeger", "phoenix", "template", "grafana"])
def test_an_id_that_is_none_stays_within_its_place(kind):
    url = "https://t/{trace_id}" if kind == "template" else "https://t"
    link = TraceLinkSettings(kind=kind, url=url).link("../x?y#z\"'", "a/b")
    assert urlsplit(link).netloc == "t"
    assert not set("\"'# ") & set(link)
    assert ".." not in urlsplit(link).path.replace("..%2F", "")


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"kind": "template", "url": "https://t/"}, "{trace_id}"),
        ({"kind": "langfuse", "url": "https://l"}, "project"),
        ({"kind": "jaeger", "url": "javascript:alert(1)"}, "url"),
    ],
)
def test_what_cannot_work_is_refused(settings, complaint):
    with pytest.raises(ValidationError) as caught:
        TraceLinkSettings(**settings)
    assert complaint in str(caught.value)
