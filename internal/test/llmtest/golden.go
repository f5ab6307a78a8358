package llmtest

import (
	"bytes"
	"compress/gzip"
	"embed"
	"encoding/binary"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/llm/model"
	"github.com/stretchr/testify/require"
)

//go:embed testdata
var testdata embed.FS

// unzip returns a decompressed file of testdata, see the README there.
func unzip(t testing.TB, name string) []byte {
	t.Helper()
	raw := need.Value(testdata.ReadFile("testdata/" + name + ".gz"))(t)
	zip := need.Value(gzip.NewReader(bytes.NewReader(raw)))(t)
	return need.Value(io.ReadAll(zip))(t)
}

func unzipTo(t testing.TB, name string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, unzip(t, name), 0o644))
	return path
}

// GoldenModel loads the model of testdata, with its matrices converted to a type.
func GoldenModel(t testing.TB, typ ggml.Type) *model.Model {
	t.Helper()
	m := need.Value(model.Load(unzipTo(t, "tiny.gguf"), model.LoadOptions{}))(t)
	t.Cleanup(func() { m.Close() })
	if typ == ggml.F32 {
		return m
	}
	return converted(t, m, typ)
}

// Dequantised returns the model with its matrices converted to F32.
func Dequantised(t testing.TB, m *model.Model) *model.Model { return converted(t, m, ggml.F32) }

// converted returns the model with its matrices converted to a type.
func converted(t testing.TB, m *model.Model, typ ggml.Type) *model.Model {
	t.Helper()
	path := filepath.Join(t.TempDir(), typ.String()+".gguf")
	require.NoError(t, m.Save(path, model.SaveOptions{Type: func(name string, old ggml.Type) ggml.Type {
		if m.Weight(name).NumDims() < 2 || !old.IsNumeric() {
			return old
		}
		return typ
	}}))
	c := need.Value(model.Load(path, model.LoadOptions{}))(t)
	t.Cleanup(func() { c.Close() })
	return c
}

func GoldenTokens(t testing.TB) []int32 {
	t.Helper()
	text := need.Value(testdata.ReadFile("testdata/tokens.txt"))(t)
	var tokens []int32
	for _, word := range strings.Fields(string(text)) {
		id := need.Value(strconv.ParseInt(word, 10, 32))(t)
		tokens = append(tokens, int32(id))
	}
	require.Len(t, tokens, 128)
	return tokens
}

func GoldenLogits(t testing.TB, name string) []float32 {
	t.Helper()
	return goldenNumbers(t, "logits-"+name)
}

// GoldenVectors returns stock llama.cpp's vectors or scores of [EncoderTexts], concatenated, for one
// of [Encoders] with seed 1.
func GoldenVectors(t testing.TB, name string) []float32 {
	t.Helper()
	return goldenNumbers(t, "vectors-"+name)
}

func goldenNumbers(t testing.TB, name string) []float32 {
	t.Helper()
	raw := unzip(t, name)
	numbers := make([]float32, len(raw)/4)
	require.NoError(t, binary.Read(bytes.NewReader(raw), binary.LittleEndian, numbers))
	return numbers
}

// GoldenAdapters reads the adapter of testdata, without package lora.
func GoldenAdapters(t testing.TB, scale float32) model.Adapters {
	t.Helper()
	g := need.Value(ggml.OpenGGUF(unzipTo(t, "tiny-lora.gguf")))(t)
	defer g.Close()
	alpha := need.Value(ggml.GGUFValue[float32](g, "adapter.lora.alpha"))(t)
	cpu := need.Value(ggml.DeviceByType(ggml.CPU))(t)
	ctx := ggml.NewContext()
	t.Cleanup(func() { ctx.Close() })
	buffers := need.Value(g.Load(ctx, cpu, ggml.LoadOptions{}))(t)
	t.Cleanup(func() { buffers.Close() })
	adapters := model.Adapters{}
	for a := range ctx.Tensors() {
		name, ok := strings.CutSuffix(a.Name(), ".lora_a")
		if !ok {
			continue
		}
		b, ok := ctx.Tensor(name + ".lora_b")
		require.True(t, ok, name)
		adapters[name] = []model.LoRAPair{{A: a, B: b, Scale: scale * alpha / float32(b.Dim(0))}}
	}
	require.NotEmpty(t, adapters)
	return adapters
}
