"""LiteLLM's proxy with its OpenTelemetry callback: OpenAI's client asks the proxy, and the proxy alone writes traces.

packages: litellm[proxy]!=1.107.0
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import nullcontext
from pathlib import Path

import openai
from scenario_openai import HARDER, talk
from scenario_python import scenario

CONFIGURATION = {
    "model_list": [
        {
            "model_name": "gpt-4o-mini",
            "litellm_params": {"model": "openai/gpt-4o-mini", "api_base": scenario.base, "api_key": "none"},
        }
    ],
    "litellm_settings": {"callbacks": ["otel"], "num_retries": 0},
    "general_settings": {"master_key": "sk-none"},
}


def main() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    Path("proxy.json").write_text(json.dumps(CONFIGURATION), encoding="utf-8")
    command = [Path(sys.executable).with_name("litellm"), "--config", "proxy.json", "--port", str(port)]
    environment = {**os.environ, "OTEL_BSP_SCHEDULE_DELAY": "200"}
    del environment["OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"]  # LiteLLM then leaves the spans without
    with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL) as proxy:
        try:
            _wait(f"http://127.0.0.1:{port}/health/liveliness")
            client = openai.OpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key="sk-none", max_retries=0)
            talk(client, steps=HARDER, around=lambda _step: nullcontext(), options=_options)
            time.sleep(2)
        finally:
            proxy.terminate()


def _options(step: str) -> dict:
    conversation = scenario.conversations.get(step, scenario.conversation)
    return {"user": scenario.user, "extra_headers": {"x-litellm-session-id": conversation}}


def _wait(address: str) -> None:
    for _ in range(300):
        try:
            urllib.request.urlopen(address).close()
        except (urllib.error.URLError, ConnectionError):
            time.sleep(0.3)
        else:
            return


main()
