"""Calls that a chat program makes for itself in the user's session: titles, tags, follow-up questions, search queries.

Open WebUI's tasks begin alike; LibreChat and others ask for a title in words of their own, which say what it is for.
"""

import re

from collector.dialects.call import Call

_MOST = 600
"""Characters of a text in which a task says what it is."""
_LONGEST_TITLE = 160
_TASK = re.compile(r"\s{0,9}#{1,4} ?Task:?\s")
_HISTORY = re.compile(r"<chat_history>|#{1,4} ?Chat History")
_TITLE = re.compile(
    r"\b(?:generate|generating|creat\w{1,3}|write|provide|find|suggest)\b[^.\n]{0,80}\btitle\b"
    r"[^.\n]{0,80}\b(?:conversation|chat|exchange|discussion)",
    re.IGNORECASE,
)
_LIMIT = re.compile(r"\bwords?\b|\bcharacters\b|\bonly\b|nothing else|concise|\bshort\b|json", re.IGNORECASE)


def find_task(call: Call) -> str | None:
    """Name the task of a call that answers the program rather than its user; None if it answers the user."""
    messages = call.input or ()
    question = next((message.text for message in reversed(messages) if message.role == "user"), "")
    if _TASK.match(question) and _HISTORY.search(question):
        return "a task of the chat program"
    systems = (message.text for message in messages if message.role == "system")
    for text in (question[:_MOST], (call.system or next(systems, ""))[:_MOST]):
        if "itle" in text and _TITLE.search(text) and _LIMIT.search(text) and _is_short(call):
            return "a title of the conversation"
    return None


def _is_short(call: Call) -> bool:
    text = (call.output[-1].text if call.output else "").strip()
    return len(text) <= _LONGEST_TITLE and "\n\n" not in text
