//go:build interop

package interop

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/llm/infer"
	"github.com/goggml/ggml/llm/lora"
	"github.com/goggml/ggml/llm/model"
	"github.com/goggml/ggml/llm/tokenizer"
)

// stockEmbeddings returns llama-embedding's vectors of texts, one per line.
func stockEmbeddings(t *testing.T, modelPath string, texts []string, args ...string) [][]float32 {
	t.Helper()
	args = append([]string{
		"llama-embedding", "-m", modelPath, "-p", strings.Join(texts, "\n"), "--embd-output-format", "json",
		"-ctk", "f32", "-ctv", "f32", "-fa", "off", "-t", "1",
	}, args...)
	var reply struct {
		Data []struct{ Embedding []float32 }
	}
	for range 50 { // a thread writes its output, and it does not always wait for that at the end
		out := need.Value(exec.Command(filepath.Join(stock, "run"), args...).Output())(t)
		if json.Unmarshal(out, &reply) == nil {
			break
		}
	}
	require.Len(t, reply.Data, len(texts))
	vectors := make([][]float32, len(texts))
	for i := range vectors {
		vectors[i] = reply.Data[i].Embedding
	}
	return vectors
}

// Embeddings equal llama-embedding's, by every pooling, with an adapter and without.
func testEmbeddings(t *testing.T, f files) {
	m := need.Value(model.Load(f.base, model.LoadOptions{}))(t)
	defer m.Close()
	a := need.Value(lora.Load(f.adapter, m))(t)
	defer a.Close()
	texts := []string{"func main() {", "a", "Some text that is longer than the other two are."}
	var tokens [][]int32
	for _, text := range texts {
		tokens = append(tokens, m.Tokenizer.Encode(text, tokenizer.EncodeOptions{AddSpecial: true, ParseSpecial: true}))
	}
	for _, adapters := range []model.Adapters{nil, a.WithScale(1)} {
		s := need.Value(infer.NewSession(m, infer.SessionOptions{CacheType: ggml.F32, Adapters: adapters, Sequences: 2, Threads: 1}))(t)
		defer s.Close()
		for _, o := range []infer.EmbedOptions{{Pooling: infer.PoolMean}, {Pooling: infer.PoolLast}, {Pooling: infer.PoolCLS}, {Pooling: infer.PoolMean, Normalize: true}} {
			args := []string{"--pooling", string(o.Pooling), "--embd-normalize", "-1"}
			if o.Normalize {
				args[3] = "2"
			}
			if adapters != nil {
				args = append(args, "--lora", f.adapter)
			}
			got := need.Value(s.Embed(context.Background(), tokens, o))(t)
			e := nmse(got, stockEmbeddings(t, f.base, texts, args...))
			name := fmt.Sprintf("%+v, adapter %v: ours, llama-embedding", o, adapters != nil)
			t.Logf("%-80s NMSE %.2g", name, e)
			require.Less(t, e, 1e-11, name)
		}
	}
}
