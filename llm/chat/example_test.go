package chat_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"log"

	"github.com/goggml/ggml/llm/chat"
)

const source = `{% for message in messages %}
<|{{ message.role }}|>{{ message.content }}<|end|>
{% endfor %}
{% if add_generation_prompt %}<|assistant|>{% endif %}`

func ExampleTemplate_Render() {
	template := must(chat.Parse("model.gguf", source))
	talk := &chat.Conversation{Messages: []chat.Message{chat.NewMessage("user", "Is the sky blue?")}}
	rendered := must(template.Render(talk, &chat.Options{AddGenerationPrompt: true}))
	fmt.Println(rendered.Text)
	// Output:
	// <|user|>Is the sky blue?<|end|>
	// <|assistant|>
}

// Read a line of a data set. The weight scales an answer's loss.
func ExampleRendered_Trained() {
	const line = `{"messages": [{"role": "user", "content": "2 + 2?"}, {"role": "assistant", "content": "4", "weight": 0.5},
		{"role": "user", "content": "And 3 + 3?"}, {"role": "assistant", "content": "6"}]}`
	var talk chat.Conversation
	check(json.Unmarshal([]byte(line), &talk))
	template := must(chat.Parse("model.gguf", source))
	rendered := must(template.Render(&talk, nil))
	for _, r := range rendered.Trained(chat.Assistant) {
		fmt.Printf("%q with weight %g\n", rendered.Text[r.From:r.To], r.Weight)
	}
	// Output:
	// "4<|end|>" with weight 0.5
	// "6<|end|>" with weight 1
}

// A user's words stay text, even if they look like special tokens.
func ExampleRendered_Chunks() {
	template := must(chat.Parse("model.gguf", source))
	talk := &chat.Conversation{Messages: []chat.Message{chat.NewMessage("user", "What is <|end|>?")}}
	rendered := must(template.Render(talk, nil))
	for _, c := range rendered.Chunks() {
		fmt.Printf("%-20q mark-up: %v\n", rendered.Text[c.From:c.To], c.Markup)
	}
	// Output:
	// "<|user|>"           mark-up: true
	// "What is <|end|>?"   mark-up: false
	// "<|end|>\n"          mark-up: true
}

// Print the source of each part of the text.
func ExampleSpan() {
	template := must(chat.Parse("model.gguf", "{{ messages[0].role | upper }}: {{ messages[0].content }}"))
	talk := &chat.Conversation{Messages: []chat.Message{chat.NewMessage("user", "Hello")}}
	rendered := must(template.Render(talk, nil))
	for _, s := range rendered.Spans {
		fmt.Printf("%q: %s of message %d\n", rendered.Text[s.From:s.To], s.Source, s.Message)
	}
	// Output:
	// "USER": role of message 0
	// ": ": markup of message -1
	// "Hello": content of message 0
}

func ExampleParse() {
	_, err := chat.Parse("model.gguf", "{% for m in messages %}\n{{ m.content }")
	fmt.Println(err)
	// Output: model.gguf:2: unexpected "}"
}

// A template can reject a conversation.
func ExampleError() {
	template := must(chat.Parse("model.gguf", "{% if messages[0].role != 'user' %}{{ raise_exception('The user begins.') }}{% endif %}"))
	_, err := template.Render(&chat.Conversation{Messages: []chat.Message{chat.NewMessage("assistant", "Hello")}}, nil)
	var refused *chat.Error
	if errors.As(err, &refused) {
		fmt.Printf("line %d of %s: %s\n", refused.Line, refused.Template, refused.Reason)
	}
	// Output: line 1 of model.gguf: The user begins.
}

// Read the JSON of data sets and of APIs.
func ExampleConversation() {
	const line = `{"messages": [{"role": "user", "content": "Is it warm in Rome?"},
		{"role": "assistant", "reasoning_content": "I can ask.", "tool_calls": [{"type": "function", "function": {"name": "weather", "arguments": {"city": "Rome"}}}]},
		{"role": "tool", "content": "31 °C"}], "tools": [{"type": "function", "function": {"name": "weather"}}]}`
	var talk chat.Conversation
	check(json.Unmarshal([]byte(line), &talk))
	for _, m := range talk.Messages {
		fmt.Printf("%s: %q, reasoning %q, calls %q\n", m.Role(), m.Content(), m.Reasoning(), m.Calls())
	}
	// Output:
	// user: "Is it warm in Rome?", reasoning "", calls []
	// assistant: "", reasoning "I can ask.", calls ["weather"]
	// tool: "31 °C", reasoning "", calls []
}

// A message keeps all keys in their order.
func ExampleMessage() {
	m := chat.NewMessage("assistant", "4")
	m.SetText("reasoning_content", "2 and 2 are 4.")
	check(m.Set("tool_calls", []byte(`[]`)))
	m.Weight = 0.5
	data := must(json.Marshal(m))
	fmt.Println(string(data))
	// Output: {"role":"assistant","content":"4","reasoning_content":"2 and 2 are 4.","tool_calls":[],"weight":0.5}
}

// Set a variable of the template, and let the model continue an answer.
func ExampleOptions() {
	template := must(chat.Parse("model.gguf", "{{ bos_token }}"+source))
	talk := &chat.Conversation{Messages: []chat.Message{chat.NewMessage("user", "Count to 5."), chat.NewMessage("assistant", "1, 2,")}}
	rendered := must(template.Render(talk, &chat.Options{ContinueFinalMessage: true, Variables: map[string]any{"bos_token": "<s>"}}))
	fmt.Println(rendered.Text)
	// Output:
	// <s><|user|>Count to 5.<|end|>
	// <|assistant|>1, 2,
}

// Print what each mode trains.
func ExampleMode() {
	template := must(chat.Parse("model.gguf", source))
	talk := &chat.Conversation{Messages: []chat.Message{chat.NewMessage("user", "A?"), chat.NewMessage("assistant", "B"), chat.NewMessage("user", "C?"), chat.NewMessage("assistant", "D")}}
	rendered := must(template.Render(talk, nil))
	for _, mode := range []chat.Mode{chat.Assistant, chat.Last, chat.Completion, chat.All} {
		fmt.Printf("%v:", mode)
		for _, r := range rendered.Trained(mode) {
			fmt.Printf(" %q", rendered.Text[r.From:r.To])
		}
		fmt.Println()
	}
	// Output:
	// assistant: "B<|end|>" "D<|end|>"
	// last: "D<|end|>"
	// completion: "D<|end|>\n"
	// all: "<|user|>A?<|end|>\n<|assistant|>B<|end|>\n<|user|>C?<|end|>\n<|assistant|>D<|end|>\n"
}

// A template writes an empty reasoning block before an answer without reasoning.
func ExampleEmptyReasoning() {
	template, err := chat.Parse("model.gguf", `{% for m in messages %}<|{{ m.role }}|>
{% if m.role == 'assistant' %}<think>{{ m.reasoning_content }}</think>{% endif %}{{ m.content }}<|end|>
{% endfor %}{% if add_generation_prompt %}<|assistant|>
{% endif %}`)
	check(err)
	talk := &chat.Conversation{Messages: []chat.Message{chat.NewMessage("user", "2 + 2?"), chat.NewMessage("assistant", "4")}}
	for _, treatment := range []chat.EmptyReasoning{chat.TrainEmpty, chat.MaskEmpty} {
		rendered := must(template.Render(talk, &chat.Options{EmptyReasoning: treatment}))
		for _, r := range rendered.Trained(chat.Assistant) {
			fmt.Printf("%v: %q\n", treatment, rendered.Text[r.From:r.To])
		}
	}
	// Output:
	// train: "<think></think>4<|end|>"
	// mask: "4<|end|>"
}

// List what the template omits.
func ExampleRendered_Unrendered() {
	template := must(chat.Parse("model.gguf", source))
	answer := chat.NewMessage("assistant", "4")
	answer.SetText("reasoning_content", "2 and 2 are 4.")
	rendered := must(template.Render(&chat.Conversation{Messages: []chat.Message{chat.NewMessage("user", "2 + 2?"), answer}}, nil))
	for _, g := range rendered.Unrendered() {
		fmt.Printf("%s of message %d\n", g.Path, g.Message)
	}
	// Output: reasoning_content of message 1
}

// A template that concatenates contents as strings rejects lists of parts.
func ExampleForms() {
	template := must(chat.Parse("model.gguf", "{% for m in messages %}{{ m.role + ': ' + m.content }}\n{% endfor %}"))
	var talk chat.Conversation
	const line = `{"messages": [{"role": "user", "content": [{"type": "text", "text": "Is the sky blue?"}]}]}`
	check(json.Unmarshal([]byte(line), &talk))
	_, err := template.Render(&talk, nil)
	fmt.Println(err)
	rendered := must(template.Render(template.Forms(nil).Convert(&talk), nil))
	fmt.Print(rendered.Text)
	// Output:
	// model.gguf:1: can only concatenate str (not "list") to str
	// user: Is the sky blue?
}

// A template whose generation prompt differs from the header of trained answers.
func ExamplePromptError() {
	template := must(chat.Parse("model.gguf", `{% for message in messages %}<|{{ message.role }}|>{{ message.content }}<|end|>{% endfor %}{% if add_generation_prompt %}<|model|>{% endif %}`))
	err := template.CheckPrompt(nil)
	var other *chat.PromptError
	if errors.As(err, &other) {
		fmt.Printf("prompt %q, trained %q\n", other.Prompt, other.Header)
	}
	// Output: prompt "<|model|>", trained "<|assistant|>"
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
