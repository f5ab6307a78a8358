package serve_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/llm"
	"github.com/goggml/ggml/llm/generate"
	"github.com/goggml/ggml/llm/infer"
	"github.com/goggml/ggml/llm/serve"
)

var (
	numBodies   = flag.Int("bodies", 2400, "changed bodies of requests")
	numRequests = flag.Int("requests", 600, "requests after which memory must not have grown")
	firstBody   = flag.Uint64("first", 1, "seed of the first body")
)

// goodBodies are requests to be changed.
var goodBodies = map[string][]string{
	"/v1/chat/completions": {
		`{"model": "tiny", "messages": [{"role": "system", "content": "a"}, {"role": "user", "content": [{"type": "text", "text": "b"}]}], "tools": [{"type": "function", "function": {"name": "f", "parameters": {}}}], "stop": ["x", "y"], "n": 2, "seed": 3, "max_tokens": 2, "temperature": 0.5, "top_p": 0.9, "logprobs": true, "top_logprobs": 1, "stream": false, "chat_template_kwargs": {"k": [1]}}`,
		`{"messages": [{"role": "user", "content": "b"}], "max_tokens": 3, "response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object", "required": ["a"], "properties": {"a": {"anyOf": [{"type": "string", "pattern": "^[a-c]{1,4}$"}, {"type": "array", "items": {"type": "integer", "minimum": 3}, "maxItems": 4}]}, "b": {"$ref": "#/properties/a"}}}}}}`,
		`{"messages": [{"role": "user", "content": "b"}, {"role": "assistant", "content": null, "tool_calls": [{"id": "1", "type": "function", "function": {"name": "f", "arguments": "{\"a\": 1}"}}]}, {"role": "tool", "tool_call_id": "1", "content": "c"}], "max_tokens": 3, "tool_choice": "auto", "parallel_tool_calls": false, "tools": [{"type": "function", "function": {"name": "f", "strict": true, "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}}}}]}`,
	},
	"/v1/completions": {
		`{"prompt": ["a", "b"], "max_tokens": 2, "stop": "c", "logprobs": 2, "echo": false, "stream": true, "stream_options": {"include_usage": true}, "frequency_penalty": 1, "repeat_penalty": 1.1, "top_k": 4, "min_p": 0.1}`,
		`{"prompt": "a", "max_tokens": 3, "grammar": "root ::= (item \",\")* item # c\nitem ::= [a-c]{1,3} | \"x\" | \"[\" root \"]\""}`,
	},
	"/v1/embeddings": {`{"input": ["a", "b"], "encoding_format": "base64"}`},
}

// hostileTexts take the place of bytes, hostileValues of values.
var (
	hostileTexts  = []string{`{`, `}`, `[`, `]`, `"`, `,`, `:`, `null`, `-1`, `1e400`, `9223372036854775808`, `true`, "\x00", "\xff", `\ud800`, `{"a":`, `""`, `[[]]`}
	hostileValues = encodedAll(
		nil, true, -1, 0, 1e9, 1<<40, "", "\x00", strings.Repeat("a", 5000), strings.Repeat("é ", 300), []any{}, map[string]any{}, nested(300, "a"), nested(60, "items"), nested(60, "properties"),
		`root ::= "a"* "a"* "a"* root?`, `root ::= ([ab] | root)+`, `root ::= ((("a"{9}){9}){9}){999}`, `root ::= .{0,100000}`, `root ::= x y`+"\nx ::= y\ny ::= x", `root ::= <[1]>* !<[2]>`,
		map[string]any{"type": "string", "pattern": "((a{9}){9}){9}|(.*.*.*)*"}, map[string]any{"$ref": "#"}, map[string]any{"type": "array", "minItems": 1 << 30}, map[string]any{"enum": make([]any, 500)},
		map[string]any{"oneOf": []any{map[string]any{"$ref": "#"}, map[string]any{"type": "string", "maxLength": 99999}}},
	)
)

// encodedAll encodes values, which may then be in several bodies.
func encodedAll(values ...any) (list []json.RawMessage) {
	for _, v := range values {
		text, err := json.Marshal(v)
		if err != nil {
			panic(err)
		}
		list = append(list, text)
	}
	return list
}

// nested is an object in objects.
func nested(depth int, key string) any {
	var v any = "end"
	for range depth {
		v = map[string]any{key: v}
	}
	return v
}

// changed returns a body with a few changes of its values, or of its bytes.
func changed(r *rand.Rand, body string) []byte {
	if r.IntN(2) == 0 {
		var v any
		if json.Unmarshal([]byte(body), &v) != nil {
			panic(body)
		}
		for range 1 + r.IntN(3) {
			v = changedValue(r, v)
		}
		text, err := json.Marshal(v)
		if err != nil {
			panic(err)
		}
		return text
	}
	b := []byte(body)
	for range 1 + r.IntN(4) {
		at, n := r.IntN(len(b)), r.IntN(8)
		switch piece := hostileTexts[r.IntN(len(hostileTexts))]; r.IntN(3) {
		case 0:
			b = append(b[:at], b[min(len(b), at+n):]...)
		case 1:
			b = append(b[:at], append([]byte(piece), b[at:]...)...)
		default:
			b = append(b[:at], append([]byte(strings.Repeat(piece, 1+r.IntN(200))), b[min(len(b), at+n):]...)...)
		}
		b = append(b, ' ')
	}
	return b
}

// changedValue returns a value in which one at a random place is another.
func changedValue(r *rand.Rand, v any) any {
	if r.IntN(4) > 0 {
		switch v := v.(type) {
		case []any:
			if len(v) > 0 {
				i := r.IntN(len(v))
				v[i] = changedValue(r, v[i])
				return v
			}
		case map[string]any:
			if len(v) > 0 {
				keys := make([]string, 0, len(v))
				for key := range v {
					keys = append(keys, key)
				}
				key := keys[r.IntN(len(keys))]
				if r.IntN(8) == 0 {
					delete(v, key)
				} else {
					v[key] = changedValue(r, v[key])
				}
				return v
			}
		}
	}
	return hostileValues[r.IntN(len(hostileValues))]
}

// Whatever a body is, the answer is one: an error of the request, or a text; nothing fails inside, and a good request is
// answered beside them.
func TestHostileBodies(t *testing.T) {
	s := start(t, serve.Options{MaxBody: 1 << 16}, llm.Options{Session: infer.SessionOptions{Context: 64}})
	per := *numBodies / 6
	if testing.Short() {
		per = min(per, 50)
	}
	var all sync.WaitGroup
	for path, bodies := range goodBodies {
		for _, body := range bodies {
			all.Add(1)
			go func() {
				defer all.Done()
				for i := range per {
					seed := *firstBody + uint64(i)
					b := changed(rand.New(rand.NewPCG(seed, uint64(len(body)))), body)
					w := httptest.NewRecorder()
					s.Config.Handler.ServeHTTP(w, httptest.NewRequest("POST", path, strings.NewReader(string(b))))
					if w.Code != 200 && (w.Code < 400 || w.Code >= 500) {
						assert.Fail(t, "the server failed", "%s, seed %d: %d %s\n%.2000q", path, seed, w.Code, w.Body, b)
					}
				}
			}()
		}
	}
	for range 5 {
		v := s.post("/v1/chat/completions", `{`+talk+`, "temperature": 0, "max_tokens": 4}`)
		assert.True(t, strings.HasPrefix(answer, at(t, v, "choices", 0, "message", "content").(string)))
	}
	all.Wait()
	deep := strings.Repeat("[", 20000) + strings.Repeat("]", 20000)
	status, _ := s.do("POST", "/v1/chat/completions", `{"messages": [{"role": "user", "content": `+deep+`}]}`)
	assert.Equal(t, http.StatusBadRequest, status)
	status, _ = s.do("POST", "/v1/chat/completions", `{`+talk+`, "tools": `+deep[:100]+deep[len(deep)-100:]+`, "max_tokens": 1}`)
	assert.Less(t, status, 500)
}

// Bodies that do not arrive, of all endpoints and without the key too, hold their connections for a limited time, and nobody
// waits for them.
func TestSlowBodies(t *testing.T) {
	s := start(t, serve.Options{Patience: 300 * time.Millisecond, Key: "secret"}, llm.Options{})
	var connections []net.Conn
	for i := range 60 {
		c, err := net.Dial("tcp", s.Listener.Addr().String())
		require.NoError(t, err)
		defer c.Close()
		path := []string{"POST /v1/completions", "POST /v1/embeddings", "GET /health", "GET /v1/none", "POST /v1/chat/completions"}[i%5]
		key := []string{"secret", "wrong"}[i%2]
		_, err = fmt.Fprintf(c, "%s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Length: 100\r\n\r\n{", path, key)
		require.NoError(t, err)
		connections = append(connections, c)
	}
	r, err := http.NewRequest("POST", s.URL+"/v1/completions", strings.NewReader(`{"prompt": "a", "max_tokens": 1}`))
	require.NoError(t, err)
	r.Header.Set("Authorization", "Bearer secret")
	response, err := s.Client().Do(r)
	require.NoError(t, err)
	response.Body.Close()
	require.Equal(t, http.StatusOK, response.StatusCode)
	for _, c := range connections {
		require.NoError(t, c.SetReadDeadline(time.Now().Add(time.Minute)))
		_, err := io.ReadAll(c) // until the server closes
		require.NoError(t, err)
	}
}

// 64 conversations at the same time with 8 adapters and the model itself get what they get alone; beside them, clients leave,
// ask for what does not fit or does not exist, and adapters are replaced.
func TestConversationsTogether(t *testing.T) {
	need.Time(t, "answers many requests")
	s := start(t, serve.Options{}, llm.Options{Session: infer.SessionOptions{Sequences: 8, Context: 96}})
	h := s.Config.Handler.(*serve.Handler)
	named := map[string]*llm.Adapter{}
	for i := range 8 {
		named[fmt.Sprint("a", i)] = s.adapter(i + 1)
	}
	h.SetAdapters(named)
	request := func(i int) string {
		model := "tiny"
		if i%9 > 0 {
			model = fmt.Sprint("a", i%9-1)
		}
		return fmt.Sprintf(`{"model": %q, "messages": [{"role": "user", "content": %q}], "temperature": 0, "max_tokens": 12}`, model, fmt.Sprint(question, i/9))
	}
	text := func(i int) any {
		return at(t, s.post("/v1/chat/completions", request(i)), "choices", 0, "message", "content")
	}
	want := make([]any, 64)
	for i := range want {
		want[i] = text(i)
	}
	var all sync.WaitGroup
	for i := range want {
		all.Add(2)
		go func() {
			defer all.Done()
			assert.Equal(t, want[i], text(i), "conversation %d", i)
		}()
		go func() {
			defer all.Done()
			s.disturb(i)
		}()
	}
	all.Wait()
	require.Eventually(t, func() bool { l := s.m.Load(); return l.Running+l.Waiting == 0 }, time.Minute, time.Millisecond)
}

// disturb sends a request of which nothing comes.
func (s *server) disturb(i int) {
	switch i % 5 {
	case 0: // disconnects
		c, err := net.Dial("tcp", s.Listener.Addr().String())
		if assert.NoError(s.t, err) {
			body := fmt.Sprintf(`{"model": "a%d", "prompt": "a", "ignore_eos": true, "max_tokens": 80, "stream": true}`, i%8)
			fmt.Fprintf(c, "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
			io.ReadFull(c, make([]byte, i))
			c.Close()
		}
	case 1:
		status, _ := s.do("POST", "/v1/chat/completions", `{"messages": [{"role": "user", "content": "`+strings.Repeat("a ", 400)+`"}]}`)
		assert.Equal(s.t, http.StatusBadRequest, status)
	case 2:
		status, _ := s.do("POST", "/v1/completions", `{"model": "a99", "prompt": "a"}`)
		assert.Equal(s.t, http.StatusNotFound, status)
	case 3:
		s.post("/v1/embeddings", fmt.Sprintf(`{"model": "a%d", "input": ["a", "%s"]}`, i%8, strings.Repeat("b", 80)))
	default:
		s.post("/v1/completions", `{"prompt": "a", "max_tokens": 5, "seed": 1, "json_schema": {"type": "array", "items": {"type": "integer"}}}`)
	}
}

// Requests of all kinds leave nothing behind: no goroutine, and no memory.
func TestNothingGrows(t *testing.T) {
	s := start(t, serve.Options{}, llm.Options{Session: infer.SessionOptions{Context: 96}, Scheduler: generate.SchedulerOptions{Chunk: 16}})
	n := *numRequests
	if testing.Short() {
		n = min(n, 100)
	}
	work := func(n int) (goroutines int, memory uint64) {
		var all sync.WaitGroup
		for worker := range 4 {
			all.Add(1)
			go func() {
				defer all.Done()
				for i := worker; i < n; i += 4 {
					if s.disturb(i); i%5 == 4 {
						s.post("/v1/chat/completions", fmt.Sprintf(`{"messages": [{"role": "user", "content": "%d"}], "max_tokens": 4, "n": 2}`, i))
					}
				}
			}()
		}
		all.Wait()
		s.Client().CloseIdleConnections()
		require.Eventually(t, func() bool { l := s.m.Load(); return l.Running+l.Waiting == 0 }, time.Minute, time.Millisecond)
		for range 100 { // connections end
			if now := runtime.NumGoroutine(); now == goroutines {
				break
			} else {
				goroutines = now
			}
			time.Sleep(20 * time.Millisecond)
		}
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return goroutines, m.HeapAlloc
	}
	h := s.Config.Handler.(*serve.Handler)
	named := map[string]*llm.Adapter{}
	for i := range 8 {
		named[fmt.Sprint("a", i)] = s.adapter(i + 1)
	}
	h.SetAdapters(named)
	before, memory := work(max(100, n/10))
	after, grown := work(n)
	require.LessOrEqual(t, after, before+2)
	require.Less(t, int64(grown)-int64(memory), int64(2<<20))
	t.Logf("%d requests: goroutines %d then %d, Go's heap %d KB then %d KB", n, before, after, memory>>10, grown>>10)
}
