package llm_test

import (
	"context"
	"fmt"
	"log"
	"sync"

	"github.com/goggml/ggml/llm"
	"github.com/goggml/ggml/llm/chat"
	"github.com/goggml/ggml/llm/generate"
	"github.com/goggml/ggml/llm/sample"
)

// Answer several people at once with one model, as a server does. They share its weights and the passes over them.
func ExampleOpen() {
	model, err := llm.Open("model.gguf", llm.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer model.Close()
	answers := make([]string, 3)
	var all sync.WaitGroup
	for i := range answers {
		all.Add(1)
		go func() {
			defer all.Done()
			talk := &chat.Conversation{Messages: []chat.Message{chat.NewMessage("user", "Why is the sky blue?")}}
			tokens, reply := model.Chat(context.Background(), talk, sample.Options{}, generate.ChatOptions{})
			for _, err := range tokens {
				if err != nil {
					log.Print(err)
				}
			}
			answers[i] = reply.Answer
		}()
	}
	all.Wait()
	for _, answer := range answers {
		fmt.Println(answer)
	}
	// Output:
	// Because air scatters blue light most.
	// Because air scatters blue light most.
	// Because air scatters blue light most.
}
