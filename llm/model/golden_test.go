package model_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/refmath"
	"github.com/goggml/ggml/llm/model"
)

// unzip returns a file of testdata, see the README there.
func unzip(t testing.TB, name string) []byte {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", name+".gz"))
	require.NoError(t, err)
	zip, err := gzip.NewReader(bytes.NewReader(raw))
	require.NoError(t, err)
	data, err := io.ReadAll(zip)
	require.NoError(t, err)
	return data
}

func unzipTo(t testing.TB, name string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, unzip(t, name), 0o644))
	return path
}

// goldenModel loads the model of testdata with its matrices in a type.
func goldenModel(t testing.TB, typ ggml.Type) *model.Model {
	t.Helper()
	m, err := model.Load(unzipTo(t, "tiny.gguf"), model.LoadOptions{})
	require.NoError(t, err)
	t.Cleanup(func() { m.Close() })
	if typ == ggml.F32 {
		return m
	}
	return converted(t, m, typ)
}

// dequantised is the model with the values of its matrices in F32.
func dequantised(t testing.TB, m *model.Model) *model.Model { return converted(t, m, ggml.F32) }

// converted is the model with its matrices in a type.
func converted(t testing.TB, m *model.Model, typ ggml.Type) *model.Model {
	t.Helper()
	path := filepath.Join(t.TempDir(), typ.String()+".gguf")
	require.NoError(t, m.Save(path, model.SaveOptions{Type: func(name string, old ggml.Type) ggml.Type {
		if m.Weight(name).NumDims() < 2 {
			return old
		}
		return typ
	}}))
	c, err := model.Load(path, model.LoadOptions{})
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	return c
}

func goldenTokens(t testing.TB) []int32 {
	t.Helper()
	text, err := os.ReadFile("testdata/tokens.txt")
	require.NoError(t, err)
	var tokens []int32
	for _, word := range strings.Fields(string(text)) {
		id, err := strconv.ParseInt(word, 10, 32)
		require.NoError(t, err)
		tokens = append(tokens, int32(id))
	}
	require.Len(t, tokens, 128)
	return tokens
}

func goldenLogits(t testing.TB, name string) []float32 {
	t.Helper()
	raw := unzip(t, "logits-"+name)
	logits := make([]float32, len(raw)/4)
	require.NoError(t, binary.Read(bytes.NewReader(raw), binary.LittleEndian, logits))
	return logits
}

// goldenDeltas reads the adapter of testdata by hand.
func goldenDeltas(t testing.TB, scale float32) model.Deltas {
	t.Helper()
	g, err := ggml.OpenGGUF(unzipTo(t, "tiny-lora.gguf"))
	require.NoError(t, err)
	defer g.Close()
	alpha, err := ggml.GGUFValue[float32](g, "adapter.lora.alpha")
	require.NoError(t, err)
	cpu, err := ggml.DeviceByType(ggml.CPU)
	require.NoError(t, err)
	ctx := ggml.NewContext()
	t.Cleanup(func() { ctx.Close() })
	buffers, err := g.Load(ctx, cpu, ggml.LoadOptions{})
	require.NoError(t, err)
	t.Cleanup(func() { buffers.Close() })
	deltas := model.Deltas{}
	for a := range ctx.Tensors() {
		name, ok := strings.CutSuffix(a.Name(), ".lora_a")
		if !ok {
			continue
		}
		b, ok := ctx.Lookup(name + ".lora_b")
		require.True(t, ok, name)
		deltas[name] = []model.Delta{{A: a, B: b, Scale: scale * alpha / float32(b.Dim(0))}}
	}
	require.NotEmpty(t, deltas)
	return deltas
}

func newSession(t testing.TB, m *model.Model, o model.SessionOptions) *model.Session {
	t.Helper()
	if o.Threads == 0 {
		o.Threads = 2
	}
	s, err := m.NewSession(o)
	require.NoError(t, err)
	t.Cleanup(func() { s.Close() })
	return s
}

// flat decodes tokens in one batch and joins the logits.
func flat(t testing.TB, s *model.Session, tokens []int32) []float32 {
	t.Helper()
	rows, err := s.DecodeAll(context.Background(), tokens)
	require.NoError(t, err)
	require.Len(t, rows, len(tokens))
	var all []float32
	for _, row := range rows {
		all = append(all, row...)
	}
	return all
}

// The logits at all positions of one batch are those of stock llama.cpp, for
// each type of weights, and the converted weights are the stock ones.
func TestGoldenLogits(t *testing.T) {
	for _, c := range []struct {
		typ    ggml.Type
		digest string // of the tensors of the stock file, in order
		nmse   float64
		diff   float64
	}{
		{ggml.F32, "381f9898ee5b023d1d1313879f17172bd2de4b203af53e0261f2d58bbdc0aefc", 1e-9, 2e-4},
		{ggml.F16, "4dead03de67b6eb0a477f548e0cd09b4af5aa4221bf089b3c7f837fb4f648457", 1e-6, 0.05},
		{ggml.Q8_0, "0c3298f5bc03285f35f57caad07ff175c15d34c2deb45f04f49c974b393402dd", 1e-4, 1},
		{ggml.Q4_0, "328a6041b016ff909e875827d9023b22a0bd78493a46c60e03e31fbfbc1c5f46", 1e-4, 0.5},
	} {
		t.Run(c.typ.String(), func(t *testing.T) {
			m := goldenModel(t, c.typ)
			h := sha256.New()
			for _, s := range m.Config.Tensors() {
				w := m.Weight(s.Name)
				raw := make([]byte, w.NumBytes())
				_, err := w.ReadAt(raw, 0)
				require.NoError(t, err)
				h.Write(raw)
			}
			require.Equal(t, c.digest, hex.EncodeToString(h.Sum(nil)))
			got := flat(t, newSession(t, m, model.SessionOptions{}), goldenTokens(t))
			requireNear(t, goldenLogits(t, c.typ.String()), got, c.nmse, c.diff)
		})
	}
}

func requireNear(t *testing.T, want, got []float32, nmse, diff float64) {
	t.Helper()
	n, d := refmath.NMSE(got, want), refmath.MaxAbsDiff(got, want)
	t.Logf("NMSE %.2g, largest difference %.2g", n, d)
	require.LessOrEqual(t, n, nmse)
	require.LessOrEqual(t, d, diff)
}

// The same with an adapter at two scales.
func TestGoldenAdapter(t *testing.T) {
	m := goldenModel(t, ggml.F32)
	for _, scale := range []string{"1", "0.5"} {
		t.Run(scale, func(t *testing.T) {
			s, err := strconv.ParseFloat(scale, 32)
			require.NoError(t, err)
			deltas := goldenDeltas(t, float32(s))
			got := flat(t, newSession(t, m, model.SessionOptions{Deltas: deltas}), goldenTokens(t))
			requireNear(t, goldenLogits(t, "f32-lora"+scale), got, 1e-9, 2e-4)
		})
	}
}
