// LangChain4j without a framework, with the wrappers of Braintrust's SDK: AI services with memory, a stream and tools.
// packages: io.opentelemetry:opentelemetry-bom:1.68.0:pom dev.langchain4j:langchain4j:1.19.0 dev.langchain4j:langchain4j-open-ai:1.19.0 dev.braintrust:braintrust-sdk-java:0.3.6 io.opentelemetry:opentelemetry-exporter-otlp
package drift;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import dev.braintrust.instrumentation.langchain.v1_8_0.BraintrustLangchain;
import dev.langchain4j.agent.tool.P;
import dev.langchain4j.agent.tool.Tool;
import dev.langchain4j.memory.chat.MessageWindowChatMemory;
import dev.langchain4j.model.openai.OpenAiChatModel;
import dev.langchain4j.model.openai.OpenAiStreamingChatModel;
import dev.langchain4j.rag.content.Content;
import dev.langchain4j.service.AiServices;
import dev.langchain4j.service.MemoryId;
import dev.langchain4j.service.TokenStream;
import dev.langchain4j.service.UserMessage;
import io.opentelemetry.exporter.otlp.http.trace.OtlpHttpSpanExporter;
import io.opentelemetry.sdk.OpenTelemetrySdk;
import io.opentelemetry.sdk.resources.Resource;
import io.opentelemetry.sdk.trace.SdkTracerProvider;
import io.opentelemetry.sdk.trace.export.BatchSpanProcessor;
import io.opentelemetry.api.common.Attributes;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.stream.StreamSupport;

public class langchain4j_braintrust {
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

  public static class Forecasts {
    @Tool(name = "get_wind", value = "Wind forecast for a place.")
    public String wind(@P(name = "place", value = "Where") String place, @P(name = "day", value = "When") String day) {
      return TOLD.get("results").get(place).toString();
    }
  }

  public interface Borealis {
    String chat(@MemoryId String id, @UserMessage String question);

    TokenStream stream(@MemoryId String id, @UserMessage String question);
  }

  public static void main(String[] arguments) throws Exception {
    var exporter = OtlpHttpSpanExporter.builder().setEndpoint(told("origin") + "/v1/traces").build();
    var resource = Resource.create(Attributes.builder().put("service.name", told("service")).build());
    var provider = SdkTracerProvider.builder().setResource(resource).addSpanProcessor(BatchSpanProcessor.builder(exporter).build()).build();
    var telemetry = OpenTelemetrySdk.builder().setTracerProvider(provider).build();
    var chat = OpenAiChatModel.builder().baseUrl(told("base")).apiKey("none").modelName("gpt-4o-mini").maxRetries(1).build();
    // The wrapper of a service leaves its streaming model alone: that one has a wrapper of its own.
    var streaming = BraintrustLangchain.wrap(telemetry, OpenAiStreamingChatModel.builder().baseUrl(told("base")).apiKey("none").modelName("gpt-4o-mini"));
    var borealis = BraintrustLangchain.wrap(telemetry, AiServices.builder(Borealis.class).chatModel(chat).streamingChatModel(streaming)
        .systemMessageProvider(id -> told("system")).tools(new Forecasts())
        .chatMemoryProvider(id -> MessageWindowChatMemory.withMaxMessages(40)));
    var texts = StreamSupport.stream(TOLD.get("documents").spliterator(), false).map(each -> Content.from(each.get("text").asText())).toList();
    var reader = BraintrustLangchain.wrap(telemetry, AiServices.builder(Borealis.class).chatModel(chat).streamingChatModel(streaming)
        .systemMessageProvider(id -> told("rag_system")).contentRetriever(query -> texts)
        .chatMemoryProvider(id -> MessageWindowChatMemory.withMaxMessages(40)));
    for (var step : List.of("turn1", "turn2", "turn3", "parallel", "retry", "japanese", "rag", "fail")) {
      var known = TOLD.get("conversations").get(step);
      var conversation = known == null ? told("conversation") : known.asText();
      var span = telemetry.getTracer("application").spanBuilder("request " + step).setAttribute("session.id", conversation).setAttribute("user.id", told("user")).startSpan();
      try (var scope = span.makeCurrent()) {
        var question = TOLD.get("questions").get(step).asText();
        var service = step.equals("rag") ? reader : borealis;
        if (List.of("turn2", "parallel").contains(step)) {
          var done = new CompletableFuture<Object>();
          service.stream(conversation, question).onPartialResponse(text -> {}).onCompleteResponse(done::complete).onError(done::completeExceptionally).start();
          done.get();
        } else service.chat(conversation, question);
      } catch (Exception error) {
        System.out.println("failed " + error);
      } finally {
        span.end();
      }
    }
    provider.close();
  }
}
