"""The gate in a running service, asked as Argo Rollouts, Flagger and GitHub Actions ask it, by the recipes of deploy/examples/gate."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml
from configurations import checked
from running_service import value
from typer.testing import CliRunner
from yarl import URL

from collector.cli import app
from collector.logs.log import Record
from collector.records.json import turn_to_json
from collector.service.app import running
from evaluators.cases import Turn

TOKEN = "a-token-of-the-page-1"
RECIPES = Path(__file__).parents[2] / "deploy/examples/gate"
EACH = 1500
EVALUATORS = {"exact": {"kind": "exact_match"}}


def recipe(name: str) -> Any:
    return yaml.safe_load((RECIPES / f"{name}.yaml").read_text())


def turns() -> list[Turn]:
    """1.42 is right in 8 of 10 turns, 1.43 in 7; a flag's arms share them alike; 1.44 has hardly been seen.

    Of 1.46 the wrong ones cannot be scored, so it looks perfect.
    """
    arms = ("treatment", "control")
    numbers = [("1.42", 8, EACH), ("1.43", 7, EACH), ("1.44", 8, 5), ("1.46", 7, EACH)]
    return [
        Turn(
            turn_id=f"{version}-{number}",
            conversation_id=f"{version}-{number}",
            service="shop",
            input="Which one?",
            actual_output="this" if number % 10 < right else "that",
            expected_output=None if version == "1.46" and number % 10 >= right else "this",
            attributes={"service_version": version, "arm": arms[number // 10 % 2] if version != "1.46" else "none"},
        )
        for version, right, count in numbers
        for number in range(count)
    ]


@asynccontextmanager
async def judged(folder: Path) -> AsyncIterator[str]:
    """The page's address, once everything has been scored and read."""
    config = checked(
        EVALUATORS,
        folder=folder,
        monitor={"compare": ["service_version", "arm"]},
        assemble={"attributes": ["arm"]},
        page={"port": 0, "auth": {"tokens": [TOKEN]}},
    )
    async with running(config) as service:
        sent = turns()
        await service.logs.turns.append([Record(turn.turn_id.encode(), turn_to_json(turn)) for turn in sent])
        page = f"http://127.0.0.1:{service.page_port}"
        async with asyncio.timeout(60):
            while value(service, "evalstream_evaluations_total") < len(sent):
                await asyncio.sleep(0.2)
            for version in ("1.43", "1.44"):
                while await is_behind(page, version):
                    await asyncio.sleep(0.2)
        yield page


async def is_behind(page: str, version: str) -> bool:
    """Whether the gate has not read all scores of a version and of 1.42 yet."""
    _, body = await asked(page, f"service_version/{version}?against=1.42")
    counts = [release["conversations"] for release in body["comparisons"]]
    return counts != [[EACH, sum(turn.turn_id.startswith(version) for turn in turns())]]


async def asked(page: str, path: str, **options: Any) -> tuple[int, Any]:
    options.setdefault("headers", {"Authorization": f"Bearer {TOKEN}"})
    method = options.pop("method", "GET")
    address = URL(f"{page}/v1/releases/{path}", encoded=True)
    async with aiohttp.ClientSession() as session, session.request(method, address, **options) as response:
        return response.status, await response.json()


async def argo(page: str, version: str) -> str:
    """The phase of a measurement, as its web provider finds it."""
    (metric,) = recipe("argo-rollouts")["spec"]["metrics"]
    web = metric["provider"]["web"]
    filled = {"version": version, "against": "1.42", "token": TOKEN}

    def fill(text: str) -> str:
        return re.sub(r"{{args\.(\w+)}}", lambda found: filled[found[1]], text)

    path = fill(web["url"]).partition("/v1/releases/")[2]
    status, body = await asked(page, path, headers={header["key"]: fill(header["value"]) for header in web["headers"]})
    if not 200 <= status < 300:
        return "Error"
    result = body[re.fullmatch(r"{\$\.(\w+)}", web["jsonPath"])[1]]  # pyright: ignore[reportOptionalSubscript]
    conditions = (metric[name].partition(" == ") for name in ("failureCondition", "successCondition"))
    is_failure, is_success = (json.loads(wanted) == result for _, _, wanted in conditions)
    return "Failed" if is_failure else "Successful" if is_success else "Inconclusive"


async def flagger(page: str, version: str) -> dict[str, bool]:
    """Whether each webhook passes: Go's client makes basic credentials of an address's, and above 202 is a failure."""
    passed: dict[str, bool] = {}
    for hook in recipe("flagger")["analysis"]["webhooks"]:
        url = URL(hook["url"].replace("TOKEN", TOKEN).replace("1.43", version), encoded=True)
        path = url.raw_path_qs.removeprefix("/v1/releases/")
        payload = {"name": "shop", "namespace": "test", "phase": "Progressing", "checksum": "85d557f47b"}
        login = "Basic " + b64encode(f"{url.user}:{url.password}".encode()).decode()
        status, _ = await asked(page, path, method="POST", json=payload, headers={"Authorization": login})
        passed[hook["type"]] = status <= 202
    return passed


async def actions(page: str, version: str) -> int | None:
    """The exit status of the step."""
    (step,) = recipe("github-actions")
    environment = {**os.environ, **step["env"], "PAGE": page, "TOKEN": TOKEN, "VERSION": version}
    ran = await asyncio.create_subprocess_exec("bash", "-e", "-c", step["run"], env=environment)
    return await ran.wait()


@pytest.mark.long
async def test_a_canary_that_is_worse_by_a_tenth_is_rolled_back_by_every_controller(tmp_path: Path) -> None:
    async with judged(tmp_path) as page:
        status, worse = await asked(page, "service_version/1.43?against=1.42")
        assert (status, worse["decision"]) == (200, "roll back")
        assert "exact of all (shop) is worse for sure: -0.100, between" in worse["reason"]
        assert worse["comparisons"][0]["conversations"] == [EACH, EACH]
        status, failing = await asked(page, "service_version/1.46?against=1.42")
        assert (status, failing["decision"]) == (200, "hold")
        assert "30.0% of the cases of 1.46 have no score, and 0.0% of those of 1.42" in failing["reason"]
        assert failing["comparisons"][0]["lost"] == [0.0, pytest.approx(0.3)]
        status, alike = await asked(page, "arm/treatment?against=control")
        assert (status, alike["decision"]) == (200, "promote")
        status, unseen = await asked(page, "service_version/1.45")
        assert (status, unseen["decision"], unseen["reason"]) == (200, "hold", "service_version 1.45 has no score yet")
        assert (await asked(page, "service_version/1.43", headers={}))[0] == 401
        assert (await asked(page, "arm/treatment?against=control&tolerance=2"))[0] == 400
        status, unknown = await asked(page, "prompt/p2")
        assert (status, unknown["error"].partition(";")[0]) == (404, "no monitor compares 'prompt' here")

        assert await argo(page, "1.43") == "Failed"
        assert await argo(page, "1.44") == "Inconclusive"
        assert await flagger(page, "1.43") == {"rollback": True, "confirm-promotion": False}
        assert await flagger(page, "1.44") == {"rollback": False, "confirm-promotion": False}
        if shutil.which("curl"):
            assert await actions(page, "1.43?against=1.42") == 1

        path = tmp_path / "evalstream.yaml"
        path.write_text(
            json.dumps(
                {
                    "log": {"kind": "sqlite", "path": str(tmp_path / "logs.db")},
                    "evaluators": EVALUATORS,
                    "assemble": {"attributes": ["arm"]},
                    "monitors": {"all": {"evaluators": ["exact"]}},
                }
            )
        )
        said = {
            version: await asyncio.to_thread(CliRunner().invoke, app, ["gate", "-c", str(path), *options])
            for version, options in {
                "1.43": ["--version", "1.43", "--against", "1.42"],
                "1.44": ["--version", "1.44", "--against", "1.42"],
                "arm": ["--attribute", "arm", "--version", "treatment", "--against", "control"],
            }.items()
        }
    assert {version: done.exit_code for version, done in said.items()} == {"1.43": 4, "1.44": 3, "arm": 0}
    assert said["1.43"].stdout.startswith("roll back: exact of all (shop) is worse for sure: -0.100, between ")
    assert "has too few scores yet: " in said["1.44"].stdout
