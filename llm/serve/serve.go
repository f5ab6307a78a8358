package serve

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/goggml/ggml/internal/plainjson"
	"github.com/goggml/ggml/llm"
	"github.com/goggml/ggml/llm/generate"
	"github.com/goggml/ggml/llm/sample"
)

// Options are the settings of a [Handler]; the zero value is usual.
type Options struct {
	// Name is the name of the model for clients; "" is the name of its file without the extension.
	Name string
	// Key is the API key that clients send as "Authorization: Bearer KEY"; "" needs none.
	Key string
	// Sampling is for fields that a request lacks; nil: temperature 1, as OpenAI's. Seeds are of requests.
	Sampling *sample.Options
	// Chat is for fields that a request to answer a conversation lacks: Variables, Limit, Stop.
	Chat generate.ChatOptions
	// MaxBody is the largest size of a request in bytes; 0: 4 MiB.
	MaxBody int64
	// MaxChoices is the largest number of answers to a request, and of its prompts; 0: 16.
	MaxChoices int
	// MaxTime is the longest time of a request, including its time in the queue; 0: no limit.
	MaxTime time.Duration
	// Patience is how long a client may take to send a body, and to take a part of an answer; 0: 30 s.
	Patience time.Duration
}

// A Handler answers HTTP requests with a model. It is safe for concurrent use, and keeps nothing open.
type Handler struct {
	m     *llm.Model
	o     Options
	key   [sha256.Size]byte
	mux   *http.ServeMux
	begun time.Time
	named atomic.Pointer[map[string]*llm.Adapter]
}

// SetAdapters makes each adapter a model with a name, beside the model itself, instead of the adapters before. Requests that
// run keep theirs; close an adapter that is left out after this call.
func (h *Handler) SetAdapters(named map[string]*llm.Adapter) {
	named = maps.Clone(named)
	h.named.Store(&named)
}

// adapter returns the adapter of a model's name; nil for the model itself, which "" names too.
func (h *Handler) adapter(name string) (*llm.Adapter, error) {
	named := *h.named.Load()
	if a := named[name]; a != nil {
		return a, nil
	}
	if name != "" && name != h.o.Name {
		return nil, &failure{Status: http.StatusNotFound, Type: "invalid_request_error", Param: "model", Code: "model_not_found", Message: fmt.Sprintf("there is no model %q; GET /v1/models lists those that there are", name)}
	}
	return nil, nil
}

// New returns a handler for a model, which is closed after the last request.
func New(m *llm.Model, o Options) (*Handler, error) {
	weights := m.Weights()
	if weights == nil {
		return nil, errors.New("the model is nil or a zero value; llm.Open makes one")
	}
	o.Name = cmp.Or(o.Name, strings.TrimSuffix(filepath.Base(weights.Path), filepath.Ext(weights.Path)))
	o.MaxBody, o.MaxChoices, o.Patience = cmp.Or(o.MaxBody, 4<<20), cmp.Or(o.MaxChoices, 16), cmp.Or(o.Patience, 30*time.Second)
	if o.Sampling == nil {
		o.Sampling = &sample.Options{Temperature: 1}
	}
	if _, err := sample.New(*o.Sampling); err != nil {
		return nil, err
	}
	h := &Handler{m: m, o: o, key: sha256.Sum256([]byte(o.Key)), mux: http.NewServeMux(), begun: time.Now()}
	h.SetAdapters(nil)
	for pattern, f := range map[string]func(http.ResponseWriter, *http.Request) error{
		"GET /{$}": h.page, "GET /health": h.health, "GET /props": h.props, "GET /metrics": h.metrics,
		"GET /v1/models": h.models, "GET /v1/models/{name...}": h.model,
		"POST /v1/chat/completions": h.chat, "POST /v1/completions": h.complete, "POST /v1/embeddings": h.embed,
		"POST /tokenize": h.tokenize, "POST /detokenize": h.detokenize, "POST /apply-template": h.applyTemplate, "POST /completion": h.continuePrompt, "GET /slots": h.slots,
	} {
		h.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			if err := f(w, r); err != nil {
				fail(w, err)
			}
		})
	}
	h.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		fail(w, &failure{Status: http.StatusNotFound, Type: "invalid_request_error", Message: "there is no " + r.Method + " " + r.URL.Path})
	})
	return h, nil
}

// ServeHTTP answers a request.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if h.mux == nil {
		fail(w, errors.New("the handler is a zero value; New makes one"))
		return
	}
	// Also a body that no handler reads: net/http reads it before the next request.
	http.NewResponseController(w).SetReadDeadline(time.Now().Add(h.o.Patience)) // recorders of tests have no deadlines
	if err := h.admit(r); err != nil {
		w.Header().Set("Connection", "close") // nothing else is read from a client without the key
		fail(w, err)
		return
	}
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-store")
	if h.o.MaxTime > 0 {
		ctx, cancel := context.WithTimeoutCause(r.Context(), h.o.MaxTime, errTooLong)
		defer cancel()
		r = r.WithContext(ctx)
	}
	h.mux.ServeHTTP(w, r)
}

// admit requires the key, except for the page, which asks for it, and the health. It refuses requests that pages of other sites
// make: a browser sends them to servers on its own machine too.
func (h *Handler) admit(r *http.Request) error {
	if site := r.Header.Get("Sec-Fetch-Site"); site == "cross-site" || site == "same-site" {
		return &failure{Status: http.StatusForbidden, Type: "invalid_request_error", Message: "a page of another site may not use this server"}
	}
	if h.o.Key == "" || r.URL.Path == "/health" || r.URL.Path == "/" {
		return nil
	}
	given := sha256.Sum256([]byte(strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")))
	if subtle.ConstantTimeCompare(given[:], h.key[:]) != 1 {
		return &failure{Status: http.StatusUnauthorized, Type: "invalid_request_error", Code: "invalid_api_key", Message: "the API key is wrong or missing; send it as Authorization: Bearer KEY"}
	}
	return nil
}

// read reads the body of a request into a struct.
func (h *Handler) read(w http.ResponseWriter, r *http.Request, to any) error {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, h.o.MaxBody))
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return &failure{Status: http.StatusRequestEntityTooLarge, Type: "invalid_request_error", Message: "the body is larger than the server allows"}
	case err != nil:
		return &failure{Status: http.StatusRequestTimeout, Type: "invalid_request_error", Message: "the body did not arrive: " + err.Error()}
	}
	http.NewResponseController(w).SetReadDeadline(time.Time{}) // only the end of the connection is read from now on
	if err := plainjson.Unmarshal(body, to); err != nil {
		return invalid("", "the body is not a request: %v", err)
	}
	return nil
}
