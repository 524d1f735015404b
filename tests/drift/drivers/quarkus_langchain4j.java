// Quarkus LangChain4j with its own spans: AI services with memory, a tool and retrieval, and a bean that writes messages with roles.
// packages: io.quarkus:quarkus-bom:3.33.2:pom io.quarkiverse.langchain4j:quarkus-langchain4j-openai:1.10.0 io.quarkus:quarkus-opentelemetry
package drift;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import dev.langchain4j.agent.tool.Tool;
import dev.langchain4j.data.message.ChatMessageSerializer;
import dev.langchain4j.model.chat.listener.ChatModelRequestContext;
import dev.langchain4j.rag.DefaultRetrievalAugmentor;
import dev.langchain4j.rag.RetrievalAugmentor;
import dev.langchain4j.rag.content.Content;
import dev.langchain4j.service.MemoryId;
import dev.langchain4j.service.SystemMessage;
import dev.langchain4j.service.UserMessage;
import dev.langchain4j.service.V;
import io.opentelemetry.api.trace.Span;
import io.opentelemetry.api.trace.Tracer;
import io.quarkiverse.langchain4j.RegisterAiService;
import io.quarkiverse.langchain4j.runtime.listeners.ChatModelSpanContributor;
import io.quarkus.runtime.Quarkus;
import io.quarkus.runtime.QuarkusApplication;
import io.quarkus.runtime.annotations.QuarkusMain;
import io.smallrye.mutiny.Multi;
import jakarta.enterprise.context.ApplicationScoped;
import jakarta.enterprise.context.control.ActivateRequestContext;
import jakarta.inject.Inject;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.function.Supplier;
import java.util.stream.StreamSupport;

@QuarkusMain
public class quarkus_langchain4j implements QuarkusApplication {
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

  @ApplicationScoped
  public static class Forecasts {
    @Tool(name = "get_wind", value = "Wind forecast for a place.")
    public String wind(String place, String day) {
      return TOLD.get("results").get(place).toString();
    }
  }

  /** What a program adds to have roles: Quarkus writes the texts of all messages as one. */
  @ApplicationScoped
  public static class Messages implements ChatModelSpanContributor {
    @Override
    public void onRequest(ChatModelRequestContext context, Span span) {
      span.setAttribute("gen_ai.input.messages", ChatMessageSerializer.messagesToJson(context.chatRequest().messages()));
    }
  }

  @RegisterAiService(tools = Forecasts.class)
  @ApplicationScoped
  public interface Borealis {
    @SystemMessage("{system}")
    String chat(@MemoryId String id, @V("system") String system, @UserMessage String question);

    @SystemMessage("{system}")
    Multi<String> stream(@MemoryId String id, @V("system") String system, @UserMessage String question);
  }

  @ApplicationScoped
  public static class Documents implements Supplier<RetrievalAugmentor> {
    @Override
    public RetrievalAugmentor get() {
      var texts = StreamSupport.stream(TOLD.get("documents").spliterator(), false).map(each -> Content.from(each.get("text").asText())).toList();
      return DefaultRetrievalAugmentor.builder().contentRetriever(query -> texts).build();
    }
  }

  @RegisterAiService(retrievalAugmentor = Documents.class)
  @ApplicationScoped
  public interface Reader {
    @SystemMessage("{system}")
    String chat(@MemoryId String id, @V("system") String system, @UserMessage String question);
  }

  @Inject Borealis borealis;
  @Inject Reader reader;
  @Inject Tracer tracer;

  public static void main(String[] arguments) {
    System.setProperty("quarkus.langchain4j.openai.base-url", told("base"));
    System.setProperty("quarkus.langchain4j.openai.api-key", "none");
    System.setProperty("quarkus.langchain4j.openai.chat-model.model-name", "gpt-4o-mini");
    System.setProperty("quarkus.langchain4j.openai.max-retries", "1");
    System.setProperty("quarkus.otel.exporter.otlp.traces.endpoint", told("origin"));
    System.setProperty("quarkus.otel.exporter.otlp.traces.protocol", "http/protobuf");
    System.setProperty("quarkus.otel.service.name", told("service"));
    for (var content : List.of("prompt", "completion", "tool-arguments", "tool-result"))
      System.setProperty("quarkus.langchain4j.tracing.include-" + content, "true");
    Quarkus.run(quarkus_langchain4j.class, arguments);
  }

  @Override
  @ActivateRequestContext
  public int run(String... arguments) {
    for (var step : List.of("turn1", "turn2", "turn3", "parallel", "retry", "japanese", "rag", "fail")) {
      var known = TOLD.get("conversations").get(step);
      var conversation = known == null ? told("conversation") : known.asText();
      var span = tracer.spanBuilder("request " + step).setNoParent().setAttribute("session.id", conversation).setAttribute("user.id", told("user")).startSpan();
      try (var scope = span.makeCurrent()) {
        var system = told(step.equals("rag") ? "rag_system" : "system");
        var question = TOLD.get("questions").get(step).asText();
        if (step.equals("rag")) reader.chat(conversation, system, question);
        else if (List.of("turn2", "parallel").contains(step)) borealis.stream(conversation, system, question).collect().asList().await().indefinitely();
        else borealis.chat(conversation, system, question);
      } catch (Exception error) {
        System.out.println("failed " + error);
      } finally {
        span.end();
      }
    }
    return 0;
  }
}
