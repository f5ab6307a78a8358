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

// Answer with an adapter that is opened beside the model, while other requests use the model without it.
func ExampleAdapter() {
	ctx := context.Background()
	model, err := llm.Open("model.gguf", llm.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer model.Close()
	adapter, err := model.LoadAdapter(ctx, "runs/desk", 1) // or a file
	if err != nil {
		log.Fatal(err)
	}
	talk := &chat.Conversation{Messages: []chat.Message{chat.NewMessage("user", "How long does delivery take?")}}
	tokens, _ := model.Chat(ctx, talk, sample.Options{}, generate.ChatOptions{Adapters: adapter.Prepared()})
	for token, err := range tokens {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Print(token.Text)
	}
	if err := adapter.Close(ctx); err != nil {
		log.Fatal(err)
	}
	// Output: Five days within the country.
}
