// LangChain for JavaScript through OpenInference: chat model with tools, history by hand.
// packages: langchain @langchain/core @langchain/openai @arizeai/openinference-instrumentation-langchain
import * as manager from "@langchain/core/callbacks/manager";
import { LangChainInstrumentation } from "@arizeai/openinference-instrumentation-langchain";
import { scenario, tracing } from "./scenario.mjs";

const { provider, inConversation } = await tracing();
const instrumentation = new LangChainInstrumentation({ tracerProvider: provider });
instrumentation.manuallyInstrument(manager);
const { createAgent, tool } = await import("langchain");
const { ChatOpenAI } = await import("@langchain/openai");
const { z } = await import("zod");
const model = new ChatOpenAI({ model: "gpt-4o-mini", apiKey: "none", maxRetries: 0, configuration: { baseURL: scenario.base } });
const wind = tool(async () => JSON.stringify(scenario.tool.result), { name: "get_wind", description: "Wind forecast for a place.", schema: z.object({ place: z.string(), day: z.string() }) });
const make = (systemPrompt) => createAgent({ model, tools: [wind], systemPrompt });
let messages = [];
for (const step of ["turn1", "turn2", "turn3"]) {
  await inConversation(scenario.conversation, async () => {
    messages.push({ role: "user", content: scenario.questions[step] });
    const agent = make(scenario.system);
    if (step === "turn2") {
      let last;
      for await (const each of await agent.stream({ messages }, { streamMode: "values" })) last = each;
      messages = last.messages;
    } else messages = (await agent.invoke({ messages })).messages;
  });
}
await inConversation(scenario.conversations.rag, () => model.invoke([["system", scenario.rag_system], ["user", scenario.rag_prompt]]));
try { await inConversation(scenario.conversations.fail, () => model.invoke([["system", scenario.system], ["user", scenario.questions.fail]])); } catch {}
await provider.shutdown();
