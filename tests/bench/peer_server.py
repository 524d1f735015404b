"""The judge of `peers.py`: a chat completions endpoint on loopback that gives one case's answer, whatever is asked.

Standard library only, for it runs in two Python environments.
"""

from __future__ import annotations

import json
import math
import re
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


def completion_of(case, request):
    tokens = case.get("tokens")
    keys = re.findall(r'"answer_key": "([0-9a-f]{8})"', str(request["messages"][-1]["content"]))
    if keys and tokens:  # evalstream's questions end in a key that the answer begins with
        (first, alternatives), *rest = tokens
        tokens = [("{" + f'"answer_key": "{keys[-1]}", ', None), (first.replace("{", "", 1), alternatives), *rest]
    text = case["text"] if tokens is None else "".join(token for token, _ in tokens)
    if keys and tokens is None:
        text = text.replace("{", "{" + f'"answer_key": "{keys[-1]}", ', 1)
    choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text, "refusal": None}}
    if request.get("logprobs") and tokens is not None:
        choice["logprobs"] = {"content": [_token(*token) for token in tokens], "refusal": None}
    usage = {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}
    return {
        "id": "c",
        "object": "chat.completion",
        "created": 1,
        "model": "gpt-4o",
        "choices": [choice],
        "usage": usage,
    }


def _token(text, alternatives):
    """A token that is certain of itself if it has no alternatives, and one forced upon the model if it is not among them."""
    alternatives = alternatives or {text: 1.0}
    listed = [{"token": each, "logprob": math.log(p), "bytes": list(each.encode())} for each, p in alternatives.items()]
    logprob = math.log(alternatives[text]) if text in alternatives else -9999.0
    return {"token": text, "logprob": logprob, "bytes": list(text.encode()), "top_logprobs": listed}


@contextmanager
def serve(case):
    """Yields the base URL."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            body = json.dumps(completion_of(case, request)).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_arguments):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/v1"
    finally:
        server.shutdown()
        server.server_close()
