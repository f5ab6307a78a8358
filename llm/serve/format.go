package serve

import (
	"encoding/json"

	"github.com/goggml/ggml/llm/grammar"
)

// A responseFormat is OpenAI's field for the form of an answer.
type responseFormat struct {
	Type       string          `json:"type"`
	Schema     json.RawMessage `json:"schema"` // llama-server's place for it
	JSONSchema struct {
		Schema json.RawMessage `json:"schema"`
	} `json:"json_schema"`
}

// schema returns the JSON schema of an answer; nil: any text.
func (f *responseFormat) schema() (json.RawMessage, error) {
	switch f.Type {
	case "", "text":
		return nil, nil
	case "json_object":
		if isAbsent(f.Schema) {
			return json.RawMessage(`{"type": "object"}`), nil
		}
		return f.Schema, nil
	case "json_schema":
		for _, schema := range []json.RawMessage{f.JSONSchema.Schema, f.Schema} {
			if !isAbsent(schema) {
				return schema, nil
			}
		}
		return nil, invalid("response_format", "response_format has no json_schema.schema")
	}
	return nil, invalid("response_format", "response_format %q is unknown; use text, json_object or json_schema", f.Type)
}

func isAbsent(value json.RawMessage) bool { return len(value) == 0 || string(value) == "null" }

// constrain reads the grammar of an answer. A request may have one at most.
func (p *params) constrain() error {
	schema, err := p.ResponseFormat.schema()
	if err != nil {
		return err
	}
	field := "response_format"
	if !isAbsent(p.JSONSchema) {
		if schema != nil {
			return invalid("json_schema", "json_schema and response_format exclude each other")
		}
		field, schema = "json_schema", p.JSONSchema
	}
	switch {
	case schema != nil && p.Grammar != "":
		return invalid("grammar", "grammar and %s exclude each other", field)
	case schema != nil:
		p.grammar, err = grammar.ParseJSONSchema(schema)
	case p.Grammar != "":
		field = "grammar"
		p.grammar, err = grammar.Parse(p.Grammar)
	}
	if err != nil {
		return invalid(field, "%v", err)
	}
	return nil
}
