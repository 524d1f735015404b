"""Feedback about a model call in the six forms in which traces have it."""

from __future__ import annotations

from typing import Any

from made_up import Trace, chat

EVENT = "gen_ai.evaluation.result"
SAID = {"gen_ai.evaluation.name": "thumbs", "gen_ai.evaluation.score.value": 1.0, "gen_ai.response.id": "r-1"}
BY_SPAN = {"gen_ai.evaluation.name": "thumbs", "gen_ai.evaluation.score.value": 1.0}
OPENINFERENCE = {
    "openinference.span.kind": "LLM",
    "llm.input_messages.0.message.role": "user",
    "llm.input_messages.0.message.content": "Are you open?",
    "llm.output_messages.0.message.role": "assistant",
    "llm.output_messages.0.message.content": "Yes.",
}
TRACELOOP = {
    "llm.request.type": "chat",
    "gen_ai.prompt.0.role": "user",
    "gen_ai.prompt.0.content": "Are you open?",
    "gen_ai.completion.0.role": "assistant",
    "gen_ai.completion.0.content": "Yes.",
}
VERCEL = {
    "ai.operationId": "ai.generateText.doGenerate",
    "ai.prompt.messages": '[{"role": "user", "content": "Are you open?"}]',
    "ai.response.text": "Yes.",
    "ai.model.id": "m",
}
LANGFUSE = {
    "langfuse.observation.type": "generation",
    "langfuse.observation.input": '[{"role": "user", "content": "Are you open?"}]',
    "langfuse.observation.output": '{"role": "assistant", "content": "Yes."}',
}
ANNOTATED = {
    "annotations.0.annotation.name": "thumbs",
    "annotations.0.annotation.score": 1.0,
    "annotations.0.annotation.annotator_kind": "HUMAN",
}
DIALECTS: dict[str, tuple[dict[str, Any], str]] = {
    "otel_genai": (chat("Are you open?", "Yes."), "record"),
    "openinference": (OPENINFERENCE, "annotation"),
    "logfire": (chat("Are you open?", "Yes."), "logfire"),
    "traceloop": (TRACELOOP, "record"),
    "vercel_ai": (VERCEL, "record"),
    "langfuse": (LANGFUSE, "record"),
}


def with_feedback(trace: Trace, form: str, attributes: dict[str, Any]) -> Trace:
    """The trace with feedback about its span, in the form of a dialect."""
    if form == "record":
        return trace.record(1, EVENT, None, BY_SPAN)
    if form == "annotation":
        return trace.span(1, "chat", attributes | ANNOTATED)
    said = {"logfire.feedback.name": "thumbs", "thumbs": 1.0}
    return trace.span(9, "feedback: thumbs", said, parent=1, scope="logfire.feedback")
