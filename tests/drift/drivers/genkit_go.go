// Genkit for Go with its own traces: the plug-in for OpenAI's API, a tool that Genkit calls itself, a history by hand.
// packages: github.com/firebase/genkit/go go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"

	"github.com/firebase/genkit/go/ai"
	"github.com/firebase/genkit/go/core/api"
	"github.com/firebase/genkit/go/genkit"
	"github.com/firebase/genkit/go/plugins/compat_oai"
	"github.com/openai/openai-go/option"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

type scenario struct {
	Base, Service, System, Conversation, User string
	RagSystem                                 string `json:"rag_system"`
	RagPrompt                                 string `json:"rag_prompt"`
	Questions, Conversations                  map[string]string
	Tool                                      struct{ Result map[string]any }
}

type place struct {
	Place string `json:"place"`
	Day   string `json:"day"`
}

func main() {
	ctx := context.Background()
	text, _ := os.ReadFile(os.Getenv("DRIFT_SCENARIO"))
	var talk scenario
	if err := json.Unmarshal(text, &talk); err != nil {
		panic(err)
	}
	exporter, err := otlptracehttp.New(ctx)
	if err != nil {
		panic(err)
	}
	service := resource.NewSchemaless(attribute.String("service.name", talk.Service))
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(exporter), sdktrace.WithResource(service))
	otel.SetTracerProvider(provider)
	defer provider.Shutdown(ctx)

	plugin := &compat_oai.OpenAICompatible{
		Provider: "openai", APIKey: "none", BaseURL: talk.Base, Opts: []option.RequestOption{option.WithMaxRetries(0)},
	}
	g := genkit.Init(ctx, genkit.WithPlugins(plugins(plugin)...))
	model := plugin.DefineModel("openai", "gpt-4o-mini", ai.ModelOptions{Supports: &compat_oai.BasicText})
	wind := genkit.DefineTool(g, "get_wind", "Wind forecast for a place.",
		func(_ *ai.ToolContext, _ place) (map[string]any, error) { return talk.Tool.Result, nil })

	history := []*ai.Message{ai.NewSystemTextMessage(talk.System)}
	ask := func(step string, messages []*ai.Message, options ...ai.GenerateOption) *ai.ModelResponse {
		conversation := talk.Conversations[step]
		if conversation == "" {
			conversation = talk.Conversation
		}
		inner, span := otel.Tracer("application").Start(ctx, "request "+step)
		defer span.End()
		span.SetAttributes(attribute.String("session.id", conversation), attribute.String("user.id", talk.User))
		options = append(options, ai.WithModel(model), ai.WithMessages(messages...))
		response, err := genkit.Generate(inner, g, options...)
		if err != nil {
			fmt.Println("failed")
			return nil
		}
		return response
	}
	for _, step := range []string{"turn1", "turn2", "turn3"} {
		history = append(history, ai.NewUserTextMessage(talk.Questions[step]))
		options := []ai.GenerateOption{}
		if step == "turn2" {
			stream := func(context.Context, *ai.ModelResponseChunk) error { return nil }
			options = append(options, ai.WithStreaming(stream))
		}
		if step == "turn3" {
			options = append(options, ai.WithTools(wind))
		}
		response := ask(step, history, options...)
		history = append(history, response.Message)
	}
	ask("rag", []*ai.Message{ai.NewSystemTextMessage(talk.RagSystem), ai.NewUserTextMessage(talk.RagPrompt)})
	ask("fail", []*ai.Message{ai.NewSystemTextMessage(talk.System), ai.NewUserTextMessage(talk.Questions["fail"])})
}

func plugins(each ...api.Plugin) []api.Plugin { return each }
