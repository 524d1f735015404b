// VoltAgent with its own traces: an agent with memory, a tool, a retriever.
// packages: @voltagent/core @ai-sdk/openai ai
import { Agent, BaseRetriever, Memory, InMemoryStorageAdapter, VoltAgentObservability, createTool } from "@voltagent/core";
import { createOpenAI } from "@ai-sdk/openai";
import { SimpleSpanProcessor } from "@opentelemetry/sdk-trace-node";
import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-proto";
import { z } from "zod";
import { scenario } from "./scenario.mjs";

const exporter = new OTLPTraceExporter({ url: `${scenario.origin}/v1/traces` });
const observability = new VoltAgentObservability({
  serviceName: scenario.service,
  spanProcessors: [new SimpleSpanProcessor(exporter)],
});
const model = createOpenAI({ baseURL: scenario.base, apiKey: "none" }).chat("gpt-4o-mini");
const getWind = createTool({
  name: "get_wind",
  description: "Wind forecast for a place.",
  parameters: z.object({ place: z.string(), day: z.string() }),
  execute: async ({ place }) => scenario.results[place],
});

class Documents extends BaseRetriever {
  async retrieve() {
    return scenario.documents.map((each) => each.text).join("\n");
  }
}
const memory = new Memory({ storage: new InMemoryStorageAdapter() });
const agent = new Agent({ name: "Borealis", instructions: scenario.system, model, tools: [getWind], memory, observability });
const reader = new Agent({ name: "Reader", instructions: scenario.rag_system, model, retriever: new Documents(), memory, observability });

for (const step of ["turn1", "turn2", "turn3", "parallel", "retry", "rag", "fail"]) {
  const options = {
    userId: scenario.user,
    conversationId: scenario.conversations[step] ?? scenario.conversation,
    maxRetries: step === "retry" ? 2 : 0,
  };
  try {
    if (step === "turn2" || step === "parallel") {
      const stream = await agent.streamText(scenario.questions[step], options);
      for await (const _ of stream.textStream);
    } else await (step === "rag" ? reader : agent).generateText(scenario.questions[step], options);
  } catch (error) {
    console.log(JSON.stringify({ failed: error.name }));
  }
}
await observability.shutdown();
process.exit(0);
