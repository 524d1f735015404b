// Rig with its own spans (Rust): an agent that calls its tool, a history by hand, content recorded. They name no failure.
// packages: rig opentelemetry opentelemetry_sdk opentelemetry-otlp[-default,http-proto,trace,reqwest-blocking-client] tracing tracing-opentelemetry tracing-subscriber tokio[full] futures serde[derive] serde_json
use futures::StreamExt;
use opentelemetry::trace::TracerProvider;
use rig::agent::tool::{Tool, ToolContext};
use rig::agent::{Agent, AgentBuilder};
use rig::completion::Message;
use rig::providers::openai::OpenAI;
use serde_json::{Value, json};
use std::convert::Infallible;
use tracing::Instrument;
use tracing_subscriber::layer::SubscriberExt;

#[derive(Clone)]
struct Wind(Value);

#[derive(serde::Deserialize)]
struct Place {
    place: String,
}

impl Tool for Wind {
    const NAME: &'static str = "get_wind";
    type Args = Place;
    type Output = Value;
    type Error = Infallible;

    fn description(&self) -> String {
        "Wind forecast for a place.".into()
    }

    fn parameters(&self) -> Value {
        let text = json!({"type": "string"});
        json!({"type": "object", "properties": {"place": text, "day": text}, "required": ["place", "day"]})
    }

    async fn call(&self, _: &mut ToolContext, asked: Place) -> Result<Value, Infallible> {
        Ok(self.0[asked.place].clone())
    }
}

fn text<'a>(told: &'a Value, name: &str) -> &'a str {
    told[name].as_str().unwrap_or_default()
}

fn agent(told: &Value, system: &str) -> Agent {
    let model = OpenAI::from_env().unwrap().chat("gpt-4o-mini"); // at OPENAI_BASE_URL
    let builder = AgentBuilder::new(model).name("Borealis").preamble(text(told, system)).default_max_turns(4);
    builder.record_content_telemetry(true).tool(Wind(told["results"].clone())).build()
}

#[tokio::main]
async fn main() {
    let told: Value = serde_json::from_str(&std::fs::read_to_string(std::env::var("DRIFT_SCENARIO").unwrap()).unwrap()).unwrap();
    let service = opentelemetry_sdk::Resource::builder().with_service_name(text(&told, "service").to_string()).build();
    let provider = tokio::task::spawn_blocking(|| {
        let exporter = opentelemetry_otlp::SpanExporter::builder().with_http().build().unwrap();
        opentelemetry_sdk::trace::SdkTracerProvider::builder().with_batch_exporter(exporter).with_resource(service).build()
    })
    .await
    .unwrap();
    let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("application"));
    let only = tracing_subscriber::filter::Targets::new().with_target("rig", tracing::Level::INFO);
    let only = only.with_target("rig_core", tracing::Level::INFO).with_target("rig_agent", tracing::Level::INFO).with_target("driver", tracing::Level::INFO);
    tracing::subscriber::set_global_default(tracing_subscriber::registry().with(only).with(layer)).unwrap();

    let mut history: Vec<Message> = vec![];
    for step in ["turn1", "turn2", "turn3", "parallel", "japanese", "rag"] {
        let conversation = told["conversations"][step].as_str().unwrap_or(text(&told, "conversation"));
        let span = tracing::info_span!("request", session.id = conversation, user.id = text(&told, "user"));
        let question = if step == "rag" { text(&told, "rag_prompt") } else { text(&told["questions"], step) };
        let own = agent(&told, if step == "rag" { "rag_system" } else { "system" });
        let past = if step == "rag" { vec![] } else { history.clone() };
        async {
            let run = own.prompt(question).history(past);
            if ["turn2", "parallel"].contains(&step) {
                let mut stream = run.stream();
                let mut said = String::new();
                while let Some(item) = stream.next().await {
                    if let Ok(rig::agent::MultiTurnStreamItem::FinalResponse(end)) = item {
                        said = end.output().to_string();
                    }
                }
                history.extend([Message::user(question), Message::assistant(said)]);
            } else {
                let answer = run.await.unwrap();
                history.extend([Message::user(question), Message::assistant(answer.output().to_string())]);
            }
        }
        .instrument(span)
        .await;
    }
    tokio::task::spawn_blocking(move || provider.shutdown()).await.unwrap().unwrap();
}
