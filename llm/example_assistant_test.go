package llm_test

import (
	"context"
	"fmt"
	"log"

	"github.com/goggml/ggml/llm"
	"github.com/goggml/ggml/llm/chat"
)

// Ask a model and print its answer as it is generated.
func ExampleAssistant() {
	assistant, err := llm.NewAssistant("model.gguf", llm.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer assistant.Close()
	tokens, _ := assistant.Stream(context.Background(), &chat.Conversation{Messages: []chat.Message{chat.NewMessage("user", "Why is the sky blue?")}})
	for token, err := range tokens {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Print(token.Text)
	}
	// Output: Because air scatters blue light most.
}
