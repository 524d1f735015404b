"""The settings by which libraries write messages into their traces; most write none unless told to."""

from collections.abc import Iterable

from collector.assemble.read_spans import ParsedSpan

_SETTINGS = (
    ("opentelemetry.instrumentation.", "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=true"),
    ("opentelemetry.instrumentation.genai.", "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=SPAN_ONLY"),
    ("opentelemetry.util.genai", "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=SPAN_ONLY"),
    ("openinference.", "OPENINFERENCE_HIDE_INPUTS=false, OPENINFERENCE_HIDE_OUTPUTS=false, and none that is narrower"),
    ("@arizeai/openinference", "OPENINFERENCE_HIDE_INPUTS=false and OPENINFERENCE_HIDE_OUTPUTS=false"),
    ("openlit", "openlit.init(capture_message_content=True)"),
    ("org.springframework", "spring.ai.chat.observations.log-prompt=true and log-completion=true, with logs exported"),
    ("io.quarkus", "quarkus.langchain4j.tracing.include-completion=true, and a bean that writes messages with roles"),
    ("com.anthropic.claude_code", "OTEL_LOG_USER_PROMPTS=1 and OTEL_LOG_RAW_API_BODIES=1"),
    ("gcp.vertex.agent", "ADK_CAPTURE_MESSAGE_CONTENT_IN_SPANS=true"),
    ("pydantic-ai", "InstrumentationSettings(include_content=True)"),
    ("logfire", "the scrubbing and content options of logfire.configure and instrument_*"),
    ("agent_framework", "ENABLE_SENSITIVE_DATA=true"),
    ("haystack", "HAYSTACK_CONTENT_TRACING_ENABLED=true"),
    ("ai", "experimental_telemetry: {recordInputs: true, recordOutputs: true}"),
    ("gen_ai", "telemetry: {recordInputs: true, recordOutputs: true}"),
    ("langsmith", "LANGSMITH_HIDE_INPUTS=false and LANGSMITH_HIDE_OUTPUTS=false"),
    ("Microsoft.Extensions.AI", "EnableSensitiveData = true of UseOpenTelemetry"),
    ("Experimental.Microsoft", "EnableSensitiveData = true of UseOpenTelemetry"),
    ("Microsoft.SemanticKernel", "SEMANTICKERNEL_EXPERIMENTAL_GENAI_ENABLE_OTEL_DIAGNOSTICS_SENSITIVE=true"),
)  # fmt: skip
"""The settings by the beginning of a scope's name; the longest that fits counts. `ai` and `gen_ai` are whole names
(Vercel's)."""
UNKNOWN = "look for its option that records the content of messages (deploy/docs/ingest.md, Capture messages)"
"""The advice for a scope whose setting is unknown."""
_WHOLE = frozenset({"ai", "gen_ai"})


def setting_for(scope: str, keys: Iterable[str] = ()) -> str | None:
    """The setting for spans of this scope; None if none is known. `keys` are names of their attributes."""
    if any(key.startswith("traceloop.") for key in keys):
        return "TRACELOOP_TRACE_CONTENT=true"
    fitting = [
        (begin, setting)
        for begin, setting in _SETTINGS
        if scope == begin or (scope.startswith(begin) and begin not in _WHOLE)
    ]
    return max(fitting, key=lambda each: len(each[0]))[1] if fitting else None


def missing_settings(parsed_spans: Iterable[ParsedSpan]) -> dict[str, str]:
    """The settings for the scopes of model calls without question or answer, by scope."""
    settings: dict[str, str] = {}
    for parsed in parsed_spans:
        call = parsed.call
        if call.kind == "model" and call.error is None and (call.input is None or call.output is None):
            settings[parsed.span.scope] = setting_for(parsed.span.scope, parsed.span.attributes) or UNKNOWN
    return settings
