"""Documents that a retriever found, in any of the shapes that libraries write."""

from collections.abc import Mapping
from typing import Any, TypeGuard

from collector.dialects.attributes import find_text
from collector.dialects.call import Passage
from collector.dialects.decode import as_dict, as_list, decode
from evaluators.cases import Json


def parse_passages(value: Json) -> tuple[Passage, ...]:
    """Parse documents or texts: a list, an object with a list under `documents` or a similar key, or JSON of either."""
    value = decode(value)
    fields = as_dict(value)
    keys = ("documents", "source_documents", "source_nodes", "results", "data", "output")
    value = next((fields[key] for key in keys if isinstance(fields.get(key), list)), value)
    items = [(each, as_dict(decode(each))) for each in as_list(value)]
    return tuple(
        parse_passage(fields) if fields else Passage(each) for each, fields in items if fields or _is_text(each)
    )


def _is_text(document: Json) -> TypeGuard[str]:
    return isinstance(document, str) and (" " in document or not document.isascii())  # else it is an id


def parse_passage(document: Mapping[str, Any]) -> Passage:
    """Parse one document, whatever its keys are called."""
    fields = {**as_dict(document.get("node") or document.get("document") or document.get("kwargs")), **document}
    text = find_text(fields, "content", "page_content", "pageContent", "text", "snippet", "chunk", "document", "body")
    if text is None:  # Genkit: in parts
        parts = [find_text(as_dict(part), "text") for part in as_list(fields.get("content"))]
        text = "\n".join(part for part in parts if part)
    score = fields.get("score", fields.get("similarity", fields.get("relevance_score")))
    number = float(score) if isinstance(score, (int, float)) and not isinstance(score, bool) else None
    identity = fields.get("id", fields.get("id_", fields.get("doc_id")))
    return Passage(text or "", str(identity)[:200] if isinstance(identity, (str, int)) else None, number)
