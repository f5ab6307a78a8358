package serve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/llm/data"
	"github.com/goggml/ggml/llm/generate"
	"github.com/goggml/ggml/llm/grammar"
	"github.com/goggml/ggml/llm/infer"
)

// A failure is an error in OpenAI's form, with its status.
type failure struct {
	Status  int    `json:"-"`
	Message string `json:"message"`
	Type    string `json:"type"`
	Param   string `json:"param,omitempty"`
	Code    string `json:"code,omitempty"`
}

func (f *failure) Error() string { return f.Message }

// invalid is the failure of a request with a wrong field, "" for the whole body.
func invalid(param, format string, args ...any) *failure {
	return &failure{Status: http.StatusBadRequest, Type: "invalid_request_error", Param: param, Message: fmt.Sprintf(format, args...)}
}

// failureOf returns the failure that tells a client of an error.
func failureOf(err error) *failure {
	var f *failure
	var template *generate.RenderError
	var noTemplate *data.Error
	var text *infer.TextError
	var empty *generate.EmptyError
	var calls *generate.CallError
	switch {
	case errors.As(err, &f):
		return f
	case errors.Is(err, infer.ErrContextFull):
		f = invalid("", "%v", err)
		f.Code = "context_length_exceeded"
		return f
	case errors.As(err, &template), errors.As(err, &noTemplate):
		return invalid("messages", "%v", err)
	case errors.As(err, &calls):
		return invalid("tools", "%v", err)
	case errors.As(err, &text), errors.As(err, &empty):
		return invalid("", "%v", err)
	case errors.Is(err, grammar.ErrAmbiguous), errors.Is(err, grammar.ErrVocabulary):
		return invalid("grammar", "%v", err)
	case errors.Is(err, generate.ErrQueueFull):
		return &failure{Status: http.StatusTooManyRequests, Type: "rate_limit_error", Code: "queue_full", Message: err.Error()}
	case errors.Is(err, ggml.ErrClosed):
		return &failure{Status: http.StatusServiceUnavailable, Type: "server_error", Message: "the server is shutting down, or the model has been replaced; try again later"}
	case errors.Is(err, errTooLong), errors.Is(err, context.DeadlineExceeded):
		return &failure{Status: http.StatusGatewayTimeout, Type: "server_error", Code: "timeout", Message: errTooLong.Error()}
	}
	return &failure{Status: http.StatusInternalServerError, Type: "server_error", Message: err.Error()}
}

// errTooLong ends a request at the time limit of the server.
var errTooLong = errors.New("the request took longer than the server allows; ask for fewer tokens")

// fail writes an error.
func fail(w http.ResponseWriter, err error) {
	f := failureOf(err)
	switch f.Status {
	case http.StatusUnauthorized:
		w.Header().Set("WWW-Authenticate", "Bearer")
	case http.StatusTooManyRequests:
		w.Header().Set("Retry-After", "1")
	}
	write(w, f.Status, map[string]any{"error": f})
}

// write writes a JSON value.
func write(w http.ResponseWriter, status int, value any) {
	text, err := json.Marshal(value)
	if err != nil { // no value of this package
		status, text = http.StatusInternalServerError, []byte(`{"error":{"message":"the answer cannot be encoded","type":"server_error"}}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	w.Write(append(text, '\n'))
}
