package serve

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"math"
	"net/http"

	"github.com/goggml/ggml/llm/infer"
	"github.com/goggml/ggml/llm/tokenizer"
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
	switch a, err := h.adapter(q.Model); {
	case err != nil:
		return err
	case a != nil:
		return invalid("model", "embeddings with an adapter chosen by name are unsupported; use the model %q", h.o.Name)
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
	vectors, err := h.m.Embed(r.Context(), input, infer.EmbedOptions{Normalize: true})
	if err != nil {
		return err
	}
	data, tokens := make([]any, len(vectors)), 0
	for i, v := range vectors {
		tokens += len(h.m.Weights().Tokenizer.Encode(input[i], tokenizer.EncodeOptions{AddSpecial: true, ParseSpecial: true}))
		data[i] = map[string]any{"object": "embedding", "index": i, "embedding": encoded(v, q.EncodingFormat)}
	}
	write(w, http.StatusOK, map[string]any{
		"object": "list", "data": data, "model": h.o.Name, "usage": map[string]int{"prompt_tokens": tokens, "total_tokens": tokens},
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
