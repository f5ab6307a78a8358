package ollama_test

import (
	"fmt"
	"log"

	"github.com/goggml/ggml/llm/chat"
	"github.com/goggml/ggml/llm/ollama"
)

// A chat template of transformers becomes one of ollama with the same output.
func ExampleConvert() {
	t, err := chat.Parse("example", "{% for m in messages %}<{{ m.role }}>{{ m.content }}</s>{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}")
	if err != nil {
		log.Fatal(err)
	}
	made, err := ollama.Convert(t, chat.Options{}, "")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(made.Render(chat.NewMessage("system", "Be brief."), chat.NewMessage("user", "Hello?")))
	// Output: <system>Be brief.</s><user>Hello?</s><assistant> <nil>
}
