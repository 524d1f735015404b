// Spring AI with its own observations: a chat client with memory and a tool; prompts and answers are log records.
// packages: org.springframework.boot:spring-boot-dependencies:4.0.7:pom org.springframework.ai:spring-ai-starter-model-openai:2.0.1 org.springframework.boot:spring-boot-starter-opentelemetry:4.0.7 io.opentelemetry.instrumentation:opentelemetry-logback-appender-1.0:2.16.0-alpha com.squareup.okio:okio-jvm:3.16.0
package drift;

import io.micrometer.observation.ObservationHandler;
import io.micrometer.tracing.Tracer;
import io.opentelemetry.api.OpenTelemetry;
import io.opentelemetry.instrumentation.logback.appender.v1_0.OpenTelemetryAppender;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import org.slf4j.LoggerFactory;
import org.springframework.ai.chat.client.ChatClient;
import org.springframework.ai.chat.client.advisor.MessageChatMemoryAdvisor;
import org.springframework.ai.chat.client.observation.ChatClientCompletionObservationHandler;
import org.springframework.ai.chat.client.observation.ChatClientObservationContext;
import org.springframework.ai.chat.client.observation.ChatClientPromptContentObservationHandler;
import org.springframework.ai.chat.memory.ChatMemory;
import org.springframework.ai.chat.memory.MessageWindowChatMemory;
import org.springframework.ai.observation.TracingAwareLoggingObservationHandler;
import org.springframework.ai.tool.annotation.Tool;
import org.springframework.boot.CommandLineRunner;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.context.annotation.Bean;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.json.JsonMapper;

@SpringBootApplication
public class spring_ai {
  static final JsonNode TOLD = load();

  static JsonNode load() {
    try {
      return JsonMapper.shared().readTree(Files.readString(Path.of(System.getenv("DRIFT_SCENARIO"))));
    } catch (Exception error) {
      throw new IllegalStateException(error);
    }
  }

  static String told(String name) {
    return TOLD.get(name).asString();
  }

  public static class Forecasts {
    @Tool(name = "get_wind", description = "Wind forecast for a place.")
    public Map<?, ?> wind(String place, String day) {
      return JsonMapper.shared().convertValue(TOLD.get("results").get(place), Map.class);
    }
  }

  public static void main(String[] arguments) {
    var application = new SpringApplication(spring_ai.class);
    application.setDefaultProperties(Map.ofEntries(
        Map.entry("spring.application.name", told("service")), Map.entry("spring.ai.openai.base-url", told("base")),
        Map.entry("spring.ai.openai.api-key", "none"), Map.entry("spring.ai.openai.chat.options.model", "gpt-4o-mini"),
        Map.entry("spring.ai.openai.chat.max-retries", "0"), Map.entry("spring.ai.openai.max-retries", "0"),
        Map.entry("spring.ai.tools.observations.include-content", "true"),
        Map.entry("management.tracing.sampling.probability", "1.0"),
        Map.entry("management.opentelemetry.tracing.export.otlp.endpoint", told("origin") + "/v1/traces"),
        Map.entry("management.opentelemetry.logging.export.otlp.endpoint", told("origin") + "/v1/logs"),
        Map.entry("management.otlp.metrics.export.enabled", "false")));
    application.run(arguments).close();
  }

  // What spring.ai.chat.client.observations.log-prompt and log-completion turn on; with Boot 4.0 they find no tracer.
  @Bean
  ObservationHandler<ChatClientObservationContext> prompts(Tracer tracer) {
    return new TracingAwareLoggingObservationHandler<>(new ChatClientPromptContentObservationHandler(), tracer);
  }

  @Bean
  ObservationHandler<ChatClientObservationContext> completions(Tracer tracer) {
    return new TracingAwareLoggingObservationHandler<>(new ChatClientCompletionObservationHandler(), tracer);
  }

  @Bean
  CommandLineRunner talk(ChatClient.Builder builder, Tracer tracer, OpenTelemetry telemetry) {
    return arguments -> {
      OpenTelemetryAppender.install(telemetry);
      var logger = (ch.qos.logback.classic.Logger) LoggerFactory.getLogger("org.springframework.ai.chat");
      var appender = new OpenTelemetryAppender();
      appender.setContext(logger.getLoggerContext());
      appender.setOpenTelemetry(telemetry);
      appender.start();
      logger.addAppender(appender);
      var memory = MessageWindowChatMemory.builder().maxMessages(40).build();
      var client = builder.defaultAdvisors(MessageChatMemoryAdvisor.builder(memory).build()).build();
      for (var step : List.of("turn1", "turn2", "turn3", "parallel", "rag", "fail")) {
        var conversation = TOLD.get("conversations").has(step) ? TOLD.get("conversations").get(step).asString() : told("conversation");
        var span = tracer.nextSpan().name("request " + step).tag("user.id", told("user")).start();
        try (var scope = tracer.withSpan(span)) {
          var request = client.prompt().system(told(step.equals("rag") ? "rag_system" : "system"))
              .user(step.equals("rag") ? told("rag_prompt") : TOLD.get("questions").get(step).asString())
              .advisors(advisor -> advisor.param(ChatMemory.CONVERSATION_ID, conversation));
          if (List.of("turn3", "parallel").contains(step)) request = request.tools(new Forecasts());
          if (List.of("turn2", "parallel").contains(step)) request.stream().content().blockLast();
          else request.call().content();
        } catch (Exception error) {
          System.out.println("failed " + error);
        } finally {
          span.end();
        }
      }
    };
  }
}
