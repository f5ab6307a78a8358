package serve

import (
	"cmp"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"math"
	"net/http"

	"github.com/goggml/ggml/llm/generate"
	"github.com/goggml/ggml/llm/infer"
)

// An embeddingRequest is a list of texts to embed.
type embeddingRequest struct {
	Model          string          `json:"model"`
	Input          json.RawMessage `json:"input"`
	EncodingFormat string          `json:"encoding_format"`
	Dimensions     *int            `json:"dimensions"`
}

func (h *Handler) embed(w http.ResponseWriter, r *http.Request) error {
	var q embeddingRequest
	if err := h.read(w, r, &q); err != nil {
		return err
	}
	a, err := h.adapter(q.Model)
	if err != nil {
		return err
	}
	var input texts
	switch err := json.Unmarshal(q.Input, &input); {
	case err != nil || len(input) == 0:
		return invalid("input", "input must be a text or a list of texts; tokens of another model's vocabulary mean nothing here (in LangChain, set check_embedding_ctx_length to false)")
	case q.Dimensions != nil:
		return invalid("dimensions", "dimensions is unsupported; leave it out")
	case q.EncodingFormat != "" && q.EncodingFormat != "float" && q.EncodingFormat != "base64":
		return invalid("encoding_format", "encoding_format %q is unknown; use float or base64", q.EncodingFormat)
	}
	tokens, err := generate.EncodeTexts(h.m.Weights(), input)
	if err != nil {
		return err
	}
	vectors, err := h.m.EmbedTokens(r.Context(), tokens, infer.EmbedOptions{Normalize: true, Adapters: a.Prepared()})
	if err != nil {
		return err
	}
	data, sum := make([]any, len(vectors)), 0
	for i, v := range vectors {
		sum += len(tokens[i])
		data[i] = map[string]any{"object": "embedding", "index": i, "embedding": encoded(v, q.EncodingFormat)}
	}
	write(w, http.StatusOK, map[string]any{
		"object": "list", "data": data, "model": cmp.Or(q.Model, h.o.Name), "usage": map[string]int{"prompt_tokens": sum, "total_tokens": sum},
	})
	return nil
}

// encoded returns a vector as numbers, or as the bytes of its F32 values.
func encoded(v []float32, format string) any {
	if format != "base64" {
		return v
	}
	var bytes []byte
	for _, x := range v {
		bytes = binary.LittleEndian.AppendUint32(bytes, math.Float32bits(x))
	}
	return base64.StdEncoding.EncodeToString(bytes)
}
