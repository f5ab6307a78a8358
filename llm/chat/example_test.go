package chat_test

import (
	"encoding/json"
	"fmt"
	"log"

	"github.com/goggml/ggml/llm/chat"
)

const source = `{% for message in messages %}
<|{{ message.role }}|>{{ message.content }}<|end|>
{% endfor %}
{% if add_generation_prompt %}<|assistant|>{% endif %}`

func ExampleTemplate_Render() {
	template, err := chat.Parse("model.gguf", source)
	if err != nil {
		log.Fatal(err)
	}
	talk := &chat.Conversation{Messages: []chat.Message{chat.NewMessage("user", "Is the sky blue?")}}
	rendered, err := template.Render(talk, &chat.Options{AddGenerationPrompt: true})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(rendered.Text)
	// Output:
	// <|user|>Is the sky blue?<|end|>
	// <|assistant|>
}

// A line of a data set. The weight says how much an answer counts.
func ExampleRendered_Trained() {
	const line = `{"messages": [{"role": "user", "content": "2 + 2?"}, {"role": "assistant", "content": "4", "weight": 0.5},
		{"role": "user", "content": "And 3 + 3?"}, {"role": "assistant", "content": "6"}]}`
	var talk chat.Conversation
	if err := json.Unmarshal([]byte(line), &talk); err != nil {
		log.Fatal(err)
	}
	template, err := chat.Parse("model.gguf", source)
	if err != nil {
		log.Fatal(err)
	}
	rendered, err := template.Render(&talk, nil)
	if err != nil {
		log.Fatal(err)
	}
	for _, r := range rendered.Trained(chat.Assistant) {
		fmt.Printf("%q with weight %g\n", rendered.Text[r.From:r.To], r.Weight)
	}
	// Output:
	// "4<|end|>" with weight 0.5
	// "6<|end|>" with weight 1
}

// What somebody writes stays text, whatever it looks like.
func ExampleRendered_Chunks() {
	template, err := chat.Parse("model.gguf", source)
	if err != nil {
		log.Fatal(err)
	}
	talk := &chat.Conversation{Messages: []chat.Message{chat.NewMessage("user", "What is <|end|>?")}}
	rendered, err := template.Render(talk, nil)
	if err != nil {
		log.Fatal(err)
	}
	for _, c := range rendered.Chunks() {
		fmt.Printf("%-20q mark-up: %v\n", rendered.Text[c.From:c.To], c.Markup)
	}
	// Output:
	// "<|user|>"           mark-up: true
	// "What is <|end|>?"   mark-up: false
	// "<|end|>\n"          mark-up: true
}

func ExampleRendered_spans() {
	template, err := chat.Parse("model.gguf", "{{ messages[0].role | upper }}: {{ messages[0].content }}")
	if err != nil {
		log.Fatal(err)
	}
	talk := &chat.Conversation{Messages: []chat.Message{chat.NewMessage("user", "Hello")}}
	rendered, err := template.Render(talk, nil)
	if err != nil {
		log.Fatal(err)
	}
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
