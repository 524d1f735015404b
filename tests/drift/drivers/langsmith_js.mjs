// LangSmith for JavaScript with its OpenTelemetry export: a wrapped client, traceable functions, a tool by hand.
// packages: langsmith @opentelemetry/context-async-hooks @opentelemetry/sdk-trace-base
process.env.LANGSMITH_TRACING = "true";
process.env.LANGSMITH_OTEL_ENABLED = "true";
process.env.LANGSMITH_API_KEY = "none";
import { readFileSync } from "node:fs";
const scenario = JSON.parse(readFileSync(process.env.DRIFT_SCENARIO, "utf8"));
process.env.LANGSMITH_ENDPOINT = scenario.origin;
const { initializeOTEL } = await import("langsmith/experimental/otel/setup");
const components = initializeOTEL({ exporterConfig: { url: `${scenario.origin}/v1/traces` } });
const { traceable } = await import("langsmith/traceable");
const { wrapOpenAI } = await import("langsmith/wrappers");
const { Client } = await import("langsmith");
const { default: OpenAI } = await import("openai");

const client = new Client();
const model = wrapOpenAI(new OpenAI({ baseURL: scenario.base, apiKey: "none", maxRetries: 0 }), { client });
const getWind = traceable(async () => scenario.tool.result, { name: "get_wind", run_type: "tool", client });
// copies: the client reads what it was given only when it sends a batch
const complete = (messages, options = {}) =>
  model.chat.completions.create({ model: "gpt-4o-mini", messages: [...messages], ...options });

const answer = async (step, messages) => {
  if (step === "turn2") {
    let text = "";
    const stream = await complete(messages, { stream: true, stream_options: { include_usage: true } });
    for await (const each of stream) text += each.choices[0]?.delta?.content ?? "";
    return { role: "assistant", content: text };
  }
  let message = (await complete(messages, step === "turn3" ? { tools: [scenario.tool_definition] } : {})).choices[0].message;
  for (const call of message.tool_calls ?? []) {
    messages.push(message);
    const result = await getWind(JSON.parse(call.function.arguments));
    messages.push({ role: "tool", tool_call_id: call.id, content: JSON.stringify(result) });
    message = (await complete(messages, { tools: [scenario.tool_definition] })).choices[0].message;
  }
  return message;
};
const turn = (step, messages) => {
  const metadata = { session_id: scenario.conversations[step] ?? scenario.conversation, user_id: scenario.user };
  return traceable((question) => answer(step, messages), { name: `request ${step}`, metadata, client })(messages.at(-1).content);
};
const history = [{ role: "system", content: scenario.system }];
for (const step of ["turn1", "turn2", "turn3"]) {
  history.push({ role: "user", content: scenario.questions[step] });
  history.push(await turn(step, history));
}
await turn("rag", [{ role: "system", content: scenario.rag_system }, { role: "user", content: scenario.rag_prompt }]);
try { await turn("fail", [{ role: "system", content: scenario.system }, { role: "user", content: scenario.questions.fail }]); } catch {}
await client.awaitPendingTraceBatches();
await components.DEFAULT_LANGSMITH_TRACER_PROVIDER.forceFlush();
await components.DEFAULT_LANGSMITH_TRACER_PROVIDER.shutdown();
