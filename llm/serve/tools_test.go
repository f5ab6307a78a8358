package serve_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/llm"
	"github.com/goggml/ggml/llm/chat"
	"github.com/goggml/ggml/llm/generate"
	"github.com/goggml/ggml/llm/infer"
	"github.com/goggml/ggml/llm/serve"
)

// toolTemplate renders calls as the model writes them, and results of tools. The schemas are not in the text: the model has
// learned to call without.
const toolTemplate = `{% for m in messages %}<|{{ 'user' if m.role == 'tool' else m.role }}|>{{ m.content }}` +
	`{% for c in m.tool_calls %}<tool_call>{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments | tojson }}}</tool_call>{% endfor %}<|end|>{% endfor %}` +
	`{% if add_generation_prompt %}<|assistant|>{% endif %}`

const (
	asksTool = `"messages": [{"role": "user", "content": "` + asks + `"}], "temperature": 0`
	tools    = `"tools": [{"type": "function", "function": {"name": "rain", "parameters": {"type": "object", "properties": {"in": {"type": "string"}}}}}, {"type": "function", "function": {"name": "time"}}]`
)

func toolOptions(t *testing.T) serve.Options {
	return serve.Options{Chat: generate.ChatOptions{Template: need.Value(chat.Parse("tools", toolTemplate))(t)}}
}

// Tool calls are apart from the text, in OpenAI's form. The conversation goes on with the tools' results.
func TestToolCalls(t *testing.T) {
	s := start(t, toolOptions(t), llm.Options{})
	v := s.post("/v1/chat/completions", `{`+asksTool+`, `+tools+`}`)
	c := at(t, v, "choices", 0)
	assert.Equal(t, "tool_calls", at(t, c, "finish_reason"))
	assert.Equal(t, "I ask.", at(t, c, "message", "content"))
	for i, want := range []map[string]any{{"name": "rain", "arguments": `{"in": "Oslo"}`}, {"name": "time", "arguments": `{}`}} {
		call := at(t, c, "message", "tool_calls", i)
		assert.Equal(t, want, at(t, call, "function"))
		assert.Equal(t, "function", at(t, call, "type"))
		assert.Regexp(t, `^[A-Z0-9]{9}$`, at(t, call, "id"))
	}
	text := fmt.Sprintf(`{"messages": [{"role": "user", "content": %q}, {"role": "assistant", "content": null, "tool_calls": [{"id": "a", "type": "function", "function": {"name": "rain", "arguments": "{\"in\": \"Oslo\"}"}}]},`+
		`{"role": "tool", "tool_call_id": "a", "content": "5 mm"}], "max_tokens": 2, `, asks) + tools + `}`
	s.post("/v1/chat/completions", text)

	v = s.post("/v1/chat/completions", `{`+asksTool+`, `+tools+`, "parallel_tool_calls": false}`)
	assert.Len(t, at(t, v, "choices", 0, "message", "tool_calls"), 1)
	assert.Equal(t, "tool_calls", at(t, v, "choices", 0, "finish_reason"))
	for _, body := range []string{`{` + asksTool + `}`, `{` + asksTool + `, ` + tools + `, "tool_choice": "none"}`} {
		v = s.post("/v1/chat/completions", body)
		assert.Equal(t, calls, at(t, v, "choices", 0, "message", "content"))
		assert.Equal(t, "stop", at(t, v, "choices", 0, "finish_reason"))
	}
	v = s.post("/v1/chat/completions", `{`+asksTool+`, `+tools+`, "max_tokens": 20}`)
	assert.Equal(t, "length", at(t, v, "choices", 0, "finish_reason"))
}

// Forced calls are calls, of the named tool, with arguments by its schema, also of a model that would say something else; beside
// a response_format an answer has either form.
func TestForcedToolChoice(t *testing.T) {
	s := start(t, toolOptions(t), llm.Options{Session: infer.SessionOptions{Context: 512}})
	const other = `"messages": [{"role": "user", "content": "` + question + `"}], "temperature": 1, "max_tokens": 300`
	strict := `"tools": [{"type": "function", "function": {"name": "rain", "strict": true, "parameters": {"type": "object", "properties": {"in": {"enum": ["Oslo", "Rome"]}, "days": {"type": "integer", "maximum": 9, "minimum": 1}}, "required": ["in", "days"]}}}, {"type": "function", "function": {"name": "time"}}]`
	for _, choice := range []string{`"required"`, `{"type": "function", "function": {"name": "rain"}}`} {
		for seed := range 4 {
			v := s.post("/v1/chat/completions", fmt.Sprintf(`{%s, "seed": %d, %s, "tool_choice": %s}`, other, seed, strict, choice))
			c := at(t, v, "choices", 0)
			require.Empty(t, at(t, c, "message", "content"))
			calls := at(t, c, "message", "tool_calls").([]any)
			if choice != `"required"` {
				require.Len(t, calls, 1)
				require.Equal(t, "rain", at(t, calls, 0, "function", "name"))
			}
			if at(t, c, "finish_reason") == "length" {
				continue
			}
			for _, call := range calls {
				var arguments struct {
					In   string
					Days int
				}
				require.NoError(t, json.Unmarshal([]byte(at(t, call, "function", "arguments").(string)), &arguments))
				if at(t, call, "function", "name") == "rain" {
					require.Contains(t, []string{"Oslo", "Rome"}, arguments.In)
					require.True(t, arguments.Days > 0 && arguments.Days < 10)
				}
			}
		}
	}
	v := s.post("/v1/chat/completions", `{`+asksTool+`, `+strict+`, "max_tokens": 300, "parallel_tool_calls": false}`)
	call := at(t, v, "choices", 0, "message", "tool_calls", 0, "function")
	require.Equal(t, "rain", at(t, call, "name"))
	require.Regexp(t, `^\{\s*"in"\s*:\s*"Oslo"\s*,\s*"days"\s*:\s*[1-9]\s*\}$`, at(t, call, "arguments"), "a strict function's call is held to its schema")
	v = s.post("/v1/chat/completions", `{`+other+`, `+strict+`, "seed": 1, "n": 4, "response_format": {"type": "json_schema", "json_schema": {"schema": {"type": "integer"}}}}`)
	for i := range 4 {
		message := at(t, v, "choices", i, "message").(map[string]any)
		if content, _ := message["content"].(string); message["tool_calls"] == nil && at(t, v, "choices", i, "finish_reason") == "stop" {
			require.Regexp(t, `^\s*-?\d+\s*$`, content)
		}
	}
	status, text := s.do("POST", "/v1/chat/completions", `{`+other+`, `+strict+`, "tool_choice": {"type": "function", "function": {"name": "snow"}}}`)
	require.Equal(t, http.StatusBadRequest, status)
	require.Contains(t, text, `there is no tool \"snow\" to call`)
}

// In a stream a call begins with its ID and name, and its arguments come in pieces.
func TestToolCallsStream(t *testing.T) {
	s := start(t, toolOptions(t), llm.Options{})
	status, text := s.do("POST", "/v1/chat/completions", `{`+asksTool+`, `+tools+`, "stream": true}`)
	require.Equal(t, http.StatusOK, status)
	var content strings.Builder
	var names, arguments []string
	var finish any
	pieces := 0
	for _, e := range events(t, text) {
		delta := at(t, e, "choices", 0, "delta").(map[string]any)
		if text, ok := delta["content"].(string); ok {
			content.WriteString(text)
		}
		if list, ok := delta["tool_calls"].([]any); ok {
			for _, call := range list {
				pieces++
				function := at(t, call, "function").(map[string]any)
				if i := int(at(t, call, "index").(float64)); i == len(names) {
					assert.NotEmpty(t, at(t, call, "id"))
					assert.Equal(t, "function", at(t, call, "type"))
					names, arguments = append(names, function["name"].(string)), append(arguments, "")
				} else {
					assert.NotContains(t, function, "name")
				}
				arguments[len(names)-1] += function["arguments"].(string)
			}
		}
		finish = at(t, e, "choices", 0, "finish_reason")
	}
	assert.Equal(t, "I ask.", content.String())
	assert.Equal(t, []string{"rain", "time"}, names)
	assert.Equal(t, []string{`{"in": "Oslo"}`, `{}`}, arguments)
	assert.Equal(t, "tool_calls", finish)
	assert.Greater(t, pieces, 3)
}
