package serve

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
)

func (h *Handler) health(w http.ResponseWriter, _ *http.Request) error {
	write(w, http.StatusOK, map[string]string{"status": "ok"})
	return nil
}

// description is a model in the list of models.
func (h *Handler) description(name string) map[string]any {
	c := h.m.Weights().Config()
	return map[string]any{
		"id": name, "object": "model", "created": h.begun.Unix(), "owned_by": "goggml",
		"meta": map[string]any{"n_vocab": c.Vocab, "n_ctx_train": c.Context, "n_embd": c.Embd},
	}
}

func (h *Handler) models(w http.ResponseWriter, _ *http.Request) error {
	list := []any{h.description(h.o.Name)}
	for _, name := range slices.Sorted(maps.Keys(*h.named.Load())) {
		list = append(list, h.description(name))
	}
	write(w, http.StatusOK, map[string]any{"object": "list", "data": list})
	return nil
}

func (h *Handler) model(w http.ResponseWriter, r *http.Request) error {
	name := r.PathValue("name")
	if _, err := h.adapter(name); err != nil {
		return err
	}
	write(w, http.StatusOK, h.description(name))
	return nil
}

func (h *Handler) props(w http.ResponseWriter, _ *http.Request) error {
	v := h.m.Weights().Tokenizer
	write(w, http.StatusOK, map[string]any{
		"total_slots": h.m.Sequences(), "model_alias": h.o.Name, "chat_template": v.ChatTemplate(), "bos_token": v.TokenText(v.BOS()), "eos_token": v.TokenText(v.EOS()),
		"default_generation_settings": map[string]any{"n_ctx": h.m.Context()}, "modalities": map[string]bool{"vision": false, "audio": false},
	})
	return nil
}

// metrics writes counters with the names of llama-server.
func (h *Handler) metrics(w http.ResponseWriter, _ *http.Request) error {
	l := h.m.Load()
	var text strings.Builder
	for _, m := range []struct {
		name, kind, help string
		value            int
	}{
		{"prompt_tokens_total", "counter", "Tokens of prompts.", l.Prompt},
		{"prompt_tokens_cached_total", "counter", "Tokens of prompts that were in a KV cache.", l.Cached},
		{"tokens_predicted_total", "counter", "Generated tokens.", l.Generated},
		{"n_decode_total", "counter", "Passes that generated tokens.", l.Passes},
		{"requests_total", "counter", "Requests for text that have ended.", l.Requests},
		{"requests_processing", "gauge", "Requests for text that are computed.", l.Running},
		{"requests_deferred", "gauge", "Requests that wait.", l.Waiting},
	} {
		fmt.Fprintf(&text, "# HELP llamacpp:%s %s\n# TYPE llamacpp:%s %s\nllamacpp:%s %d\n", m.name, m.help, m.name, m.kind, m.name, m.value)
	}
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	_, err := w.Write([]byte(text.String()))
	_ = err // a client that is gone misses nothing
	return nil
}
