// The scenario and a tracer for drivers in JavaScript: see scenario.py.
import { readFileSync } from "node:fs";
import { context, trace } from "@opentelemetry/api";
import { setSession, setUser } from "@arizeai/openinference-core";
import { NodeTracerProvider, SimpleSpanProcessor } from "@opentelemetry/sdk-trace-node";
import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-proto";
import { resourceFromAttributes } from "@opentelemetry/resources";

export const scenario = JSON.parse(readFileSync(process.env.DRIFT_SCENARIO, "utf8"));

export async function tracing() {
  const exporter = new OTLPTraceExporter({ url: `${scenario.origin}/v1/traces` });
  const provider = new NodeTracerProvider({
    resource: resourceFromAttributes({ "service.name": scenario.service }),
    spanProcessors: [new SimpleSpanProcessor(exporter)],
  });
  provider.register();
  const inConversation = (id, work) =>
    context.with(setUser(setSession(context.active(), { sessionId: id }), { userId: scenario.user }), work);
  return { provider, trace, inConversation };
}
