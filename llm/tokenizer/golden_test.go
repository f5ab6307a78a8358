package tokenizer_test

import (
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/llm/tokenizer"
)

func loadTokenizer(t testing.TB, name string, set map[string]any) *tokenizer.Tokenizer {
	t.Helper()
	return need.Value(tokenizer.FromMetadata(tokenizer.LoadVocab(t, name, set)))(t)
}

// golden is llama.cpp's result for one string.
type golden struct {
	Hex  string         `json:"hex"`
	S1P1 []tokenizer.ID `json:"special1_parse1"`
	S1P0 []tokenizer.ID `json:"special1_parse0"`
	S0P1 []tokenizer.ID `json:"special0_parse1"`
	S0P0 []tokenizer.ID `json:"special0_parse0"`
	R0U0 string         `json:"detok_hex_rm0_unparse0"`
	R0U1 string         `json:"detok_hex_rm0_unparse1"`
	R1U0 string         `json:"detok_hex_rm1_unparse0"`
	R1U1 string         `json:"detok_hex_rm1_unparse1"`
}

func readGolden(t testing.TB, path string) []golden {
	t.Helper()
	f := need.Value(os.Open(path))(t)
	defer f.Close()
	var all []golden
	dec := json.NewDecoder(f)
	for dec.More() {
		var g golden
		require.NoError(t, dec.Decode(&g))
		all = append(all, g)
	}
	return all
}

func checkGolden(t *testing.T, tok *tokenizer.Tokenizer, all []golden) {
	t.Helper()
	require.NotEmpty(t, all)
	for _, g := range all {
		text := unhex(t, g.Hex)
		for _, c := range []struct {
			add, parse bool
			want       []tokenizer.ID
		}{{true, true, g.S1P1}, {true, false, g.S1P0}, {false, true, g.S0P1}, {false, false, g.S0P0}} {
			got := tok.Encode(text, tokenizer.EncodeOptions{AddSpecial: c.add, ParseSpecial: c.parse})
			require.Equal(t, c.want, got, "%q AddSpecial %v ParseSpecial %v", text, c.add, c.parse)
		}
		for _, c := range []struct {
			remove, show bool
			want         string
		}{{false, false, g.R0U0}, {false, true, g.R0U1}, {true, false, g.R1U0}, {true, true, g.R1U1}} {
			got := tok.Decode(g.S0P1, tokenizer.DecodeOptions{RemoveSpecial: c.remove, ShowSpecial: c.show})
			require.Equal(t, unhex(t, c.want), got, "%q RemoveSpecial %v ShowSpecial %v", text, c.remove, c.show)
		}
	}
}

func unhex(t testing.TB, s string) string {
	t.Helper()
	b := need.Value(hex.DecodeString(s))(t)
	return string(b)
}

// TestGolden compares ids and bytes with stock llama.cpp 0.7.0. Files are named after the
// vocabulary and, for BPE, the pre-tokenizer that was set. spm2 and bpe2 are spm and bpe with
// changed scores and merges, more tokens of every type, and holes. goldenTokenizer has the
// vocabulary and the pre-tokenizer of a name such as bpe-llama-bpe.
func goldenTokenizer(t testing.TB, name string) *tokenizer.Tokenizer {
	t.Helper()
	vocab, pre, isBPE := strings.Cut(name, "-")
	set := map[string]any{}
	if isBPE {
		set["pre"] = pre
	}
	return loadTokenizer(t, vocab, set)
}

func TestGolden(t *testing.T) {
	files := need.Value(filepath.Glob("testdata/tokens-*.jsonl"))(t)
	require.NotEmpty(t, files)
	for _, file := range files {
		name := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(file), "tokens-"), ".jsonl")
		t.Run(name, func(t *testing.T) {
			checkGolden(t, goldenTokenizer(t, name), readGolden(t, file))
		})
	}
}

// TestGoldenPreTokenizers holds all pre-tokenizers against stock llama.cpp, on vocabularies that merge across words.
func TestGoldenPreTokenizers(t *testing.T) {
	var file struct {
		Texts [][]byte
		Sets  []struct {
			Tokens []string
			Types  []int32
			Merges []string
			EOS    uint32
			Rows   []struct {
				Pres    []string
				IDs     [][]tokenizer.ID
				Decoded [][]byte
			}
		}
	}
	tokenizer.ReadGzip(t, "pre-tokenizers.json.gz", &file)
	var seen []string
	for _, set := range file.Sets {
		for _, row := range set.Rows {
			seen = append(seen, row.Pres...)
			for _, pre := range row.Pres {
				t.Run(pre, func(t *testing.T) {
					var kvs tokenizer.KeyValues
					for key, value := range map[string]any{"model": "gpt2", "pre": pre, "tokens": set.Tokens, "token_type": set.Types,
						"merges": set.Merges, "eos_token_id": set.EOS} {
						kvs = append(kvs, tokenizer.KeyValue{Key: "tokenizer.ggml." + key, Value: value})
					}
					tok := need.Value(tokenizer.FromMetadata(kvs))(t)
					for i, text := range file.Texts {
						ids := tok.Encode(string(text), special)
						require.Equal(t, row.IDs[i], ids, "%q", text)
						require.Equal(t, string(row.Decoded[i]), tok.Decode(ids, tokenizer.DecodeOptions{ShowSpecial: true}), "%q", text)
					}
				})
			}
		}
	}
	require.ElementsMatch(t, tokenizer.PreTokenizers(), seen, "testdata/README.md says how they are made")
}
