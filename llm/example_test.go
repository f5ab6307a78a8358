package llm_test

import (
	"context"
	"fmt"
	"log"

	"github.com/goggml/ggml/llm"
	"github.com/goggml/ggml/llm/chat"
	"github.com/goggml/ggml/llm/sample"
)

// Chat with a model and a run's adapter: append the model's answer to the conversation, then ask the next question.
func ExampleNewAssistant() {
	assistant, err := llm.NewAssistant("model.gguf", llm.Options{
		Adapters: []string{"runs/desk"},
		Sampling: sample.Options{Temperature: 0.7, MinP: 0.1},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer assistant.Close()
	talk := &chat.Conversation{Messages: []chat.Message{chat.NewMessage("user", "How long does delivery take?")}}
	tokens, reply := assistant.Stream(context.Background(), talk)
	for token, err := range tokens {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Print(token.Text)
	}
	talk.Messages = append(talk.Messages, chat.NewMessage("assistant", reply.Content), chat.NewMessage("user", "Thanks."))
	// Output: Five days within the country.
}
