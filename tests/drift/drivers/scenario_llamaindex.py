"""The scenario through LlamaIndex: chat engines, an agent with tools, a query engine over a retriever."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.chat_engine import SimpleChatEngine
from llama_index.core.memory import ChatMemoryBuffer
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import NodeWithScore, TextNode
from llama_index.core.tools import FunctionTool
from llama_index.llms.openai_like import OpenAILike
from scenario_python import scenario


class Documents(BaseRetriever):
    """Retrieves all documents of the scenario."""

    def _retrieve(self, query_bundle: Any) -> list[NodeWithScore]:
        return [
            NodeWithScore(node=TextNode(id_=document["id"], text=document["text"]), score=0.5)
            for document in scenario.documents
        ]


def get_wind(place: str, day: str) -> dict:
    """Wind forecast for a place."""
    return scenario.results[place]


def _model(retries: int = 0) -> OpenAILike:
    return OpenAILike(
        model="gpt-4o-mini", api_base=scenario.base, api_key="none", is_chat_model=True,
        is_function_calling_model=True, max_retries=retries,
    )  # fmt: skip


async def talk(around: Callable[[str], AbstractContextManager[Any]]) -> None:
    """Five turns with streams and tools, a question about retrieved documents, a failure."""
    memory = ChatMemoryBuffer.from_defaults(token_limit=9000)
    model = _model(2)
    chat = SimpleChatEngine.from_defaults(llm=model, memory=memory, system_prompt=scenario.system)
    agent = FunctionAgent(llm=model, tools=[FunctionTool.from_defaults(get_wind)], system_prompt=scenario.system)
    with around("turn1"):
        await chat.achat(scenario.questions["turn1"])
    with around("turn2"):
        async for _ in (await chat.astream_chat(scenario.questions["turn2"])).async_response_gen():
            pass
    for step in ("turn3", "parallel"):
        with around(step):
            await agent.run(user_msg=scenario.questions[step], memory=memory)
    with around("retry"):
        await chat.achat(scenario.questions["retry"])
    with around("rag"):
        await RetrieverQueryEngine.from_args(Documents(), llm=_model()).aquery(scenario.questions["rag"])
    messages = [
        ChatMessage(role=role, content=content)
        for role, content in (("system", scenario.system), ("user", scenario.questions["fail"]))
    ]
    with around("fail"):
        try:
            await _model().achat(messages)
        except Exception as error:
            print(json.dumps({"failed": type(error).__name__}))


def run(around: Callable[[str], AbstractContextManager[Any]]) -> None:
    """The talk from its beginning to its end."""
    asyncio.run(talk(around))
