package data_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
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

// Load makes a data set from files of any format, with the vocabulary and chat template of a model.
func ExampleLoad() {
	config := must(tokenizer.TrainBPE(slices.Values([]string{lines}), tokenizer.TrainOptions{VocabSize: 300, Special: []string{"<|end|>"}}))
	config.ChatTemplate = "{% for m in messages %}{{ m.role }}: {{ m.content }}<|end|>{% endfor %}"
	tok := must(tokenizer.New(config)) // or use the model's tokenizer
	d := must(data.Load(context.Background(), tok, []string{data.Stdin}, data.LoadOptions{
		Length: 64, Packed: true, SkipBroken: true, Read: data.ReadOptions{Stdin: strings.NewReader(lines)},
	}))
	defer d.Close()
	fmt.Printf("%d samples in %d row, %d of %d tokens trained; %d record left out\n", d.Stats.Samples, d.Data.Len(), d.Stats.Targets, d.Stats.Tokens, d.Broken.Total())
	row := must(d.Data.Row(0))
	for _, sample := range row {
		fmt.Println(data.FormatSample(tok, sample, data.Marks{Begin: "«", End: "»"}))
	}
	// Output:
	// 2 samples in 1 row, 4 of 26 tokens trained; 1 record left out
	// user: 2 + 2?<|end|>assistant: «4<|end|>»
	// user: 4 + 4?<|end|>assistant: «8<|end|>»
}

// Warnings name options by their fields, or as a program does.
func ExampleWarning() {
	config := must(tokenizer.TrainBPE(slices.Values([]string{lines}), tokenizer.TrainOptions{VocabSize: 300}))
	tok := must(tokenizer.New(config))
	d := must(data.Load(context.Background(), tok, []string{data.Stdin}, data.LoadOptions{
		Length: 64, Read: data.ReadOptions{Stdin: strings.NewReader(`{"text": "2 + 2 = 4", "topic": "sums"}`)},
	}))
	defer d.Close()
	fmt.Println(d.Warnings[0])
	fmt.Println(d.Warnings[0].Named(func(o data.Option) string { return "-key " + o.Key + "=" + o.Value }))
	// Output:
	// unused keys: "topic" (1 record, first stdin:1); Keys KEY=NAME gives a key another name
	// unused keys: "topic" (1 record, first stdin:1); -key KEY=NAME gives a key another name
}

// Read yields the examples of files, here of the standard input.
func ExampleRead() {
	broken := &data.Broken{}
	o := data.ReadOptions{Stdin: strings.NewReader(lines), SkipBroken: broken}
	for x, err := range data.Read(context.Background(), []string{data.Stdin}, o) {
		check(err)
		fmt.Printf("%s:%d: %s\n", x.File, x.Line, x.Messages[0].Content())
	}
	fmt.Println(broken.Total(), "skipped:", broken.Counts()[0].Kind)
	// Output:
	// stdin:1: 2 + 2?
	// stdin:3: 4 + 4?
	// 1 skipped: wrong role
}

// Encode a conversation with a vocabulary and a template: only what the assistant writes is trained.
func ExampleEncoder() {
	config := must(tokenizer.TrainBPE(slices.Values([]string{lines}), tokenizer.TrainOptions{VocabSize: 300, Special: []string{"<|end|>"}}))
	tok := must(tokenizer.New(config))
	template := must(chat.Parse("model.gguf", "{% for m in messages %}{{ m.role }}: {{ m.content }}<|end|>\n{% endfor %}{% if add_generation_prompt %}assistant: {% endif %}"))
	encoder := must(data.NewEncoder(tok, data.EncoderOptions{Template: template, TrainOn: chat.Assistant}))
	x := data.Example{Conversation: chat.Conversation{Messages: []chat.Message{chat.NewMessage("user", "What ends a turn? <|end|>?"), chat.NewMessage("assistant", "Yes.")}}}
	sample := must(encoder.Encode(x))
	fmt.Println(data.FormatSample(tok, sample, data.Marks{Begin: "«", End: "»"}))
	fmt.Println(sample.Targets(), "tokens are trained")
	// Output:
	// user: What ends a turn? <|end|>?<|end|>
	// assistant: «Yes.<|end|>»
	//
	// 4 tokens are trained
}

func ExampleFolder() {
	folder := must(os.MkdirTemp("", ""))
	defer os.RemoveAll(folder)
	for _, name := range []string{"train-1.jsonl", "train-2.jsonl", "valid.jsonl"} {
		check(os.WriteFile(filepath.Join(folder, name), []byte(lines), 0o600))
	}
	splits := must(data.Folder(folder))
	fmt.Println(len(splits.Train), len(splits.Valid), len(splits.Test))
	// Output: 2 1 0
}

// A folder yields the files of its splits, a pattern the files that match.
func ExampleExpand() {
	folder := must(os.MkdirTemp("", ""))
	defer os.RemoveAll(folder)
	for _, name := range []string{"train.jsonl", "valid.jsonl", "more.jsonl"} {
		check(os.WriteFile(filepath.Join(folder, name), []byte(lines), 0o600))
	}
	splits := must(data.Expand([]string{folder, filepath.Join(folder, "m*.jsonl"), data.Stdin}))
	for _, file := range splits.Train {
		fmt.Println("train:", filepath.Base(file))
	}
	for _, file := range splits.Valid {
		fmt.Println("valid:", filepath.Base(file))
	}
	// Output:
	// train: train.jsonl
	// train: more.jsonl
	// train: -
	// valid: valid.jsonl
}

func ExampleError() {
	for _, err := range data.Read(context.Background(), []string{data.Stdin}, data.ReadOptions{Stdin: strings.NewReader(`{"text": "It is "late"."}`)}) {
		fmt.Println(err)
	}
	// Output: stdin:1:18: a comma or } is expected, not 'l'; each line must be one JSON object; give plain text the extension .txt
}

// Read records that use other names for keys and roles.
func ExampleReadOptions() {
	const line = `{"dialog": [{"speaker": "agent", "text": "How can I help?"}]}`
	for _, err := range data.Read(context.Background(), []string{data.Stdin}, data.ReadOptions{Stdin: strings.NewReader(line)}) {
		fmt.Println(err)
	}
	o := data.ReadOptions{
		Stdin: strings.NewReader(line),
		Keys:  map[string]string{"messages": "dialog", "role": "speaker", "content": "text"},
		Roles: map[string]string{"agent": "assistant"},
	}
	for x, err := range data.Read(context.Background(), []string{data.Stdin}, o) {
		check(err)
		fmt.Println(x.Messages[0].Role()+":", x.Messages[0].Content())
	}
	// Output:
	// stdin:1: the record has none of the keys messages, conversations, prompt, instruction, text; it has "dialog"; name the key to use instead
	// assistant: How can I help?
}

// A reader of another format is a function that yields its records as JSON.
func ExampleRecordReader() {
	folder := must(os.MkdirTemp("", ""))
	defer os.RemoveAll(folder)
	path := filepath.Join(folder, "a.quiz")
	check(os.WriteFile(path, []byte("2 + 2? 4\n3 + 3? 6\n"), 0o600))
	quiz := func(path string) iter.Seq2[[]byte, error] {
		return func(yield func([]byte, error) bool) {
			text, err := os.ReadFile(path)
			if err != nil {
				yield(nil, err)
				return
			}
			for line := range strings.Lines(string(text)) {
				question, answer, _ := strings.Cut(strings.TrimSpace(line), "? ")
				record, err := json.Marshal(map[string]string{"prompt": question + "?", "completion": answer})
				if !yield(record, err) {
					return
				}
			}
		}
	}
	for x, err := range data.Read(context.Background(), []string{path}, data.ReadOptions{Readers: map[string]data.RecordReader{".quiz": quiz}}) {
		check(err)
		fmt.Println(x.Prompt, "→", x.Completion)
	}
	// Output:
	// 2 + 2? → 4
	// 3 + 3? → 6
}

// Find the option that fixes a fault, for a program that has a flag for it.
func ExampleOption() {
	const line = `{"prompt": "2 + 2?", "reply": "4"}`
	for _, err := range data.Read(context.Background(), []string{data.Stdin}, data.ReadOptions{Stdin: strings.NewReader(line)}) {
		var fault *data.Error
		if errors.As(err, &fault) {
			fmt.Printf("%s: %s (%s[%q] = %q)\n", fault.Kind, fault.Reason, fault.Option.Name, fault.Option.Key, fault.Option.Value)
		}
	}
	// Output: missing key: the record has "prompt", but "completion" is missing (Keys["completion"] = "reply")
}

// If the template omits part of a question, that is a note; part of an answer is an error.
func ExampleNote() {
	config := must(tokenizer.TrainBPE(slices.Values([]string{lines}), tokenizer.TrainOptions{VocabSize: 300}))
	config.ChatTemplate = "{% for m in messages if m.role != 'system' %}{{ m.role }}: {{ m.content }}{{ eos_token }}{% endfor %}"
	tok := must(tokenizer.New(config))
	encoder := must(data.NewEncoder(tok, data.EncoderOptions{}))
	x := data.Example{Conversation: chat.Conversation{Messages: []chat.Message{
		chat.NewMessage("system", "Be short."), chat.NewMessage("user", "2 + 2?"), chat.NewMessage("assistant", "4"),
	}}}
	sample := must(encoder.Encode(x))
	for _, note := range sample.Notes {
		fmt.Printf("%s: %q\n", note.Kind, note.What)
	}
	// Output:
	// left out: "messages of the system"
	// rendered: ""
}

// Hold out a tenth of the rows for validation.
func ExampleDataset_Split() {
	var samples []data.Sample
	for i := range 20 {
		samples = append(samples, data.Sample{Tokens: []int32{int32(i), int32(i)}})
	}
	rest, held, err := data.New(8, samples).Split(0.1)
	check(err)
	fmt.Println(rest.Len(), "rows for training,", held.Len(), "for validation")
	// Output: 18 rows for training, 2 for validation
}

// Encode the prompt that a model continues.
func ExampleEncodeRendered() {
	config := must(tokenizer.TrainBPE(slices.Values([]string{lines}), tokenizer.TrainOptions{VocabSize: 300, Special: []string{"<|end|>"}}))
	config.ChatTemplate = "{% for m in messages %}{{ m.role }}: {{ m.content }}<|end|>{% endfor %}{% if add_generation_prompt %}assistant:{% endif %}"
	tok := must(tokenizer.New(config))
	template := must(data.ModelTemplate("model.gguf", tok))
	o := data.RenderOptions(tok, nil)
	o.AddGenerationPrompt = true
	rendered := must(template.Render(&chat.Conversation{Messages: []chat.Message{chat.NewMessage("user", "2 + 2?")}}, &o))
	for _, id := range data.EncodeRendered(tok, rendered) {
		fmt.Printf("%q ", tok.Piece(id))
	}
	fmt.Println()
	// Output: "user" ":" " " "2" " +" " " "2" "?" "<|end|>" "assistant" ":"
}

// Make samples from a text that need not fit in memory.
func ExampleTextSamples() {
	c := must(tokenizer.TrainBPE(slices.Values([]string{"text"}), tokenizer.TrainOptions{VocabSize: 257}))
	tok := must(tokenizer.New(c))
	for s, err := range data.TextSamples(tok, strings.NewReader("a long text"), data.TextOptions{Length: 4}) {
		check(err)
		fmt.Printf("%q\n", tok.Decode(s.Tokens, tokenizer.DecodeOptions{}))
	}
	// Output:
	// "a lon"
	// "ng te"
	// "ext"
}

// check ends an example at an error; a program returns it.
func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func must[T any](x T, err error) T {
	check(err)
	return x
}
