// OpenAI's client for Java with OpenTelemetry's own instrumentation: texts are log records, the history is kept by hand.
// packages: io.opentelemetry:opentelemetry-bom:1.65.0:pom com.openai:openai-java:4.8.0 io.opentelemetry.instrumentation:opentelemetry-openai-java-1.1:2.31.1-alpha io.opentelemetry:opentelemetry-sdk io.opentelemetry:opentelemetry-exporter-otlp
package drift;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.openai.client.okhttp.OpenAIOkHttpClient;
import com.openai.core.JsonValue;
import com.openai.helpers.ChatCompletionAccumulator;
import com.openai.models.FunctionDefinition;
import com.openai.models.FunctionParameters;
import com.openai.models.chat.completions.ChatCompletion;
import com.openai.models.chat.completions.ChatCompletionCreateParams;
import com.openai.models.chat.completions.ChatCompletionFunctionTool;
import com.openai.models.chat.completions.ChatCompletionStreamOptions;
import com.openai.models.chat.completions.ChatCompletionToolMessageParam;
import io.opentelemetry.api.common.Attributes;
import io.opentelemetry.exporter.otlp.http.logs.OtlpHttpLogRecordExporter;
import io.opentelemetry.exporter.otlp.http.trace.OtlpHttpSpanExporter;
import io.opentelemetry.instrumentation.openai.v1_1.OpenAITelemetry;
import io.opentelemetry.sdk.OpenTelemetrySdk;
import io.opentelemetry.sdk.logs.SdkLoggerProvider;
import io.opentelemetry.sdk.logs.export.BatchLogRecordProcessor;
import io.opentelemetry.sdk.resources.Resource;
import io.opentelemetry.sdk.trace.SdkTracerProvider;
import io.opentelemetry.sdk.trace.export.BatchSpanProcessor;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;

public class openai_java {
  static final JsonNode TOLD = load();

  static JsonNode load() {
    try {
      return new ObjectMapper().readTree(Files.readString(Path.of(System.getenv("DRIFT_SCENARIO"))));
    } catch (Exception error) {
      throw new IllegalStateException(error);
    }
  }

  static String told(String name) {
    return TOLD.get(name).asText();
  }

  static ChatCompletionFunctionTool tool() {
    var fields = Map.of("place", Map.of("type", "string"), "day", Map.of("type", "string"));
    var form = FunctionParameters.builder().putAdditionalProperty("type", JsonValue.from("object")).putAdditionalProperty("properties", JsonValue.from(fields)).build();
    return ChatCompletionFunctionTool.builder().function(FunctionDefinition.builder().name("get_wind").description("Wind forecast for a place.").parameters(form).build()).build();
  }

  public static void main(String[] arguments) throws Exception {
    var resource = Resource.create(Attributes.builder().put("service.name", told("service")).build());
    var spans = OtlpHttpSpanExporter.builder().setEndpoint(told("origin") + "/v1/traces").build();
    var records = OtlpHttpLogRecordExporter.builder().setEndpoint(told("origin") + "/v1/logs").build();
    var tracing = SdkTracerProvider.builder().setResource(resource).addSpanProcessor(BatchSpanProcessor.builder(spans).build()).build();
    var logging = SdkLoggerProvider.builder().setResource(resource).addLogRecordProcessor(BatchLogRecordProcessor.builder(records).build()).build();
    var telemetry = OpenTelemetrySdk.builder().setTracerProvider(tracing).setLoggerProvider(logging).build();
    var plain = OpenAIOkHttpClient.builder().baseUrl(told("base")).apiKey("none").maxRetries(0).build();
    var client = OpenAITelemetry.builder(telemetry).setCaptureMessageContent(true).build().wrap(plain);
    var talk = ChatCompletionCreateParams.builder().model("gpt-4o-mini").addSystemMessage(told("system"));
    for (var step : List.of("turn1", "turn2", "turn3", "parallel", "japanese", "rag", "fail")) {
      var known = TOLD.get("conversations").get(step);
      var conversation = known == null ? told("conversation") : known.asText();
      var span = telemetry.getTracer("application").spanBuilder("request " + step).setAttribute("session.id", conversation).setAttribute("user.id", told("user")).startSpan();
      try (var scope = span.makeCurrent()) {
        var builder = known == null ? talk : ChatCompletionCreateParams.builder().model("gpt-4o-mini").addSystemMessage(told(step.equals("rag") ? "rag_system" : "system"));
        builder.addUserMessage(step.equals("rag") ? told("rag_prompt") : TOLD.get("questions").get(step).asText());
        if (step.equals("turn3")) builder.addTool(tool());
        var streamed = List.of("turn2", "parallel").contains(step);
        for (var more = true; more; ) {
          var message = ask(client, builder, streamed).choices().get(0).message();
          builder.addMessage(message);
          var calls = message.toolCalls().orElse(List.of());
          for (var call : calls) {
            var place = new ObjectMapper().readTree(call.asFunction().function().arguments()).get("place").asText();
            builder.addMessage(ChatCompletionToolMessageParam.builder().toolCallId(call.asFunction().id()).content(TOLD.get("results").get(place).toString()).build());
          }
          more = !calls.isEmpty();
        }
      } catch (Exception error) {
        System.out.println("failed " + error);
      } finally {
        span.end();
      }
    }
    tracing.close();
    logging.close();
  }

  static ChatCompletion ask(com.openai.client.OpenAIClient client, ChatCompletionCreateParams.Builder builder, boolean streamed) {
    if (!streamed) return client.chat().completions().create(builder.build());
    var whole = ChatCompletionAccumulator.create();
    var options = ChatCompletionStreamOptions.builder().includeUsage(true).build();
    try (var pieces = client.chat().completions().createStreaming(builder.build().toBuilder().streamOptions(options).build())) {
      pieces.stream().forEach(whole::accumulate);
    }
    return whole.chatCompletion();
  }
}
