"""Pictures, recordings and files in every wire form, and in every dialect that carries messages."""

from __future__ import annotations

import base64
import hashlib
import json
from typing import Any

import pytest
from made_up import Trace

from collector.assemble.attachments import MediaLimits
from collector.assemble.trace import Assembler
from collector.dialects.messages import parse_messages
from collector.dialects.registry import Dialects
from evaluators.cases import Attachment

PNG_BYTES = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 2
PNG = base64.b64encode(PNG_BYTES).decode()
DATA_URL = f"data:image/png;base64,{PNG}"
SHA = hashlib.sha256(PNG_BYTES).hexdigest()
URL = "https://cdn.example.com/a.png"
PICTURE = ("image", "image/png", len(PNG_BYTES), SHA, None)
LINKED = ("image", None, None, None, URL)


def user(*parts: Any) -> list[Any]:
    return [{"role": "user", "content": [{"type": "text", "text": "What is it?"}, *parts]}]


FORMS: dict[str, tuple[Any, list[tuple[Any, ...]]]] = {
    "openai data url": (user({"type": "image_url", "image_url": {"url": DATA_URL, "detail": "low"}}), [PICTURE]),
    "openai url": (user({"type": "image_url", "image_url": {"url": URL}}), [LINKED]),
    "openai url as a text": (user({"type": "image_url", "image_url": URL}), [LINKED]),
    "openai audio": (
        user({"type": "input_audio", "input_audio": {"data": PNG, "format": "wav"}}),
        [("audio", "audio/wav", len(PNG_BYTES), SHA, None)],
    ),
    "openai file": (
        user({"type": "file", "file": {"file_data": f"data:application/pdf;base64,{PNG}", "filename": "a.pdf"}}),
        [("file", "application/pdf", len(PNG_BYTES), SHA, None)],
    ),
    "openai responses": (
        {
            "model": "m",
            "input": [
                {
                    "role": "user",
                    "content": [
                        {"type": "input_text", "text": "What is it?"},
                        {"type": "input_image", "image_url": DATA_URL},
                        {"type": "input_file", "file_id": "file-1"},
                    ],
                }
            ],
        },
        [PICTURE, ("file", None, None, None, "file-1")],
    ),
    "anthropic base64": (
        user({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}), [PICTURE],
    ),
    "anthropic url": (user({"type": "image", "source": {"type": "url", "url": URL}}), [LINKED]),
    "anthropic document": (
        user({"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": PNG}}),
        [("file", "application/pdf", len(PNG_BYTES), SHA, None)],
    ),
    "gemini": (
        {
            "contents": [
                {
                    "role": "user",
                    "parts": [
                        {"text": "What is it?"},
                        {"inline_data": {"mime_type": "image/png", "data": PNG}},
                        {"fileData": {"mimeType": "video/mp4", "fileUri": "gs://b/v.mp4"}},
                    ],
                }
            ]
        },
        [PICTURE, ("video", "video/mp4", None, None, "gs://b/v.mp4")],
    ),
    "conventions": (
        [
            {
                "role": "user",
                "parts": [
                    {"type": "text", "content": "What is it?"},
                    {"type": "blob", "mime_type": "image/png", "modality": "image", "content": PNG},
                    {"type": "uri", "modality": "audio", "uri": "https://cdn.example.com/a.mp3"},
                    {"type": "file", "modality": "image", "file_id": "f1"},
                ],
            }
        ],
        [PICTURE, ("audio", None, None, None, "https://cdn.example.com/a.mp3"), ("image", None, None, None, "f1")],
    ),
    "ai sdk": (
        user(
            {"type": "image", "image": PNG, "mediaType": "image/png"},
            {"type": "file", "data": "https://cdn.example.com/a.pdf", "mediaType": "application/pdf"},
        ),
        [PICTURE, ("file", "application/pdf", None, None, "https://cdn.example.com/a.pdf")],
    ),
    "bedrock": (
        [
            {
                "role": "user",
                "content": [
                    {"text": "What is it?"},
                    {"image": {"format": "png", "source": {"bytes": PNG}}},
                    {"document": {"format": "pdf", "name": "d", "source": {"s3Location": {"uri": "s3://b/d.pdf"}}}},
                ],
            }
        ],
        [PICTURE, ("file", "application/pdf", None, None, "s3://b/d.pdf")],
    ),
    "langchain": (
        [
            {
                "type": "human",
                "content": [
                    {"type": "text", "text": "What is it?"},
                    {"type": "image", "source_type": "base64", "mime_type": "image/png", "data": PNG},
                    {"type": "image", "url": URL},
                    {"type": "media", "mime_type": "image/png", "data": PNG},
                ],
            }
        ],
        [PICTURE, LINKED, PICTURE],
    ),
    "ollama": ([{"role": "user", "content": "What is it?", "images": [PNG]}], [PICTURE]),
    "pydantic ai": (
        [
            {
                "kind": "request",
                "parts": [
                    {
                        "part_kind": "user-prompt",
                        "content": [
                            "What is it?",
                            {"kind": "image-url", "url": URL},
                            {"kind": "binary", "media_type": "image/png", "data": PNG},
                        ],
                    }
                ],
            }
        ],
        [LINKED, PICTURE],
    ),
    "genkit": (
        [{"role": "user", "content": [{"text": "What is it?"}, {"media": {"url": DATA_URL, "contentType": "image/png"}}]}],
        [PICTURE],
    ),
    "haystack": (
        [{"role": "user", "content": [{"text": "What is it?"}, {"image": {"base64_image": PNG, "mime_type": "image/png"}}]}],
        [PICTURE],
    ),
    "llamaindex": (
        [
            {
                "role": "user",
                "blocks": [
                    {"block_type": "text", "text": "What is it?"},
                    {"block_type": "image", "image": PNG, "image_mimetype": "image/png"},
                ],
            }
        ],
        [PICTURE],
    ),
    "langfuse": (
        user({"type": "image_url", "image_url": {"url": "@@@langfuseMedia:type=image/png|id=abc|source=base64_data_uri@@@"}}),
        [("image", "image/png", None, None, "langfuse:abc")],
    ),
    "omitted where it was received": (
        user({"type": "image_url", "image_url": {"url": f"data:image/png;base64,omitted-sha256-{SHA}-520"}}), [PICTURE],
    ),
}  # fmt: skip


def short(attachment: Attachment) -> tuple[Any, ...]:
    return (attachment.kind, attachment.media_type, attachment.size, attachment.sha256, attachment.url)


@pytest.mark.parametrize("form", FORMS)
def test_every_form_keeps_its_pictures_and_its_text(form: str) -> None:
    value, expected = FORMS[form]
    [message] = parse_messages(json.dumps(value)).messages
    assert (message.role, message.text) == ("user", "What is it?")
    assert [short(each) for each in message.attachments] == expected


def test_a_recording_is_read_by_its_transcript() -> None:
    part = {"type": "input_audio", "input_audio": {"data": PNG, "format": "mp3", "transcript": "What is it?"}}
    [message] = parse_messages([{"role": "user", "content": [part]}]).messages
    assert message.text == "What is it?"
    assert [(each.kind, each.media_type, each.transcript) for each in message.attachments] == [
        ("audio", "audio/mpeg", "What is it?")
    ]


def test_what_a_tool_shows() -> None:
    block = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}
    result = {"type": "tool_result", "tool_use_id": "t", "content": [{"type": "text", "text": "A map."}, block]}
    [message] = parse_messages([{"role": "user", "content": [result]}]).messages
    assert (message.role, [short(each) for each in message.attachments]) == ("tool", [PICTURE])


@pytest.mark.parametrize(
    "part",
    [
        {"type": "text", "text": "What is it?"},
        {"type": "document", "text": "A long text."},
        {"type": "document", "source": {"type": "text", "data": "A long text."}},
        {"type": "image_url", "image_url": None},
        {"type": "image", "source": []},
        {"type": "blob", "content": 7},
        {"image": "no"},
        {"type": "file", "file": {"file": {"file": {"file": {"file": {}}}}}},
    ],
    ids=["text", "document", "text source", "none", "list", "number", "word", "deep"],
)
def test_odd_parts_are_no_pictures_with_content(part: Any) -> None:
    messages = parse_messages([{"role": "user", "content": [part, {"type": "text", "text": "So?"}]}]).messages
    assert all(each.data is None and each.url is None for message in messages for each in message.attachments)


MESSAGES = user({"type": "image_url", "image_url": {"url": DATA_URL}})
PARTS = [
    {
        "role": "user",
        "parts": [
            {"type": "text", "content": "What is it?"},
            {"type": "blob", "mime_type": "image/png", "modality": "image", "content": PNG},
        ],
    }
]
GEMINI = FORMS["gemini"][0]
ANSWER = json.dumps([{"role": "assistant", "parts": [{"type": "text", "content": "A kayak."}]}])
CHOICE = json.dumps({"choices": [{"message": {"role": "assistant", "content": "A kayak."}}]})
SPANS: dict[str, dict[str, Any]] = {
    "otel_genai": {
        "gen_ai.operation.name": "chat", "gen_ai.request.model": "m", "gen_ai.input.messages": json.dumps(PARTS),
        "gen_ai.output.messages": ANSWER,
    },
    "otel_genai with raw messages": {
        "gen_ai.operation.name": "chat", "gen_ai.request.model": "m", "gen_ai.input.messages": json.dumps(MESSAGES),
        "gen_ai.output.messages": ANSWER,
    },
    "openinference": {
        "openinference.span.kind": "LLM",
        "llm.input_messages.0.message.role": "user",
        "llm.input_messages.0.message.contents.0.message_content.type": "text",
        "llm.input_messages.0.message.contents.0.message_content.text": "What is it?",
        "llm.input_messages.0.message.contents.1.message_content.type": "image",
        "llm.input_messages.0.message.contents.1.message_content.image.image.url": DATA_URL,
        "llm.output_messages.0.message.role": "assistant",
        "llm.output_messages.0.message.content": "A kayak.",
    },
    "traceloop": {
        "llm.request.type": "chat", "gen_ai.prompt.0.role": "user", "gen_ai.prompt.0.content": json.dumps(MESSAGES[0]["content"]),
        "gen_ai.completion.0.role": "assistant", "gen_ai.completion.0.content": "A kayak.",
    },
    "vercel_ai": {
        "ai.operationId": "ai.generateText.doGenerate", "ai.prompt.messages": json.dumps(FORMS["ai sdk"][0]),
        "ai.response.text": "A kayak.",
    },
    "langfuse": {
        "langfuse.observation.type": "generation", "langfuse.observation.input": json.dumps(MESSAGES),
        "langfuse.observation.output": json.dumps({"role": "assistant", "content": "A kayak."}),
    },
    "langsmith": {
        "langsmith.span.kind": "llm", "gen_ai.prompt": json.dumps({"messages": MESSAGES}), "gen_ai.completion": CHOICE,
    },
    "mlflow": {
        "mlflow.spanType": '"CHAT_MODEL"', "mlflow.spanInputs": json.dumps({"messages": MESSAGES}), "mlflow.spanOutputs": CHOICE,
    },
    "google_adk": {
        "gcp.vertex.agent.llm_request": json.dumps({"model": "gemini", **GEMINI}),
        "gcp.vertex.agent.llm_response": json.dumps({"content": {"role": "model", "parts": [{"text": "A kayak."}]}}),
    },
    "braintrust": {
        "braintrust.span_attributes": json.dumps({"type": "llm"}), "braintrust.input_json": json.dumps(MESSAGES),
        "braintrust.output_json": CHOICE,
    },
}  # fmt: skip
KEEPING = Assembler(Dialects.installed(), media=MediaLimits(stored_bytes=10_000))


@pytest.mark.parametrize("dialect", SPANS)
def test_every_dialect_keeps_the_picture(dialect: str) -> None:
    trace = Trace().span(1, "call", SPANS[dialect])
    turn = trace.turn()
    assert (turn.input, turn.actual_output) == ("What is it?", "A kayak.")
    assert short(turn.attachments[0]) == PICTURE
    assert (turn.attachments[0].place, turn.attachments[0].data) == ("input", None)
    [stored] = trace.turns(KEEPING)
    assert stored.attachments[0].data == PNG
    assert stored.turn_id == turn.turn_id


def test_the_picture_in_log_records() -> None:
    trace = Trace().span(1, "chat m", {"gen_ai.operation.name": "chat", "gen_ai.system": "openai"})
    trace.record(1, "gen_ai.user.message", {"content": MESSAGES[0]["content"]}, {"gen_ai.system": "openai"})
    choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "A kayak."}}
    trace.record(1, "gen_ai.choice", choice, {"gen_ai.system": "openai"}, at=1.2)
    assert [short(each) for each in trace.turn().attachments] == [PICTURE]
