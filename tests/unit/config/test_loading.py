import sys
from typing import Any

import pytest

from collector.commands.check.check import report
from collector.config.loading import check
from collector.config.settings import PlannedRate
from collector.errors import ConfigError
from collector.records.ready_made import MONITORS_OF_COMMANDS
from collector.service.plan_builder import build_plan
from evaluators.judge import NoJudge


def configuration(**changes: Any) -> dict[str, Any]:
    values: dict[str, Any] = {
        "judges": {"main": {"model": "m"}},
        "evaluators": {
            "helpful": {
                "kind": "g_eval",
                "criteria": "Is it helpful?",
                "evaluation_params": ["input", "actual_output"],
            },
            "exact": {"kind": "exact_match"},
        },
        "monitors": {"all": {"evaluators": ["helpful", "exact"]}},
    }
    return values | changes


def mistakes(**changes: Any) -> list[str]:
    with pytest.raises(ConfigError) as raised:
        check(configuration(**changes), "my.yaml")
    return str(raised.value).splitlines()


def test_the_only_judge_is_everybodys_judge() -> None:
    config = check(configuration(), "my.yaml")
    assert config.evaluators["helpful"].judge == "main"
    assert config.evaluators["exact"].judge is None
    assert config.evaluators["helpful"].evaluator.name == "helpful"


def test_unknown_keys_get_the_nearest_known_one() -> None:
    assert mistakes(monitor={}) == ["my.yaml: monitor: unknown key; did you mean 'monitors'?"]
    assert mistakes(judges={"main": {"model": "m", "base_ulr": "x"}}) == [
        "my.yaml: judges.main.base_ulr: unknown key; did you mean 'base_url'?"
    ]
    [line] = mistakes(evaluators={"helpful": {"kind": "g_eval", "criterai": "x"}, "exact": {"kind": "exact_match"}})[:1]
    assert line == "my.yaml: evaluators.helpful.criterai: unknown key; did you mean 'criteria'?"


@pytest.mark.parametrize(
    ("kind", "scope", "remedy"),
    [
        ("g_eval", "conv", "unknown scope 'conv'; choose from turn, conversation"),
        ("g_eval", "conversations", "unknown scope 'conversations'; did you mean 'conversation'?"),
        ("exact_match", "conv", "unknown scope 'conv'; choose from turn"),
        (
            "exact_match",
            "conversation",
            "exact_match scores a turn, so scope cannot be 'conversation'; remove the key scope",
        ),
    ],
)
def test_a_mistyped_scope_gets_the_scopes_that_the_kind_has(kind: str, scope: str, remedy: str) -> None:
    """The advice was to remove the key, and then the evaluator scored turns without a word."""
    assert (
        mistakes(evaluators={"exact": {"kind": kind, "scope": scope}})[0] == f"my.yaml: evaluators.exact.kind: {remedy}"
    )


def test_a_missing_required_key_says_what_to_write() -> None:
    assert mistakes(judges={"main": {}}) == [
        "my.yaml: judges.main.model: is missing; needed: the model's name at the endpoint"
    ]
    [line] = mistakes(page={"url": "ftp://evalstream.example.com"})
    assert line.startswith("my.yaml: page.url: has the wrong form; needed: the address at which people reach the page")
    assert "\n" not in line


def test_the_name_of_an_event_that_is_never_noted() -> None:
    monitor = {"evaluators": ["helpful"], "end_markers": {"events": ["session.end", "the user left"]}}
    assert mistakes(monitors={"all": monitor}) == [
        "my.yaml: monitors.all.end_markers.events: an event's name has 1 to 100 characters and no white space; others are not noted"
    ]


def test_an_evaluator_without_its_required_field() -> None:
    helpful = {"kind": "g_eval", "evaluation_params": ["input"]}
    lines = mistakes(evaluators={"helpful": helpful, "exact": {"kind": "exact_match"}})
    assert len(lines) == 1
    assert lines[0].startswith("my.yaml: evaluators.helpful")
    assert "criteria" in lines[0]
    assert "evaluation_steps" in lines[0]


def test_names_that_do_not_exist() -> None:
    assert mistakes(monitors={"all": {"evaluators": ["helpfull", "exact"]}}) == [
        "my.yaml: monitors.all.evaluators: unknown evaluator 'helpfull'; did you mean 'helpful'?"
    ]
    [line] = mistakes(evaluators=configuration()["evaluators"] | {"x": {"kind": "g_evla"}})
    assert line.startswith("my.yaml: evaluators.x.kind: unknown evaluator kind 'g_evla'; did you mean 'g_eval'?")
    [line] = mistakes(
        evaluators={
            "helpful": configuration()["evaluators"]["helpful"] | {"judge": "other"},
            "exact": {"kind": "exact_match"},
        }
    )
    assert line == "my.yaml: evaluators.helpful.judge: unknown judge 'other'; choose from main"
    [line] = mistakes(export={"promehteus": {}})
    assert line == "my.yaml: export.promehteus: unknown exporter 'promehteus'; did you mean 'prometheus'?"


def test_names_that_metrics_or_budgets_use_otherwise() -> None:
    assert (
        "my.yaml: judges.none: is the label of evaluations without a judge in metrics; choose another name"
        in mistakes(judges={"none": {"model": "m"}})
    )
    assert "my.yaml: monitors: a name is empty; write one" in mistakes(monitors={"": {"evaluators": ["exact"]}})


@pytest.mark.parametrize("name", sorted(MONITORS_OF_COMMANDS))
def test_a_monitor_that_is_called_as_that_of_a_command(name: str) -> None:
    """The labels of its evaluations lost their `evaluation_id`, as labels of a command's evaluations do."""
    assert mistakes(monitors={name: {"evaluators": ["exact"]}}) == [
        f"my.yaml: monitors.{name}: evaluations that a command makes have this monitor; choose another name"
    ]


@pytest.mark.parametrize("sample", [0, 1.5, "often", None, float("nan")], ids=str)
def test_a_rate_is_a_share_or_auto(sample: object) -> None:
    [line] = mistakes(monitors={"all": {"evaluators": ["helpful"], "sample": sample}})
    assert line == "my.yaml: monitors.all.sample: write a share above 0 and at most 1, or auto"


def test_a_planned_rate_is_one_for_all_that_ask_a_judge() -> None:
    uses = [{"name": "helpful", "sample": 0.1}, {"name": "exact", "sample": 0.1}]
    [line] = mistakes(monitors={"all": {"evaluators": uses, "sample": "auto"}})
    assert line.startswith(
        "my.yaml: monitors.all.evaluators: helpful has a sample of its own, and sample: auto plans one"
    )
    monitor = {"evaluators": ["helpful"], "sample": "auto", "standard_error": 0.01}
    assert check(configuration(monitors={"all": monitor}), "my.yaml").settings.monitors["all"].rate == PlannedRate(0.01)
    monitor = {"evaluators": ["helpful"], "sample": "auto"}
    assert check(configuration(monitors={"all": monitor}), "my.yaml").settings.monitors["all"].rate == PlannedRate(0.02)


def test_two_judges_want_a_choice() -> None:
    [line] = mistakes(judges={"a": {"model": "m"}, "b": {"model": "m"}})
    assert line == "my.yaml: evaluators.helpful.judge: is missing; name one of `judges` (a, b)"


def test_all_mistakes_at_once() -> None:
    assert len(mistakes(evaluators={"x": {"kind": "nope"}, "y": {}}, monitors={})) == 3


def test_a_secret_is_never_in_a_message_or_a_dump() -> None:
    config = check(configuration(judges={"main": {"model": "m", "api_key": "sk-very-secret"}}), "my.yaml")
    assert "sk-very-secret" not in repr(config)
    assert "sk-very-secret" not in str(config.settings.model_dump(mode="json"))
    assert "sk-very-secret" not in " ".join(mistakes(judges={"main": {"model": "", "api_key": "sk-very-secret"}}))


def test_a_custom_evaluator_by_module_and_class() -> None:
    [line] = mistakes(evaluators=configuration()["evaluators"] | {"x": {"kind": "nowhere.at:All"}})
    assert line.startswith("my.yaml: evaluators.x.kind: 'nowhere.at:All' cannot be imported")
    [line] = mistakes(evaluators=configuration()["evaluators"] | {"x": {"kind": "json:loads"}})
    assert "is not an evaluator" in line


def test_a_receiver_whose_extra_is_not_installed_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    receive = {"otlp_grpc": {"port": 4317}}
    assert check(configuration(receive=receive), "my.yaml").settings.receive.otlp_grpc is not None
    monkeypatch.setitem(sys.modules, "grpc", None)
    assert mistakes(receive=receive) == [
        "my.yaml: receive.otlp_grpc: the extra grpc is not installed: pip install '.[grpc]'"
    ]


@pytest.mark.parametrize(("name", "monitors"), [("team-{:03}", 200), ("мониторинг-{:03}", 100)])
def test_more_budgets_than_kafka_keeps_with_a_commit_are_refused_before_anything_runs(name: str, monitors: int) -> None:
    """A budget of all monitors is one of each."""
    judge = {"model": "m", "usd_per_million_input_tokens": 1.0, "usd_per_million_output_tokens": 1.0}
    values = {
        "judges": {"main": judge},
        "monitors": {name.format(number): {"evaluators": ["helpful"]} for number in range(monitors)},
        "evaluate": {"budget": {"usd_per_day": 10}},
        "log": {"kind": "kafka", "kafka": {"bootstrap_servers": ["b:9092"]}},
    }
    [line] = mistakes(**values)
    assert f"the names of the {monitors} with a budget" in line
    assert "shorten them" in line
    check(configuration(**values | {"log": {"kind": "sqlite"}}), "my.yaml")
    check(configuration(**values | {"evaluate": {}}), "my.yaml")
    few = dict(list(values["monitors"].items())[:60])
    check(configuration(**values | {"monitors": few}), "my.yaml")


KAFKA: dict[str, Any] = {"bootstrap_servers": ["k1:9092", "k2:9092"]}


def test_a_topic_holds_one_kind_of_thing() -> None:
    again = {"bootstrap_servers": ["k2:9092"], "turns": ["a"]}
    assert mistakes(receive={"kafka": [KAFKA | {"traces": ["a", "b"], "turns": ["b"]}, again]}) == [
        "my.yaml: receive.kafka[0].turns: b is listed under traces as well; keep one of them",
        "my.yaml: receive.kafka[1].turns: a is listed under traces as well; keep one of them",
    ]
    elsewhere = {"bootstrap_servers": ["k3:9092"], "turns": ["a"]}
    assert check(configuration(receive={"kafka": [KAFKA | {"traces": ["a"]}, elsewhere]}), "my.yaml")


def test_a_source_needs_a_topic() -> None:
    assert mistakes(receive={"kafka": [KAFKA]}) == [
        "my.yaml: receive.kafka[0]: has no topic; write traces: [otlp_spans], logs: [otlp_logs] or turns: [...]"
    ]


def test_evalstreams_own_logs_are_no_source() -> None:
    log = {"kind": "kafka", "kafka": {"bootstrap_servers": ["k1:9092"], "prefix": "p"}}
    source = KAFKA | {"turns": ["p.turns"]}
    assert mistakes(log=log, receive={"kafka": [source]}) == [
        "my.yaml: receive.kafka[0].turns: p.turns is one of evalstream's own logs; name a topic that others write"
    ]
    assert check(configuration(log=log, receive={"kafka": [source | {"bootstrap_servers": ["k3:9092"]}]}), "my.yaml")


def test_the_plan_names_topics_of_turns() -> None:
    config = check(configuration(receive={"kafka": [KAFKA | {"traces": ["a"], "turns": ["b"]}]}), "my.yaml")
    assert "receive    Kafka at k1:9092, k2:9092: a, b (ready-made turns)" in list(report(config))


def test_only_tenants_that_exist_are_believed_about_earlier_sampling() -> None:
    tenants = {"tenants": [{"name": "team-a", "token": "0123456789abcdef"}]}
    sender = {"otlp_grpc": {"auth": tenants}, "otlp_http": {}}
    assert check(configuration(), "my.yaml").settings.receive.trust_tracestate == "never"
    config = check(configuration(receive=sender | {"trust_tracestate": ["team-a"]}), "my.yaml")
    believed = "the tracestate of team-a is believed about earlier sampling (receive.trust_tracestate)"
    assert f"receive    {believed}" in report(config)
    for trust, senders in (("always", "any sender"), ("never", ""), ([], "")):
        lines = "\n".join(report(check(configuration(receive=sender | {"trust_tracestate": trust}), "my.yaml")))
        assert (f"the tracestate of {senders} is believed" in lines, "tracestate" in lines) == (senders != "",) * 2
    assert mistakes(receive=sender | {"trust_tracestate": ["team-b"]}) == [
        "my.yaml: receive.trust_tracestate: unknown tenant 'team-b'; did you mean 'team-a'?"
    ]
    assert mistakes(receive={"trust_tracestate": ["team-b"]}) == [
        "my.yaml: receive.trust_tracestate: unknown tenant 'team-b'; none is defined"
    ]


def test_the_configured_trust_is_the_plans() -> None:
    for written, everybody, tenants in (("never", False, set()), ("always", True, set()), (["a"], False, {"a"})):
        sender = {"otlp_http": {"auth": {"tenants": [{"name": "a", "token": "0123456789abcdef"}]}}}
        config = check(configuration(receive=sender | {"trust_tracestate": written}), "my.yaml")
        trust = build_plan(config, {"main": NoJudge()}).trust
        assert (trust.everybody, trust.tenants) == (everybody, tenants)


def test_runs_of_agents_are_judged_where_they_are_assembled_and_by_evaluators_of_turns() -> None:
    evaluators = {**configuration()["evaluators"], "calm": {"kind": "frustration"}}
    monitors = {"agents": {"subjects": "agent_runs", "evaluators": ["helpful", "calm"]}}
    subjects, scope = mistakes(evaluators=evaluators, monitors=monitors)
    where = "my.yaml: monitors.agents"
    assert subjects == f"{where}.subjects: there are no runs of agents yet; write assemble: {{agent_runs: true}}"
    assert scope.startswith(f"{where}.evaluators: calm scores conversations, not runs of agents; name an")
    monitors["agents"]["evaluators"] = ["helpful"]
    config = check(configuration(assemble={"agent_runs": True}, monitors=monitors), "my.yaml")
    assert "monitor    agents: all runs of agents inside turns; all conversations" in report(config)
    [monitor] = build_plan(config, {"main": NoJudge()}).monitors
    assert monitor.agent_runs
