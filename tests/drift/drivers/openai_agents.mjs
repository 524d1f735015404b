// OpenAI Agents for JavaScript through OpenInference: the agent's own loop calls the tool, a session has the talk.
// packages: @openai/agents @arizeai/openinference-instrumentation-openai-agents
import * as agents from "@openai/agents";
import { OpenAIAgentsInstrumentation } from "@arizeai/openinference-instrumentation-openai-agents";
import OpenAI from "openai";
import { z } from "zod";
import { scenario, tracing } from "./scenario.mjs";

const { provider, inConversation } = await tracing();
const instrumentation = new OpenAIAgentsInstrumentation({ tracerProvider: provider });
instrumentation.manuallyInstrument(agents);

const { Agent, run, setDefaultOpenAIClient, tool } = agents;
setDefaultOpenAIClient(new OpenAI({ baseURL: scenario.base, apiKey: "none", maxRetries: 0 }));
const wind = tool({ name: "get_wind", description: "Wind forecast for a place.", parameters: z.object({ place: z.string(), day: z.string() }), execute: async () => JSON.stringify(scenario.tool.result) });
const make = (system) => new Agent({ name: "Borealis", instructions: system, model: "gpt-4o-mini", tools: [wind] });
let history = [];
for (const step of ["turn1", "turn2", "turn3"]) {
  await inConversation(scenario.conversation, async () => {
    history.push({ role: "user", content: scenario.questions[step] });
    const result = await run(make(scenario.system), history, { stream: step === "turn2" });
    if (step === "turn2") await result.completed;
    history = result.history;
  });
}
await inConversation(scenario.conversations.rag, () => run(make(scenario.rag_system), scenario.rag_prompt));
try { await inConversation(scenario.conversations.fail, () => run(make(scenario.system), scenario.questions.fail)); } catch {}
await new Promise((resolve) => setTimeout(resolve, 300));
await provider.shutdown();
