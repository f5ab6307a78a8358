package serve_test

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/llm"
	"github.com/goggml/ggml/llm/generate"
	"github.com/goggml/ggml/llm/infer"
	"github.com/goggml/ggml/llm/lora"
	"github.com/goggml/ggml/llm/serve"
)

// A server answers at an address of its own.
type server struct {
	*httptest.Server
	t *testing.T
	m *llm.Model
}

func start(t *testing.T, o serve.Options, of llm.Options) *server {
	t.Helper()
	if of.Session.Context == 0 {
		of.Session.Context = 128
	}
	of.Session.Threads = 1
	m, err := llm.Open(modelPath, of)
	require.NoError(t, err)
	h, err := serve.New(m, o)
	require.NoError(t, err)
	s := &server{httptest.NewServer(h), t, m}
	t.Cleanup(func() {
		s.Close()
		require.NoError(t, m.Close())
	})
	return s
}

// do sends a request, and returns the status and the body.
func (s *server) do(method, path, body string) (int, string) {
	s.t.Helper()
	r, err := http.NewRequest(method, s.URL+path, strings.NewReader(body))
	require.NoError(s.t, err)
	response, err := s.Client().Do(r)
	require.NoError(s.t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	require.NoError(s.t, err)
	return response.StatusCode, string(text)
}

// post sends a request, and returns the values of its answer.
func (s *server) post(path, body string) map[string]any {
	s.t.Helper()
	status, text := s.do("POST", path, body)
	require.Equal(s.t, http.StatusOK, status, text)
	var values map[string]any
	require.NoError(s.t, json.Unmarshal([]byte(text), &values))
	return values
}

// at returns the value at a path of keys and indices.
func at(t *testing.T, v any, path ...any) any {
	t.Helper()
	for _, p := range path {
		switch p := p.(type) {
		case string:
			v = v.(map[string]any)[p]
		case int:
			require.Greater(t, len(v.([]any)), p)
			v = v.([]any)[p]
		}
	}
	return v
}

// events returns the events of a stream, without the mark of its end.
func events(t *testing.T, text string) (list []any) {
	t.Helper()
	text, done := strings.CutSuffix(text, "data: [DONE]\n\n")
	require.True(t, done, text)
	for event := range strings.SplitSeq(strings.TrimSuffix(text, "\n\n"), "\n\n") {
		var v any
		require.NoError(t, json.Unmarshal([]byte(strings.TrimPrefix(event, "data: ")), &v))
		list = append(list, v)
	}
	return list
}

const talk = `"messages": [{"role": "user", "content": "` + question + `"}]`

func TestChat(t *testing.T) {
	s := start(t, serve.Options{}, llm.Options{})
	v := s.post("/v1/chat/completions", `{"model": "tiny", `+talk+`, "temperature": 0, "n": 2, "logprobs": true, "top_logprobs": 2}`)
	assert.Equal(t, "chat.completion", at(t, v, "object"))
	assert.Equal(t, "tiny", at(t, v, "model"))
	for i := range 2 {
		c := at(t, v, "choices", i)
		assert.Equal(t, answer, at(t, c, "message", "content"))
		assert.Equal(t, "assistant", at(t, c, "message", "role"))
		assert.Equal(t, "stop", at(t, c, "finish_reason"))
		assert.EqualValues(t, i, at(t, c, "index"))
		content := at(t, c, "logprobs", "content").([]any)
		text := ""
		for _, token := range content[:len(content)-1] { // the last one ends the turn
			text += at(t, token, "token").(string)
			assert.Equal(t, at(t, token, "logprob"), at(t, token, "top_logprobs", 0, "logprob"))
		}
		assert.Equal(t, answer, text)
	}
	prompt, completion := at(t, v, "usage", "prompt_tokens").(float64), at(t, v, "usage", "completion_tokens").(float64)
	assert.Positive(t, prompt)
	assert.Positive(t, completion)
	assert.Equal(t, prompt+completion, at(t, v, "usage", "total_tokens"))
	v = s.post("/v1/chat/completions", `{`+talk+`, "temperature": 0, "stop": " light"}`)
	assert.Equal(t, "Because air scatters blue", at(t, v, "choices", 0, "message", "content"))
	assert.Positive(t, at(t, v, "usage", "prompt_tokens_details", "cached_tokens"))
	v = s.post("/v1/chat/completions", `{"messages": [{"role": "user", "content": [{"type": "text", "text": "`+question+`"}]}], "temperature": 0, "max_completion_tokens": 1, "stop": ["x"], "logit_bias": {}, "tools": [], "user": "u"}`)
	assert.Equal(t, "length", at(t, v, "choices", 0, "finish_reason"))
	assert.EqualValues(t, 1, at(t, v, "usage", "completion_tokens"))
}

// Equal seeds give equal texts, of a stream too; the seeds of choices differ.
func TestSeeds(t *testing.T) {
	s := start(t, serve.Options{}, llm.Options{})
	text := func(seed string) string {
		v := s.post("/v1/completions", `{"prompt": "a", "n": 2, "temperature": 3, "max_tokens": 24`+seed+`}`)
		return fmt.Sprint(at(t, v, "choices"))
	}
	assert.Equal(t, text(`, "seed": 0`), text(`, "seed": 0`))
	assert.NotEqual(t, text(`, "seed": 0`), text(`, "seed": -7`))
	assert.NotEqual(t, text(``), text(``))
	v := s.post("/v1/completions", `{"prompt": "a", "n": 2, "temperature": 3, "max_tokens": 24, "seed": 5}`)
	assert.NotEqual(t, at(t, v, "choices", 0, "text"), at(t, v, "choices", 1, "text"))
}

func TestChatStreams(t *testing.T) {
	s := start(t, serve.Options{}, llm.Options{})
	status, text := s.do("POST", "/v1/chat/completions", `{`+talk+`, "temperature": 0, "n": 2, "stream": true, "stream_options": {"include_usage": true}}`)
	require.Equal(t, http.StatusOK, status)
	list := events(t, text)
	contents, finishes := [2]string{}, [2]any{}
	for _, e := range list[:len(list)-1] {
		assert.Equal(t, "chat.completion.chunk", at(t, e, "object"))
		assert.Nil(t, at(t, e, "usage"))
		c := at(t, e, "choices", 0)
		i := int(at(t, c, "index").(float64))
		if content, ok := at(t, c, "delta", "content").(string); ok {
			contents[i] += content
		}
		finishes[i] = at(t, c, "finish_reason")
	}
	assert.Equal(t, [2]string{answer, answer}, contents)
	assert.Equal(t, [2]any{"stop", "stop"}, finishes)
	assert.Positive(t, at(t, list[len(list)-1], "usage", "completion_tokens"))
	assert.Greater(t, len(list), 8)
}

func TestCompletions(t *testing.T) {
	s := start(t, serve.Options{}, llm.Options{})
	prompt := `<|user|>` + question + `<|end|><|assistant|>`
	v := s.post("/v1/completions", `{"prompt": ["`+prompt+`", "`+prompt+`Because"], "temperature": 0, "max_tokens": 40, "logprobs": 1}`)
	assert.Equal(t, answer, at(t, v, "choices", 0, "text"))
	assert.Equal(t, strings.TrimPrefix(answer, "Because"), at(t, v, "choices", 1, "text"))
	assert.Equal(t, "stop", at(t, v, "choices", 0, "finish_reason"))
	assert.Equal(t, len(at(t, v, "choices", 0, "logprobs", "tokens").([]any)), len(at(t, v, "choices", 0, "logprobs", "token_logprobs").([]any)))
	v = s.post("/v1/completions", `{"prompt": "`+prompt+`", "temperature": 0, "echo": true, "stop": [" scatters"]}`)
	assert.Equal(t, prompt+"Because air", at(t, v, "choices", 0, "text"))
	_, text := s.do("POST", "/v1/completions", `{"prompt": "`+prompt+`", "temperature": 0, "max_tokens": 40, "stream": true}`)
	whole := ""
	for _, e := range events(t, text) {
		whole += at(t, e, "choices", 0, "text").(string)
	}
	assert.Equal(t, answer, whole)
}

func TestEmbeddings(t *testing.T) {
	s := start(t, serve.Options{}, llm.Options{})
	want, err := s.m.Embed(context.Background(), []string{"a", "two words"}, infer.EmbedOptions{Normalize: true})
	require.NoError(t, err)
	v := s.post("/v1/embeddings", `{"model": "tiny", "input": ["a", "two words"]}`)
	for i := range want {
		for j, x := range want[i] {
			require.InDelta(t, x, at(t, v, "data", i, "embedding", j), 1e-6)
		}
	}
	assert.Positive(t, at(t, v, "usage", "prompt_tokens"))
	v = s.post("/v1/embeddings", `{"input": "a", "encoding_format": "base64"}`)
	bytes, err := base64.StdEncoding.DecodeString(at(t, v, "data", 0, "embedding").(string))
	require.NoError(t, err)
	assert.Len(t, bytes, 4*len(want[0]))
}

func TestAbout(t *testing.T) {
	s := start(t, serve.Options{Name: "org/sky"}, llm.Options{Session: infer.SessionOptions{Sequences: 3}})
	get := func(path string) string {
		status, text := s.do("GET", path, "")
		require.Equal(t, http.StatusOK, status)
		return text
	}
	assert.JSONEq(t, `{"status": "ok"}`, get("/health"))
	assert.Contains(t, get("/v1/models"), `"id":"org/sky"`)
	assert.Contains(t, get("/v1/models/org/sky"), `"object":"model"`)
	assert.Contains(t, get("/props"), `"total_slots":3`)
	s.post("/v1/chat/completions", `{`+talk+`, "max_tokens": 3}`)
	assert.Regexp(t, `(?m)^# TYPE llamacpp:tokens_predicted_total counter\nllamacpp:tokens_predicted_total [1-3]$`, get("/metrics"))
	assert.Contains(t, get("/metrics"), "\nllamacpp:requests_total 1\n")
}

// llama-server's own endpoints answer in its form.
func TestNativeEndpoints(t *testing.T) {
	s := start(t, serve.Options{}, llm.Options{})
	v := s.post("/tokenize", `{"content": "sky é"}`)
	text, err := json.Marshal(map[string]any{"tokens": at(t, v, "tokens")})
	require.NoError(t, err)
	assert.Equal(t, "sky é", at(t, s.post("/detokenize", string(text)), "content"))
	v = s.post("/tokenize", `{"content": "<|user|>a", "with_pieces": true}`)
	assert.Equal(t, "<|user|>", at(t, v, "tokens", 0, "piece"))
	prompt := at(t, s.post("/apply-template", `{`+talk+`}`), "prompt").(string)
	assert.Equal(t, "<|user|>"+question+"<|end|><|assistant|>", prompt)
	v = s.post("/completion", `{"prompt": "`+prompt+`", "temperature": 0}`)
	assert.Equal(t, answer, at(t, v, "content"))
	assert.Equal(t, "eos", at(t, v, "stop_type"))
	assert.Positive(t, at(t, v, "tokens_evaluated"))
	assert.Equal(t, "limit", at(t, s.post("/completion", `{"prompt": "`+prompt+`", "temperature": 0, "n_predict": 2}`), "stop_type"))
	_, stream := s.do("POST", "/completion", `{"prompt": "`+prompt+`", "temperature": 0, "stream": true}`)
	whole := ""
	for _, e := range events(t, stream+"data: [DONE]\n\n") {
		whole += at(t, e, "content").(string)
	}
	assert.Equal(t, answer, whole)
	_, slots := s.do("GET", "/slots", "")
	assert.Contains(t, slots, `"is_processing":false`)
}

// The page is whole: it refers to nothing elsewhere, and its policy allows its script and style.
func TestPage(t *testing.T) {
	s := start(t, serve.Options{Key: "secret"}, llm.Options{})
	response, err := s.Client().Get(s.URL + "/")
	require.NoError(t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	assert.Equal(t, http.StatusOK, response.StatusCode)
	assert.Equal(t, "text/html; charset=utf-8", response.Header.Get("Content-Type"))
	assert.Regexp(t, `script-src 'sha256-[^']+='; style-src 'sha256-`, response.Header.Get("Content-Security-Policy"))
	assert.NotRegexp(t, `https?://|src=|href=|innerHTML|style=`, string(text))
	status, _ := s.do("GET", "/none", "")
	assert.Equal(t, http.StatusUnauthorized, status)
}

// Answers have the JSON schema or grammar of the request, streamed too.
func TestGrammars(t *testing.T) {
	s := start(t, serve.Options{}, llm.Options{})
	const schema = `{"type": "object", "properties": {"a": {"type": "integer"}, "b": {"enum": ["x", "y"]}}, "required": ["b"]}`
	for _, fields := range []string{
		`"response_format": {"type": "json_schema", "json_schema": {"name": "n", "strict": true, "schema": ` + schema + `}}`,
		`"response_format": {"type": "json_object", "schema": ` + schema + `}`,
		`"json_schema": ` + schema,
	} {
		v := s.post("/v1/chat/completions", `{`+talk+`, "seed": 1, "n": 3, `+fields+`}`)
		for i := range 3 {
			var answer struct {
				A int
				B string
			}
			require.NoError(t, json.Unmarshal([]byte(at(t, v, "choices", i, "message", "content").(string)), &answer))
			assert.Contains(t, []string{"x", "y"}, answer.B)
			assert.Equal(t, "stop", at(t, v, "choices", i, "finish_reason"))
		}
		v = s.post("/v1/completions", `{"prompt": "a", "max_tokens": 100, "seed": 1, `+fields+`}`)
		assert.Regexp(t, `^\{\s*(?s:.*)"b"\s*:\s*"[xy]"(?s:.*)\}\s*$`, at(t, v, "choices", 0, "text"))
	}
	status, text := s.do("POST", "/v1/chat/completions", `{`+talk+`, "stream": true, "grammar": "root ::= \"sky\" [0-9]{3}"}`)
	require.Equal(t, http.StatusOK, status)
	got := ""
	for _, e := range events(t, text) {
		if content, has := at(t, e, "choices", 0, "delta").(map[string]any)["content"]; has {
			got += content.(string)
		}
	}
	assert.Regexp(t, `^sky[0-9]{3}$`, got)
}

// Wrong requests get a status and an error in OpenAI's form that names the field.
func TestErrors(t *testing.T) {
	s := start(t, serve.Options{MaxBody: 4096}, llm.Options{})
	for _, c := range []struct {
		path, body string
		status     int
		want       string // in the error
	}{
		{"/v1/chat/completions", `{`, 400, "the body is not a request"},
		{"/v1/chat/completions", `{"messages": 3}`, 400, "messages must be a list"},
		{"/v1/chat/completions", `{"messages": []}`, 400, "messages is empty"},
		{"/v1/chat/completions", `{"messages": [{"content": "a"}]}`, 400, "messages[0] has no role"},
		{"/v1/chat/completions", `{"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}`, 400, `part of type \"image_url\"`},
		{"/v1/chat/completions", `{"model": "gpt", ` + talk + `}`, 404, `"code":"model_not_found"`},
		{"/v1/chat/completions", `{` + talk + `, "n": 0}`, 400, `"param":"n"`},
		{"/v1/chat/completions", `{` + talk + `, "n": 1000000}`, 400, `"param":"n"`},
		{"/v1/chat/completions", `{` + talk + `, "temperature": -1}`, 400, "temperature -1"},
		{"/v1/chat/completions", `{` + talk + `, "temperature": "warm"}`, 400, "temperature: it is a string"},
		{"/v1/chat/completions", `{` + talk + `, "stop": [1]}`, 400, "a string or a list of strings"},
		{"/v1/chat/completions", `{` + talk + `, "max_tokens": -2}`, 400, "max_completion_tokens is -2"},
		{"/v1/chat/completions", `{` + talk + `, "top_logprobs": 2}`, 400, "top_logprobs needs logprobs"},
		{"/v1/chat/completions", `{` + talk + `, "response_format": {"type": "xml"}}`, 400, `response_format \"xml\" is unknown`},
		{"/v1/chat/completions", `{` + talk + `, "response_format": {"type": "json_schema"}}`, 400, "no json_schema.schema"},
		{"/v1/chat/completions", `{` + talk + `, "response_format": {"type": "json_object", "schema": {"not": {}}}}`, 400, `the keyword \"not\" is unsupported`},
		{"/v1/chat/completions", `{` + talk + `, "response_format": {"type": "json_object"}, "json_schema": {}}`, 400, "exclude each other"},
		{"/v1/chat/completions", `{` + talk + `, "response_format": {"type": "json_object"}, "tools": [{"type": "function"}]}`, 400, "is not known well enough to force calls"},
		{"/v1/chat/completions", `{` + talk + `, "grammar": "root ::= x"}`, 400, `there is no rule \"x\"`},
		{"/v1/chat/completions", `{` + talk + `, "grammar": "root ::= <none>"}`, 400, "is not a single token"},
		{"/v1/completions", `{"prompt": "a", "json_schema": {}, "grammar": "root ::= \"a\""}`, 400, "grammar and json_schema exclude each other"},
		{"/v1/completions", `{"prompt": "a", "max_tokens": 500, "grammar": "root ::= [ab] root \"c\" | [ab] root \"d\""}`, 400, "too many derivations"},
		{"/v1/chat/completions", `{` + talk + `, "logit_bias": {"3": 1}}`, 400, "logit_bias"},
		{"/v1/chat/completions", `{` + talk + `, "tool_choice": "required"}`, 400, "the request has no tools"},
		{"/v1/chat/completions", `{` + talk + `, "tool_choice": "all"}`, 400, `tool_choice \"all\" is unknown`},
		{"/v1/chat/completions", `{` + talk + `, "tool_choice": {"type": "function"}}`, 400, "tool_choice must be"},
		{"/completion", `{}`, 400, "prompt must be a text"},
		{"/completion", `{"prompt": "a", "n_predict": -3}`, 400, "n_predict is -3"},
		{"/detokenize", `{"tokens": [-1]}`, 400, "tokens[0] is -1"},
		{"/apply-template", `{"messages": []}`, 400, "messages is empty"},
		{"/v1/chat/completions", `{"messages": [{"role": "user", "content": "` + strings.Repeat("a ", 400) + `"}]}`, 400, `"code":"context_length_exceeded"`},
		{"/v1/chat/completions", `{"messages": [{"role": "user", "content": "` + strings.Repeat("a ", 4000) + `"}]}`, 413, "larger than the server allows"},
		{"/v1/completions", `{"prompt": ""}`, 400, "the prompt is empty"},
		{"/v1/embeddings", `{"input": ""}`, 400, "text 1 is empty"},
		{"/v1/completions", `{}`, 400, `"param":"prompt"`},
		{"/v1/completions", `{"prompt": ["a", "b", "c"], "n": 8}`, 400, "the limit is 16 choices"},
		{"/v1/completions", `{"prompt": "a", "suffix": "b"}`, 400, "suffix"},
		{"/v1/completions", `{"prompt": "a", "best_of": 3}`, 400, "best_of"},
		{"/v1/embeddings", `{"input": [1, 2]}`, 400, `"param":"input"`},
		{"/v1/embeddings", `{"input": "a", "dimensions": 3}`, 400, "dimensions"},
		{"/v1/embeddings", `{"input": ["a", "` + strings.Repeat("a ", 400) + `"]}`, 400, "text 2"},
		{"/v1/none", `{}`, 404, "there is no POST /v1/none"},
	} {
		status, text := s.do("POST", c.path, c.body)
		assert.Equal(t, c.status, status, "%s %.80s: %s", c.path, c.body, text)
		var e struct {
			Error struct{ Message, Type string }
		}
		assert.NoError(t, json.Unmarshal([]byte(text), &e))
		assert.NotEmpty(t, e.Error.Message)
		assert.Equal(t, "invalid_request_error", e.Error.Type)
		assert.Contains(t, text, c.want)
	}
	status, _ := s.do("GET", "/v1/models/gpt", "")
	assert.Equal(t, http.StatusNotFound, status)
}

func TestKey(t *testing.T) {
	s := start(t, serve.Options{Key: "secret"}, llm.Options{})
	for key, want := range map[string]int{"": 401, "wrong": 401, "secret": 200} {
		r, err := http.NewRequest("GET", s.URL+"/v1/models", nil)
		require.NoError(t, err)
		r.Header.Set("Authorization", "Bearer "+key)
		response, err := s.Client().Do(r)
		require.NoError(t, err)
		response.Body.Close()
		assert.Equal(t, want, response.StatusCode)
	}
	status, _ := s.do("GET", "/health", "")
	assert.Equal(t, http.StatusOK, status)
	r, err := http.NewRequest("GET", s.URL+"/health", nil)
	require.NoError(t, err)
	r.Header.Set("Sec-Fetch-Site", "cross-site")
	response, err := s.Client().Do(r)
	require.NoError(t, err)
	response.Body.Close()
	assert.Equal(t, http.StatusForbidden, response.StatusCode)
}

// adapter opens an adapter that changes all answers, another one for each seed.
func (s *server) adapter(seed int) *llm.Adapter {
	s.t.Helper()
	path := filepath.Join(s.t.TempDir(), "adapter.gguf")
	file, err := lora.New(s.m.Weights(), lora.Options{Rank: 2, Seed: uint64(seed)})
	require.NoError(s.t, err)
	defer file.Close()
	for _, p := range file.Pairs() {
		values := make([]float32, p.B.NumElements())
		for i := range values {
			values[i] = float32((i*seed)%7) - 3
		}
		require.NoError(s.t, ggml.Write(p.B, values))
	}
	require.NoError(s.t, file.Save(path, lora.SaveOptions{}))
	a, err := s.m.LoadAdapter(context.Background(), path, 1)
	require.NoError(s.t, err)
	return a
}

// Each adapter beside the model is a model with a name; requests with both run at the same time.
func TestAdapters(t *testing.T) {
	s := start(t, serve.Options{}, llm.Options{})
	odd := s.adapter(1)
	h := s.Config.Handler.(*serve.Handler)
	h.SetAdapters(map[string]*llm.Adapter{"odd": odd})
	var all sync.WaitGroup
	for i := range 8 {
		all.Add(1)
		go func() {
			defer all.Done()
			name := []string{"tiny", "odd"}[i%2]
			v := s.post("/v1/chat/completions", `{"model": "`+name+`", `+talk+`, "temperature": 0, "max_tokens": 30}`)
			assert.Equal(t, name, at(t, v, "model"))
			assert.Equal(t, name == "tiny", at(t, v, "choices", 0, "message", "content") == answer)
		}()
	}
	all.Wait()
	_, text := s.do("GET", "/v1/models", "")
	assert.Contains(t, text, `"id":"odd"`)
	want, err := s.m.Embed(context.Background(), []string{"a"}, infer.EmbedOptions{Normalize: true, Adapters: odd.Prepared()})
	require.NoError(t, err)
	v := s.post("/v1/embeddings", `{"model": "odd", "input": "a"}`)
	assert.Equal(t, "odd", at(t, v, "model"))
	for i, x := range want[0] {
		require.InDelta(t, x, at(t, v, "data", 0, "embedding", i), 1e-6)
	}
	assert.NotEqual(t, at(t, s.post("/v1/embeddings", `{"input": "a"}`), "data", 0, "embedding"), at(t, v, "data", 0, "embedding"))
	h.SetAdapters(nil)
	require.NoError(t, odd.Close(context.Background()))
	status, _ := s.do("POST", "/v1/completions", `{"model": "odd", "prompt": "a"}`)
	assert.Equal(t, http.StatusNotFound, status)
}

// long is a text that nothing ends for a long time.
const long = `{"prompt": "a", "temperature": 0, "ignore_eos": true, "max_tokens": 100000, "stream": true}`

// A client that disconnects ends its request; one that waits beyond the queue is told to come again.
func TestDisconnectAndQueue(t *testing.T) {
	s := start(t, serve.Options{}, llm.Options{Session: infer.SessionOptions{Sequences: 1, Context: 1 << 17}, Scheduler: generate.SchedulerOptions{Queue: 1}})
	busy := func(running, waiting int) {
		t.Helper()
		require.Eventually(t, func() bool { l := s.m.Load(); return l.Running == running && l.Waiting == waiting }, time.Minute, time.Millisecond)
	}
	ctx, leave := context.WithCancel(context.Background())
	defer leave()
	open := func() *http.Response {
		r, err := http.NewRequestWithContext(ctx, "POST", s.URL+"/v1/completions", strings.NewReader(long))
		require.NoError(t, err)
		response, err := s.Client().Do(r)
		require.NoError(t, err)
		return response
	}
	first := open()
	line, err := bufio.NewReader(first.Body).ReadString('\n')
	require.NoError(t, err)
	require.Contains(t, line, "data: {")
	busy(1, 0)
	waits := make(chan error)
	go func() {
		r, _ := http.NewRequestWithContext(ctx, "POST", s.URL+"/v1/completions", strings.NewReader(long))
		_, err := s.Client().Do(r)
		waits <- err
	}()
	busy(1, 1)
	status, text := s.do("POST", "/v1/completions", long)
	require.Equal(t, http.StatusTooManyRequests, status, text)
	leave()
	require.ErrorIs(t, <-waits, context.Canceled)
	first.Body.Close()
	busy(0, 0)
}

// A request beyond the time limit ends with an error, as an answer or within its stream.
func TestTimeLimit(t *testing.T) {
	need.Time(t, "waits for a second")
	s := start(t, serve.Options{MaxTime: 200 * time.Millisecond}, llm.Options{Session: infer.SessionOptions{Context: 1 << 17}})
	status, text := s.do("POST", "/v1/completions", strings.Replace(long, `"stream": true`, `"stream": false`, 1))
	assert.Equal(t, http.StatusGatewayTimeout, status)
	assert.Contains(t, text, "took longer than the server allows")
	status, text = s.do("POST", "/v1/completions", long)
	assert.Equal(t, http.StatusOK, status)
	assert.Contains(t, text, `data: {"error":{"message":"the request took longer`)
}

// A body that does not arrive ends its request, and nobody else's.
func TestSlowBody(t *testing.T) {
	s := start(t, serve.Options{Patience: 50 * time.Millisecond}, llm.Options{})
	c, err := net.Dial("tcp", s.Listener.Addr().String())
	require.NoError(t, err)
	defer c.Close()
	_, err = io.WriteString(c, "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{")
	require.NoError(t, err)
	s.post("/v1/completions", `{"prompt": "a", "max_tokens": 1}`)
	response, err := http.ReadResponse(bufio.NewReader(c), nil)
	require.NoError(t, err)
	defer response.Body.Close()
	assert.Equal(t, http.StatusRequestTimeout, response.StatusCode)
}

// A handler that New did not make answers that it cannot serve.
func TestZeroHandler(t *testing.T) {
	w := httptest.NewRecorder()
	new(serve.Handler).ServeHTTP(w, httptest.NewRequest("GET", "/health", nil))
	require.Equal(t, http.StatusInternalServerError, w.Code)
	require.Contains(t, w.Body.String(), "the handler is a zero value; New makes one")
}
