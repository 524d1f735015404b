"""The talk that every library is made to have: three turns with a stream and a tool, a question about documents, a failure.

Newer drivers also ask for two tools at once, a question in Japanese, and one whose first request the server refuses.
"""

from __future__ import annotations

from typing import Any

SYSTEM = "You are Borealis, the support assistant of the Larkspur kayak rental. Answer in one short sentence."
CONVERSATION, USER = "sess-larkspur-7341", "user-maren-22"
FAILING, REFUSED_ONCE = "FAIL-500", "children under ten"
USAGE = (41, 17)
QUESTIONS = {
    "turn1": "Hello, I am Maren. Do you rent sea kayaks in March?",
    "turn2": "How much is a double kayak for two days?",
    "turn3": "Is it windy at Skagen tomorrow?",
    "parallel": "Compare the wind at Anholt and at Laeso on Saturday.",
    "retry": "May children under ten rent a kayak?",
    "japanese": "火曜日の午後、二人乗りのカヤックは空いていますか。",
    "rag": "What is the deposit for a single kayak?",
    "fail": "Please run the FAIL-500 path.",
}
CONVERSATIONS = {"rag": "sess-larkspur-rag-0009", "fail": "sess-larkspur-fail-0500"}
ANSWERS = (
    ("sea kayaks in March", "Yes, Maren: sea kayaks are rented from 1 March to 31 October."),
    ("double kayak", "A double kayak costs 84 euros for two days."),
    ("windy at Skagen", "Yes, Skagen expects 11 m/s wind with gusts of 16 m/s tomorrow, so please stay ashore."),
    ("wind at Anholt and at Laeso", "Laeso is calmer on Saturday, with 4 m/s against 9 m/s at Anholt."),
    (REFUSED_ONCE, "Yes, children may paddle in a double kayak with an adult."),
    ("二人乗りのカヤック", "はい、火曜日の午後は二人乗りが三艇空いています。"),
    ("deposit for a single kayak", "The deposit for a single kayak is 120 euros."),
)
TOOL_CALL: dict[str, Any] = {
    "words": "windy at Skagen",
    "id": "call_wind_0001",
    "name": "get_wind",
    "arguments": {"place": "Skagen", "day": "tomorrow"},
    "result": {"place": "Skagen", "wind_ms": 11, "gusts_ms": 16},
}
PARALLEL_CALLS = tuple(
    {
        "id": f"call_wind_000{number}",
        "name": TOOL_CALL["name"],
        "arguments": {"place": place, "day": "Saturday"},
        "result": {"place": place, "wind_ms": wind},
    }
    for number, place, wind in ((2, "Anholt", 9), (3, "Laeso", 4))
)
TOOL_CALLS: dict[str, tuple[dict[str, Any], ...]] = {"turn3": (TOOL_CALL,), "parallel": PARALLEL_CALLS}
"""The calls that the model asks for, by step."""
TOOL_DEFINITION: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": TOOL_CALL["name"],
        "description": "Wind forecast for a place.",
        "parameters": {
            "type": "object",
            "properties": {"place": {"type": "string"}, "day": {"type": "string"}},
            "required": ["place", "day"],
        },
    },
}
DOCUMENTS = (
    {"id": "doc-17", "text": "Deposits: a single kayak requires a deposit of 120 euros, returned on drop-off."},
    {"id": "doc-42", "text": "Opening hours: the boathouse is open from 9 to 18 every day."},
)
RAG_SYSTEM = "Answer only from the context."
RAG_PROMPT = "Context:\n" + "\n".join(f"[{each['id']}] {each['text']}" for each in DOCUMENTS)
RAG_PROMPT += f"\n\nQuestion: {QUESTIONS['rag']}"


def text_of(content: Any) -> str:
    """The text of a message's content, also of one in parts."""
    if isinstance(content, list):
        return "".join(text_of(each.get("text", "")) for each in content if isinstance(each, dict))
    return content if isinstance(content, str) else ""


def user_text(messages: Any) -> str:
    """The last message of the user."""
    return next((text_of(each.get("content")) for each in reversed(messages) if each.get("role") == "user"), "")
