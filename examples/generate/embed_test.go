package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"math"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml/examples/internal/cli"
	"github.com/goggml/ggml/internal/test/llmtest"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/llm"
	"github.com/goggml/ggml/llm/tokenizer"
)

// The scores are the library's, a line for each text.
func TestRerank(t *testing.T) {
	path := llmtest.TextEncoderFile(t, "bert-reranker", tokenizer.ModelBERT)
	var p program
	_, err := cli.New("generate", &p).Parse([]string{"--model", path, "--rerank", "a cab", "--prompt", "bag of bees", "--prompt", "z"})
	require.NoError(t, err)
	var out bytes.Buffer
	require.NoError(t, p.run(context.Background(), strings.NewReader(""), &out, io.Discard))
	want := need.Value(llm.Rerank(context.Background(), path, llm.Options{}, "a cab", "bag of bees", "z"))(t)
	lines := json.NewDecoder(&out)
	for i, text := range []string{"bag of bees", "z"} {
		var got scored
		require.NoError(t, lines.Decode(&got))
		require.Equal(t, text, got.Text)
		require.InDelta(t, want[i], got.Score, 1e-6)
	}
	require.False(t, lines.More())
}

// vectors checks embeddings: that files are equal, that all vectors in a file are equal, or that they have
// length 1.
func vectors(ts *testscript.TestScript, neg bool, args []string) {
	var list [][]float32
	for _, file := range args[1:] {
		for line := range strings.Lines(ts.ReadFile(file)) {
			var e embedded
			ts.Check(json.Unmarshal([]byte(line), &e))
			list = append(list, e.Embedding)
		}
	}
	for i, v := range list {
		length, distance := 0.0, 0.0
		for j, x := range v {
			length = math.Hypot(length, float64(x))
			distance = math.Hypot(distance, float64(x-list[0][j]))
		}
		switch {
		case args[0] == "unit" && math.Abs(length-1) > 1e-6,
			args[0] == "same" && (len(list) < 2 || distance != 0),
			args[0] == "alike" && (len(list) < 2 || distance > 1e-3*length):
			ts.Fatalf("%s: vector %d has length %v and distance %v from the first", args[0], i, length, distance)
		}
	}
}
