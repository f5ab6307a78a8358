//go:build interop

package interop

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/refmath"
	"github.com/goggml/ggml/internal/test/testutil"
	"github.com/goggml/ggml/llm/infer"
	"github.com/goggml/ggml/llm/lora"
	"github.com/goggml/ggml/llm/model"
	"github.com/goggml/ggml/llm/tokenizer"
)

func TestMain(m *testing.M) { testutil.Main(m) }

// bound is the largest mean squared error, relative to the mean square.
const bound = 1e-8

// stock is llama.cpp's folder, which scripts/llamacpp fills.
var stock = filepath.Join("..", "..", "build", "llamacpp")

// files are the files that the programs wrote.
type files struct{ text, base, adapter, merged string }

func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	require.NoError(t, err, "%s %s\n%s", name, strings.Join(args, " "), out)
	return string(out)
}

// makeFiles runs pretrain, finetune and export-lora on a little text.
func makeFiles(t *testing.T) files {
	t.Helper()
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	run(t, "go", "build", "-o", dir+"/", "../../examples/pretrain", "../../examples/finetune", "../../examples/export-lora")
	run(t, "../../scripts/corpus", "prose", dir)
	run(t, "../../scripts/corpus", "source", dir)
	f := files{text: in("source-held-out.txt"), base: in("base.gguf"), adapter: in("adapter.gguf"), merged: in("merged.gguf")}
	run(t, in("pretrain"), "--train-data", in("prose-held-out.txt"), "--model-out", f.base, "--vocab", "600", "--embd", "128", "--ff", "352",
		"--layers", "3", "--heads", "4", "--kv-heads", "2", "--adam-iter", "30", "--ctx", "64", "--model-ctx", "256")
	run(t, in("finetune"), "--model-base", f.base, "--train-data", f.text, "--lora-out", f.adapter, "--adam-iter", "30", "--ctx", "64",
		"--lora-r", "4", "--adam-alpha", "0.01", "--rank-tok-embd", "0")
	run(t, in("export-lora"), "-m", f.base, "--lora", f.adapter, "-o", f.merged, "--type", "f32")
	return f
}

// stockLogits returns llama.cpp's logits of all positions, with an F32 KV cache.
func stockLogits(t *testing.T, modelPath string, tokens []int32, adapters ...string) [][]float32 {
	t.Helper()
	return need.Value(logitsBy([]string{filepath.Join(stock, "run")}, t.TempDir(), modelPath, tokens, adapters...))(t)
}

// logitsBy runs stock's program for logits; start is the command that starts programs.
func logitsBy(start []string, dir, modelPath string, tokens []int32, adapters ...string) ([][]float32, error) {
	ids, out := filepath.Join(dir, "ids"), filepath.Join(dir, "logits")
	var text strings.Builder
	for _, id := range tokens {
		fmt.Fprintln(&text, id)
	}
	if err := os.WriteFile(ids, []byte(text.String()), 0o600); err != nil {
		return nil, err
	}
	args := append(slices.Clone(start[1:]), filepath.Join(stock, "logits"), "-c", "256")
	for _, a := range adapters {
		args = append(args, "-a", a)
	}
	if message, err := exec.Command(start[0], append(args, modelPath, ids, out)...).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%s %s: %w\n%s", start[0], strings.Join(args, " "), err, message)
	}
	raw, err := os.ReadFile(out)
	if err != nil {
		return nil, err
	}
	if len(raw)%(4*len(tokens)) != 0 {
		return nil, fmt.Errorf("there are %d bytes of logits of %d tokens", len(raw), len(tokens))
	}
	vocab := len(raw) / 4 / len(tokens)
	logits := make([][]float32, len(tokens))
	for i := range logits {
		logits[i] = make([]float32, vocab)
		for j := range logits[i] {
			logits[i][j] = math.Float32frombits(binary.LittleEndian.Uint32(raw[4*(i*vocab+j):]))
		}
	}
	return logits, nil
}

func ourLogits(t *testing.T, m *model.Model, tokens []int32, adapters model.Adapters) [][]float32 {
	t.Helper()
	s := need.Value(infer.NewSession(m, infer.SessionOptions{CacheType: ggml.F32, Adapters: adapters, Threads: 1}))(t)
	defer s.Close()
	q := need.Value(s.NewSequence())(t)
	return need.Value(q.DecodeAll(context.Background(), tokens))(t)
}

// nmse compares logits, except those that one side hides: stock llama.cpp hides them only in a pass's first row.
func nmse(got, want [][]float32) float64 {
	var a, b []float32
	for i, row := range want {
		for j, z := range row {
			if min(z, got[i][j]) > -math.MaxFloat32 {
				a, b = append(a, got[i][j]), append(b, z)
			}
		}
	}
	return refmath.NMSE(a, b)
}

func TestInterop(t *testing.T) {
	_, err := os.Stat(filepath.Join(stock, "run"))
	require.NoError(t, err, "run make interop, which fetches llama.cpp")
	f := makeFiles(t)
	t.Run("logits", func(t *testing.T) { testLogits(t, f) })
	t.Run("embeddings", func(t *testing.T) { testEmbeddings(t, f) })
	t.Run("tokens", func(t *testing.T) { testTokens(t, f) })
	t.Run("rope", func(t *testing.T) { testRoPE(t, f) })
}

// Base, adapter and merged model have the same logits in llama.cpp.
func testLogits(t *testing.T, f files) {
	m := need.Value(model.Load(f.base, model.LoadOptions{}))(t)
	defer m.Close()
	a := need.Value(lora.Load(f.adapter, m))(t)
	defer a.Close()
	merged := need.Value(model.Load(f.merged, model.LoadOptions{}))(t)
	defer merged.Close()
	text := need.Value(os.ReadFile(f.text))(t)
	tokens := m.Tokenizer.Encode(string(text[:2000]), tokenizer.EncodeOptions{AddSpecial: true})[:128]

	check := func(name string, got, want [][]float32) {
		t.Helper()
		e := nmse(got, want)
		t.Logf("%-60s NMSE %.2g", name, e)
		require.LessOrEqual(t, e, bound, name)
	}
	base := ourLogits(t, m, tokens, nil)
	check("base: ours, llama.cpp", base, stockLogits(t, f.base, tokens))
	for _, scale := range []float32{1, 0.5} {
		ours := ourLogits(t, m, tokens, a.WithScale(scale))
		theirs := stockLogits(t, f.base, tokens, f.adapter+"="+strconv.FormatFloat(float64(scale), 'g', -1, 32))
		check(fmt.Sprintf("adapter at %v: ours, llama.cpp", scale), ours, theirs)
		require.Greater(t, nmse(ours, base), 1e-4, "the adapter changes something")
	}
	adapted := ourLogits(t, m, tokens, a.WithScale(1))
	check("merged model, base + adapter: both ours", ourLogits(t, merged, tokens, nil), adapted)
	check("merged model in llama.cpp, base + adapter: ours", stockLogits(t, f.merged, tokens), adapted)
}

// The vocabulary that pretrain trains gives the same tokens in llama.cpp.
func testTokens(t *testing.T, f files) {
	m := need.Value(model.Load(f.base, model.LoadOptions{}))(t)
	defer m.Close()
	text := need.Value(os.ReadFile(f.text))(t)
	part := strings.ToValidUTF8(string(text[:20000]), "")
	require.Equal(t, stockTokens(t, f.base, []string{part})[0].ids, m.Tokenizer.Encode(part, tokenizer.EncodeOptions{AddSpecial: true, ParseSpecial: true}))
}
