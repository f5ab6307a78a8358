//go:build interop

package interop

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml/internal/test/llmtest"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/llm"
	"github.com/goggml/ggml/llm/infer"
	"github.com/goggml/ggml/llm/model"
	"github.com/goggml/ggml/llm/tokenizer"
)

// stockPooled asks stock llama.cpp for the vectors or scores of texts in one batch, by the pooling of the model.
func stockPooled(t *testing.T, modelPath string, texts [][]int32) [][]float32 {
	t.Helper()
	var lines strings.Builder
	for _, tokens := range texts {
		lines.WriteString(strings.Trim(fmt.Sprint(tokens), "[]") + "\n")
	}
	ids, out := filepath.Join(t.TempDir(), "ids"), filepath.Join(t.TempDir(), "out")
	require.NoError(t, os.WriteFile(ids, []byte(lines.String()), 0o600))
	run(t, filepath.Join(stock, "run"), filepath.Join(stock, "embeddings"), modelPath, ids, out)
	raw := need.Value(os.ReadFile(out))(t)
	values := make([]float32, len(raw)/4)
	require.NoError(t, binary.Read(bytes.NewReader(raw), binary.LittleEndian, values))
	return slices.Collect(slices.Chunk(values, len(values)/len(texts)))
}

// TestInteropEncoders holds the vectors and scores of tiny models that embed texts against stock's.
func TestInteropEncoders(t *testing.T) {
	for _, name := range llmtest.Encoders() {
		for _, seed := range seeds() {
			t.Run(name+" "+seed, func(t *testing.T) {
				n, err := strconv.ParseUint(seed, 10, 64)
				require.NoError(t, err)
				path := llmtest.EncoderFile(t, name, n)
				m := need.Value(model.Load(path, model.LoadOptions{}))(t)
				defer m.Close()
				s := need.Value(infer.NewSession(m, infer.SessionOptions{Sequences: 3, Threads: 1}))(t)
				defer s.Close()
				texts := llmtest.EncoderTexts()
				var got [][]float32
				if _, scores := m.Architecture().Classifier(); scores {
					got, err = s.Score(context.Background(), texts)
				} else {
					got, err = s.Embed(context.Background(), texts, infer.EmbedOptions{})
				}
				require.NoError(t, err)
				want := stockPooled(t, path, texts)
				if folder := os.Getenv("GOGGML_GOLDEN"); folder != "" && seed == "1" {
					writeGolden(t, filepath.Join(folder, "vectors-"+name+".gz"), slices.Concat(want...))
				}
				e := nmse(got, want)
				t.Logf("%-20s seed %s: NMSE %.2g", name, seed, e)
				require.Less(t, e, 1e-8)
			})
		}
	}
}

// TestInteropEncodersOfTexts holds vectors and scores of texts against llama-embedding's.
func TestInteropEncodersOfTexts(t *testing.T) {
	texts := []string{"a cab", "bag of bees", "z", "Édgé a"}
	for _, kind := range []string{tokenizer.ModelBERT, tokenizer.ModelT5} {
		t.Run(kind, func(t *testing.T) {
			path := llmtest.TextEncoderFile(t, "bert", kind)
			got := need.Value(llm.Embed(context.Background(), path, llm.Options{Embed: infer.EmbedOptions{Normalize: true}}, texts...))(t)
			require.Less(t, nmse(got, stockEmbeddings(t, path, texts, "-c", "512")), 1e-8)

			path = llmtest.TextEncoderFile(t, "bert-reranker", kind)
			scores := need.Value(llm.Rerank(context.Background(), path, llm.Options{}, texts[0], texts[1:]...))(t)
			var pairs []string
			for _, text := range texts[1:] {
				pairs = append(pairs, texts[0]+"\t"+text)
			}
			for i, want := range stockEmbeddings(t, path, pairs, "--embd-normalize", "-1", "-c", "512") {
				require.InDelta(t, want[0], scores[i], 1e-4)
			}
		})
	}
}
