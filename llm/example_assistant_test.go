package llm_test

import (
	"context"
	"fmt"

	"github.com/goggml/ggml/llm"
	"github.com/goggml/ggml/llm/chat"
)

// Ask a model and print its answer as it is generated.
func ExampleAssistant() {
	assistant := must(llm.NewAssistant("model.gguf", llm.Options{}))
	defer assistant.Close()
	tokens, _ := assistant.Stream(context.Background(), &chat.Conversation{Messages: []chat.Message{chat.NewMessage("user", "Why is the sky blue?")}})
	for token, err := range tokens {
		check(err)
		fmt.Print(token.Text)
	}
	// Output: Because air scatters blue light most.
}
