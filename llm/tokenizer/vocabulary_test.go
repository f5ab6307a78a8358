package tokenizer

import (
	"compress/gzip"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml/internal/test/need"
)

// ReadGzip reads zipped JSON of testdata.
func ReadGzip(t testing.TB, name string, to any) {
	t.Helper()
	f := need.Value(os.Open(filepath.Join("testdata", name)))(t)
	defer f.Close()
	zip := need.Value(gzip.NewReader(f))(t)
	require.NoError(t, json.NewDecoder(zip).Decode(to))
}

// LoadVocab reads what testdata/extract.go wrote, and overrides the keys in set.
func LoadVocab(t testing.TB, name string, set map[string]any) KeyValues {
	t.Helper()
	var file struct {
		Model   string    `json:"tokenizer.ggml.model"`
		Pre     string    `json:"tokenizer.ggml.pre"`
		Tokens  []string  `json:"tokenizer.ggml.tokens"`
		Scores  []float32 `json:"tokenizer.ggml.scores"`
		Types   []int32   `json:"tokenizer.ggml.token_type"`
		Merges  []string  `json:"tokenizer.ggml.merges"`
		BOS     *uint32   `json:"tokenizer.ggml.bos_token_id"`
		EOS     *uint32   `json:"tokenizer.ggml.eos_token_id"`
		Unknown *uint32   `json:"tokenizer.ggml.unknown_token_id"`
		AddBOS  *bool     `json:"tokenizer.ggml.add_bos_token"`
		AddEOS  *bool     `json:"tokenizer.ggml.add_eos_token"`
		Prefix  *bool     `json:"tokenizer.ggml.add_space_prefix"`
	}
	ReadGzip(t, "vocab-"+name+".json.gz", &file)
	keys := map[string]any{"model": file.Model, "pre": file.Pre, "tokens": file.Tokens, "token_type": file.Types}
	if file.Scores != nil {
		keys["scores"] = file.Scores
	}
	if file.Merges != nil {
		keys["merges"] = file.Merges
	}
	for key, id := range map[string]*uint32{"bos_token_id": file.BOS, "eos_token_id": file.EOS, "unknown_token_id": file.Unknown} {
		if id != nil {
			keys[key] = *id
		}
	}
	for key, on := range map[string]*bool{"add_bos_token": file.AddBOS, "add_eos_token": file.AddEOS, "add_space_prefix": file.Prefix} {
		if on != nil {
			keys[key] = *on
		}
	}
	for key, value := range set {
		keys[key] = value
	}
	var kvs KeyValues
	for key, value := range keys {
		kvs = append(kvs, KeyValue{Key: "tokenizer.ggml." + key, Value: value})
	}
	return kvs
}

// vocabulary splits words as pre says.
func vocabulary(t testing.TB, name, pre string) *Tokenizer {
	return need.Value(FromMetadata(LoadVocab(t, name, map[string]any{"pre": pre, "bos_token_id": uint32(1), "eos_token_id": uint32(2)})))(t)
}
