//go:build interop

package interop

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/llm/tokenizer"
)

const goldenPreTokenizers = "pre-tokenizers.json.gz"

// preGolden has tokens of texts by all pre-tokenizers; golden_test.go of the tokenizer reads it.
type preGolden struct {
	Texts [][]byte // some are invalid UTF-8
	Sets  []preGoldenSet
}

// A preGoldenSet is a vocabulary, and the results for the texts of all pre-tokenizers that accept it.
type preGoldenSet struct {
	Tokens []string
	Types  []int32
	Merges []string
	EOS    uint32
	Rows   []preGoldenRow
}

// A preGoldenRow has the pre-tokenizers with the same result.
type preGoldenRow struct {
	Pres    []string
	IDs     [][]int32
	Decoded [][]byte
}

// TestInteropPreTokenizersGolden compares the references of the tokenizer's tests with stock llama.cpp.
// GOGGML_GOLDEN names the folder to which it writes them.
func TestInteropPreTokenizersGolden(t *testing.T) {
	if folder := os.Getenv("GOGGML_GOLDEN"); folder != "" {
		writePreGolden(t, filepath.Join(folder, goldenPreTokenizers))
		return
	}
	file := need.Value(os.ReadFile(filepath.Join("..", "..", "llm", "tokenizer", "testdata", goldenPreTokenizers)))(t)
	zip := need.Value(gzip.NewReader(bytes.NewReader(file)))(t)
	var golden preGolden
	require.NoError(t, json.NewDecoder(zip).Decode(&golden))
	for _, set := range golden.Sets {
		for _, row := range set.Rows {
			for _, pre := range row.Pres {
				require.Equal(t, row, set.ask(t, golden.Texts, pre, row.Pres), pre)
			}
		}
	}
}

func writePreGolden(t *testing.T, path string) {
	rng := seeded(t, "1")
	var golden preGolden
	var texts []string
	for len(texts) < 32 {
		if text := generatedText(rng); len(text) < 200 {
			texts = append(texts, text)
			golden.Texts = append(golden.Texts, []byte(text))
		}
	}
	bytePres := slices.DeleteFunc(tokenizer.PreTokenizers(), func(pre string) bool { return slices.Contains(characterPres, pre) })
	golden.Sets = []preGoldenSet{newPreGoldenSet(mergingVocabulary(t, rng, texts, 600)), newPreGoldenSet(characterVocabulary(t, rng, texts))}
	for i, pres := range [][]string{bytePres, characterPres} {
		set := &golden.Sets[i]
		for _, pre := range pres {
			row := set.ask(t, golden.Texts, pre, []string{pre})
			at := slices.IndexFunc(set.Rows, func(r preGoldenRow) bool {
				return reflect.DeepEqual(r.IDs, row.IDs) && reflect.DeepEqual(r.Decoded, row.Decoded)
			})
			if at < 0 {
				set.Rows = append(set.Rows, row)
			} else {
				set.Rows[at].Pres = append(set.Rows[at].Pres, pre)
			}
		}
	}
	var file bytes.Buffer
	zip := gzip.NewWriter(&file)
	require.NoError(t, json.NewEncoder(zip).Encode(golden))
	require.NoError(t, zip.Close())
	require.NoError(t, os.WriteFile(path, file.Bytes(), 0o644))
}

func newPreGoldenSet(kvs tokenizer.KeyValues) (s preGoldenSet) {
	for key, to := range map[string]any{"tokens": &s.Tokens, "token_type": &s.Types, "merges": &s.Merges, "eos_token_id": &s.EOS} {
		value, _ := kvs.Value("tokenizer.ggml." + key)
		switch to := to.(type) {
		case *[]string:
			*to = value.([]string)
		case *[]int32:
			*to = value.([]int32)
		case *uint32:
			*to = value.(uint32)
		}
	}
	return s
}

// ask returns stock's results for the texts.
func (s *preGoldenSet) ask(t *testing.T, texts [][]byte, pre string, pres []string) preGoldenRow {
	kvs := tokenizer.KeyValues{}
	for key, value := range map[string]any{"model": "gpt2", "pre": pre, "tokens": s.Tokens, "token_type": s.Types, "merges": s.Merges,
		"eos_token_id": s.EOS, "seperator_token_id": s.EOS} {
		kvs = withKey(kvs, key, value)
	}
	path, _ := vocabularyFile(t, kvs)
	strings := make([]string, len(texts))
	for i, text := range texts {
		strings[i] = string(text)
	}
	row := preGoldenRow{Pres: pres}
	for _, theirs := range stockTokens(t, path, strings) {
		row.IDs, row.Decoded = append(row.IDs, theirs.ids), append(row.Decoded, []byte(theirs.text))
	}
	return row
}
