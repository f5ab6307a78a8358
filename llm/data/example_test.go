package data_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goggml/ggml/llm/chat"
	"github.com/goggml/ggml/llm/data"
	"github.com/goggml/ggml/llm/tokenizer"
)

const lines = `{"messages": [{"role": "user", "content": "2 + 2?"}, {"role": "assistant", "content": "4"}]}
{"messages": [{"role": "user", "content": "3 + 3?"}, {"role": "asistant", "content": "6"}]}
{"messages": [{"role": "user", "content": "4 + 4?"}, {"role": "assistant", "content": "8"}]}
`

// Read gives the examples of files, or here of the standard input.
func ExampleRead() {
	broken := &data.Broken{}
	o := data.ReadOptions{Stdin: strings.NewReader(lines), SkipBroken: broken}
	for x, err := range data.Read(context.Background(), []string{data.Stdin}, o) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s:%d: %s\n", x.File, x.Line, x.Messages[0].Content())
	}
	fmt.Println(broken.Total(), "skipped:", broken.Counts()[0].Kind)
	// Output:
	// stdin:1: 2 + 2?
	// stdin:3: 4 + 4?
	// 1 skipped: wrong role
}

// What a vocabulary and a template make of a conversation: only what the assistant writes is trained.
func ExampleEncoder() {
	config, err := tokenizer.TrainBPE(slices.Values([]string{lines}), tokenizer.TrainOptions{VocabSize: 300, Special: []string{"<|end|>"}})
	if err != nil {
		log.Fatal(err)
	}
	tok, err := tokenizer.New(config)
	if err != nil {
		log.Fatal(err)
	}
	template, err := chat.Parse("model.gguf", "{% for m in messages %}{{ m.role }}: {{ m.content }}<|end|>\n{% endfor %}{% if add_generation_prompt %}assistant: {% endif %}")
	if err != nil {
		log.Fatal(err)
	}
	encoder, err := data.NewEncoder(tok, data.EncoderOptions{Template: template, TrainOn: chat.Assistant})
	if err != nil {
		log.Fatal(err)
	}
	x := data.Example{Conversation: chat.Conversation{Messages: []chat.Message{chat.NewMessage("user", "What ends a turn? <|end|>?"), chat.NewMessage("assistant", "Yes.")}}}
	sample, err := encoder.Encode(x)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(data.FormatSample(tok, sample, data.Marks{Begin: "«", End: "»"}))
	fmt.Println(sample.Targets(), "tokens are trained")
	// Output:
	// user: What ends a turn? <|end|>?<|end|>
	// assistant: «Yes.<|end|>»
	//
	// 4 tokens are trained
}

func ExampleFolder() {
	folder, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(folder)
	for _, name := range []string{"train-1.jsonl", "train-2.jsonl", "valid.jsonl"} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(lines), 0o600); err != nil {
			log.Fatal(err)
		}
	}
	splits, err := data.Folder(folder)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(splits.Train), len(splits.Valid), len(splits.Test))
	// Output: 2 1 0
}

func ExampleError() {
	for _, err := range data.Read(context.Background(), []string{data.Stdin}, data.ReadOptions{Stdin: strings.NewReader(`{"text": "It is "late"."}`)}) {
		fmt.Println(err)
	}
	// Output: stdin:1:18: a comma or } is expected, not 'l'; each line has to be one JSON object; a file of plain text is called .txt
}
