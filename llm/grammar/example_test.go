package grammar_test

import (
	"fmt"
	"log"

	"github.com/goggml/ggml/llm/grammar"
)

func ExampleParse() {
	g, err := grammar.Parse(`
root   ::= answer (", " answer)*
answer ::= "yes" | "no"   # nothing else
`)
	if err != nil {
		log.Fatal(err)
	}
	for _, text := range []string{"yes, no", "maybe"} {
		matches, err := g.Match(text)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(text, matches)
	}
	// Output:
	// yes, no true
	// maybe false
}

func ExampleParseJSONSchema() {
	g, err := grammar.ParseJSONSchema([]byte(`{
		"properties": {"number": {"type": "integer", "minimum": 1}, "status": {"enum": ["open", "sent"]}},
		"required": ["number", "status"]
	}`))
	if err != nil {
		log.Fatal(err)
	}
	for _, text := range []string{`{"number": 1042, "status": "sent"}`, `{"number": 0, "status": "lost"}`} {
		matches, err := g.Match(text)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(text, matches)
	}
	// Output:
	// {"number": 1042, "status": "sent"} true
	// {"number": 0, "status": "lost"} false
}

func ExampleJSONSchema() {
	text, err := grammar.JSONSchema([]byte(`{"type": "array", "items": {"type": "boolean"}, "maxItems": 3}`))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Print(text)
	// Output:
	// space ::= | " " | "\n"{1,2} [ \t]{0,20}
	// boolean ::= "true" | "false"
	// schema ::= "[" space (boolean ("," space boolean){0,2})? space "]"
	// root ::= schema
}
