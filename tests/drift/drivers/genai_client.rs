// The genai crate with its own spans (Rust): a client of models, whose tools the application runs, a history by hand.
// packages: genai[otel] opentelemetry opentelemetry_sdk opentelemetry-otlp[-default,http-proto,trace,reqwest-blocking-client] tracing tracing-opentelemetry tracing-subscriber tokio[full] futures serde_json
use futures::StreamExt;
use genai::adapter::AdapterKind;
use genai::chat::{ChatMessage, ChatOptions, ChatRequest, ChatStreamEvent, Tool, ToolCall, ToolResponse};
use genai::resolver::{AuthData, Endpoint, ServiceTargetResolver};
use genai::{Client, ModelIden, ServiceTarget};
use opentelemetry::trace::TracerProvider;
use serde_json::Value;
use tracing::Instrument;
use tracing_subscriber::layer::SubscriberExt;

fn text<'a>(told: &'a Value, name: &str) -> &'a str {
    told[name].as_str().unwrap_or_default()
}

async fn ask(client: &Client, request: &ChatRequest, streamed: bool) -> Result<(String, Vec<ToolCall>), genai::Error> {
    let options = ChatOptions::default().with_capture_content(true).with_capture_usage(true).with_capture_tool_calls(true);
    if !streamed {
        let answer = client.exec_chat("gpt-4o-mini", request.clone(), Some(&options)).await?;
        return Ok((answer.first_text().unwrap_or_default().to_string(), answer.into_tool_calls()));
    }
    let mut stream = client.exec_chat_stream("gpt-4o-mini", request.clone(), Some(&options)).await?.stream;
    let mut said = (String::new(), vec![]);
    while let Some(event) = stream.next().await {
        if let ChatStreamEvent::End(end) = event? {
            let content = end.captured_content.unwrap_or_default();
            said = (content.first_text().unwrap_or_default().to_string(), content.into_tool_calls());
        }
    }
    Ok(said)
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
    let only = tracing_subscriber::filter::Targets::new().with_target("genai", tracing::Level::INFO).with_target("driver", tracing::Level::INFO);
    tracing::subscriber::set_global_default(tracing_subscriber::registry().with(only).with(layer)).unwrap();

    let base = format!("{}/", text(&told, "base"));
    let target = move |asked: ServiceTarget| -> Result<ServiceTarget, genai::resolver::Error> {
        let model = ModelIden::new(AdapterKind::OpenAI, asked.model.model_name);
        Ok(ServiceTarget { endpoint: Endpoint::from_owned(base.clone()), auth: AuthData::from_single("none"), model })
    };
    let client = Client::builder().with_service_target_resolver(ServiceTargetResolver::from_resolver_fn(target)).build().unwrap();
    let function = &told["tool_definition"]["function"];
    let wind = Tool::new(text(function, "name")).with_description(text(function, "description")).with_schema(function["parameters"].clone());

    let mut talk = ChatRequest::from_system(text(&told, "system")).with_tools(vec![wind]);
    for step in ["turn1", "turn2", "turn3", "parallel", "japanese", "rag", "fail"] {
        let conversation = told["conversations"][step].as_str().unwrap_or(text(&told, "conversation"));
        let span = tracing::info_span!("request", session.id = conversation, user.id = text(&told, "user"));
        let mut request = match step {
            "rag" => ChatRequest::from_system(text(&told, "rag_system")).append_message(ChatMessage::user(text(&told, "rag_prompt"))),
            "fail" => ChatRequest::from_system(text(&told, "system")).append_message(ChatMessage::user(text(&told["questions"], step))),
            _ => talk.clone().append_message(ChatMessage::user(text(&told["questions"], step))),
        };
        async {
            let streamed = ["turn2", "parallel"].contains(&step);
            loop {
                let Ok((said, calls)) = ask(&client, &request, streamed).await else {
                    break println!("failed");
                };
                if calls.is_empty() {
                    break request = request.clone().append_message(ChatMessage::assistant(said));
                }
                request = request.clone().append_message(calls.clone());
                for call in calls {
                    let result = told["results"][text(&call.fn_arguments, "place")].to_string();
                    request = request.clone().append_message(ToolResponse::new(call.call_id, result));
                }
            }
        }
        .instrument(span)
        .await;
        if !["rag", "fail"].contains(&step) {
            talk = request;
        }
    }
    tokio::task::spawn_blocking(move || provider.shutdown()).await.unwrap().unwrap();
}
