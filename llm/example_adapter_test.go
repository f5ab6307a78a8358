package llm_test

import (
	"context"
	"fmt"
	"log"

	"github.com/goggml/ggml/llm"
	"github.com/goggml/ggml/llm/chat"
	"github.com/goggml/ggml/llm/data"
	"github.com/goggml/ggml/llm/lora"
	"github.com/goggml/ggml/llm/model"
	"github.com/goggml/ggml/llm/train"
)

// Train an adapter on conversations, and use it.
func Example_adapter() {
	if err := trainAdapter("model.gguf", "chats.jsonl", "adapter.gguf"); err != nil {
		log.Fatal(err)
	}
	assistant, err := llm.NewAssistant("model.gguf", llm.Options{Adapters: []string{"adapter.gguf"}})
	if err != nil {
		log.Fatal(err)
	}
	defer assistant.Close()
	talk := &chat.Conversation{Messages: []chat.Message{chat.NewMessage("user", "How long does delivery take?")}}
	tokens, _ := assistant.Stream(context.Background(), talk)
	for token, err := range tokens {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Print(token.Text)
	}
	// Output: Five days within the country.
}

// trainAdapter trains an adapter on the assistant's turns of conversations, a file of JSON lines, and writes it.
// Package run also evaluates, stops early and resumes.
func trainAdapter(modelPath, conversations, adapterPath string) error {
	ctx := context.Background()
	m, err := model.Load(modelPath, model.LoadOptions{})
	if err != nil {
		return err
	}
	defer m.Close()
	samples, err := data.Load(ctx, m.Tokenizer, []string{conversations}, data.LoadOptions{Length: m.Config().Context})
	if err != nil {
		return err
	}
	defer samples.Close()
	adapter, err := lora.New(m, lora.Options{Rank: 8, Alpha: 16})
	if err != nil {
		return err
	}
	defer adapter.Close()
	trainer, err := train.New(m, train.Trainables{Adapters: adapter.WithScale(1)}, samples.Data, train.Options{
		Schedule: train.Schedule{Peak: 0.01, Warmup: 5, Steps: 100}, // 2e-4 for real models
		AdamW:    train.DefaultAdamW(), Batch: 1, Accumulate: 1,
	})
	if err != nil {
		return err
	}
	defer trainer.Close()
	if err := trainer.Run(ctx, train.RunOptions{}); err != nil {
		return err
	}
	return adapter.Save(adapterPath, lora.SaveOptions{})
}
