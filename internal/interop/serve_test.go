//go:build interop

package interop

import (
	"encoding/json"
	"maps"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/llm"
	"github.com/goggml/ggml/llm/grammar"
	"github.com/goggml/ggml/llm/infer"
	"github.com/goggml/ggml/llm/serve"
)

// The server answers requests as llama-server does: equal texts at temperature 0, ends, counts and probabilities, and no
// field that llama-server's answers lack.
func TestInteropServe(t *testing.T) {
	path := chatModel(t, `{% for m in messages %}{{ '<|' + m['role'] + '|>\n' + m['content'] | trim + '<|im_end|>' + '\n' }}{% endfor %}`+
		`{% if add_generation_prompt %}{{ '<|assistant|>\n' }}{% endif %}`, true)
	theirs := startServer(t, path, "-c", "256", "-ctk", "f32", "-ctv", "f32")
	m := need.Value(llm.Open(path, llm.Options{Session: infer.SessionOptions{Context: 256, Threads: 1}}))(t)
	defer m.Close()
	server := httptest.NewServer(need.Value(serve.New(m, serve.Options{}))(t))
	defer server.Close()
	ours := &stockServer{url: server.URL}
	talk := []any{map[string]any{"role": "user", "content": "what is in the sea"}}
	for path, requests := range map[string][]map[string]any{
		"/v1/chat/completions": {
			{"messages": talk, "temperature": 0, "max_tokens": 12},
			{"messages": talk, "temperature": 0, "max_tokens": 12, "logprobs": true, "top_logprobs": 3},
			{"messages": append([]any{map[string]any{"role": "system", "content": "be short"}}, talk...), "temperature": 0, "max_completion_tokens": 5},
		},
		"/v1/completions": {{"prompt": "the sea", "temperature": 0, "max_tokens": 12}, {"prompt": []string{"the sea", "a hen"}, "temperature": 0, "max_tokens": 4}},
	} {
		for _, request := range requests {
			var got, want map[string]any
			require.True(t, theirs.post(t, path, request, &want))
			require.True(t, ours.post(t, path, request, &got))
			if _, several := request["prompt"].([]string); several { // llama-server counts the tokens of one prompt
				delete(got, "usage")
			}
			compareAnswers(t, path, got, want)
		}
	}
}

// Answers with a grammar or a JSON schema are llama-server's, text for text.
func TestInteropServeGrammars(t *testing.T) {
	path := chatModel(t, `{% for m in messages %}{{ m['content'] | trim + '\n' }}{% endfor %}`, true)
	theirs := startServer(t, path, "-c", "256", "-ctk", "f32", "-ctv", "f32")
	m := need.Value(llm.Open(path, llm.Options{Session: infer.SessionOptions{Context: 256, Threads: 1}}))(t)
	defer m.Close()
	server := httptest.NewServer(need.Value(serve.New(m, serve.Options{}))(t))
	defer server.Close()
	ours := &stockServer{url: server.URL}
	talk := []any{map[string]any{"role": "user", "content": "what is in the sea"}}
	for _, grammar := range []string{
		`root ::= "the " ("sea" | "hen" | "s" [d-f]+) [^a-z<] .?`,
		"root ::= item (\", \" item){2,3} # a list\nitem ::= [0-9]{1,4} | \"[\" root \"]\" | [a-z]+\n",
		"root ::= (a\n | b)* [!?]\na ::= \"x\" [^xy<>|]{2,5}\nb ::= \"y\"? \"\\u007a\"",
	} {
		compareServed(t, ours, theirs, "/v1/completions", map[string]any{"prompt": "the sea", "max_tokens": 40, "grammar": grammar})
		compareServed(t, ours, theirs, "/v1/chat/completions", map[string]any{"messages": talk, "max_tokens": 40, "grammar": grammar})
	}
	for _, schema := range []string{
		`{"type": "object", "properties": {"b": {"type": "integer"}, "a": {"type": "boolean"}, "c": {"type": "null"}}, "required": ["a"]}`,
		`{"type": "array", "items": {"enum": ["a", 1, null]}, "minItems": 2, "maxItems": 4}`,
		`{"anyOf": [{"type": "integer", "minimum": 3, "maximum": 1234}, {"const": {"x": [1, "y"]}}]}`,
		`{"type": "array", "prefixItems": [{"type": "string", "format": "date"}, {"type": "number"}, {"type": "string", "format": "uuid"}]}`,
		`{"type": "string", "pattern": "^[a-f]{2,4}(x|yz)+$"}`,
		`{"$ref": "#/$defs/n", "$defs": {"n": {"type": "object", "properties": {"v": {"type": "integer"}, "n": {"anyOf": [{"$ref": "#/$defs/n"}, {"type": "null"}]}}, "required": ["v", "n"]}}}`,
	} {
		compareServed(t, ours, theirs, "/v1/completions", map[string]any{"prompt": "the sea", "max_tokens": 60, "json_schema": json.RawMessage(schema)})
		// In answers to conversations, llama-server allows blanks before the value, which it then leaves out.
		g := need.Value(grammar.ParseJSONSchema([]byte(schema)))(t)
		for _, server := range []*stockServer{ours, theirs} {
			got := answers(t, server, "/v1/chat/completions", map[string]any{"messages": talk, "temperature": 0, "max_tokens": 100, "response_format": map[string]any{
				"type": "json_schema", "json_schema": map[string]any{"name": "n", "schema": json.RawMessage(schema)},
			}})
			if got[0].Finish == "stop" {
				assert.True(t, need.Value(g.Match(strings.TrimSpace(got[0].Message.Content)))(t), "%s\n%s", schema, got[0].Message.Content)
			}
		}
	}
}

// An answered is a choice of an answer.
type answered struct {
	Text    string
	Message struct{ Content string }
	Finish  string `json:"finish_reason"`
}

func answers(t *testing.T, s *stockServer, path string, request map[string]any) []answered {
	t.Helper()
	var got struct{ Choices []answered }
	require.True(t, s.post(t, path, request, &got), "%s", need.Value(json.Marshal(request))(t))
	return got.Choices
}

// compareServed requires equal texts and ends of both servers at temperature 0.
func compareServed(t *testing.T, ours, theirs *stockServer, path string, request map[string]any) {
	t.Helper()
	request["temperature"] = 0
	assert.Equal(t, answers(t, theirs, path, request), answers(t, ours, path, request), "%s", need.Value(json.Marshal(request))(t))
}

// differs are fields whose values are of one server.
var differs = []string{"id", "created", "model", "cached_tokens", "logprob", "text_offset"}

// compareAnswers requires that all fields of our answer are in llama-server's, with equal values.
func compareAnswers(t *testing.T, path string, got, want any) {
	t.Helper()
	switch got := got.(type) {
	case map[string]any:
		theirs, _ := want.(map[string]any)
		for _, key := range slices.Sorted(maps.Keys(got)) {
			value, has := theirs[key]
			switch {
			case !has:
				assert.Contains(t, []any{nil, ""}, got[key], "%s.%s is no field of llama-server", path, key)
			case key == "logprob":
				assert.InDelta(t, value, got[key], 5e-3, "%s.%s", path, key) // llama-server rounds what it multiplies
			case theirs["token"] == "" && (key == "token" || key == "bytes"): // llama-server hides the texts of special tokens
			case !slices.Contains(differs, key):
				compareAnswers(t, path+"."+key, got[key], value)
			}
		}
	case []any:
		theirs, _ := want.([]any)
		if assert.Len(t, got, len(theirs), path) {
			for i := range got {
				compareAnswers(t, path, got[i], theirs[i])
			}
		}
	default:
		assert.Equal(t, want, got, path)
	}
}
