//go:build interop

package interop

import (
	"context"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/llmtest"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/llm/arch"
	"github.com/goggml/ggml/llm/lora"
	"github.com/goggml/ggml/llm/model"
	"github.com/goggml/ggml/llm/quantize"
)

// Mixtures give each matrix the same type as llama-quantize: for all architectures, with many and few layers,
// with and without an importance matrix.
func TestInteropMixtureTypes(t *testing.T) {
	dir := t.TempDir()
	run(t, filepath.Join(stock, "run"), "test-llama-archs", "-o", dir, "-s", "1")
	for _, file := range archs {
		t.Run(file, func(t *testing.T) { compareMixtures(t, filepath.Join(dir, file+".gguf")) })
	}
	for _, arch := range []string{"llama", "mistral3", "qwen2", "qwen3", "deci", "olmo", "falcon", "cogvlm"} { // some have sizes that llama-quantize treats specially
		t.Run(arch+" of 80 layers", func(t *testing.T) {
			compareMixtures(t, layeredModel(t, arch, 80, 2, 0))
			compareMixtures(t, layeredModel(t, arch, 80, 1, 0))
		})
	}
	for _, shape := range []struct{ layers, shared, experts int }{
		{1, 1, 0}, {7, 4, 0}, {16, 2, 0}, {33, 8, 0}, {80, 8, 0}, {16, 2, 2}, {16, 2, 4}, {16, 1, 8}, {33, 4, 8}, {80, 2, 16},
	} {
		t.Run(fmt.Sprintf("%d layers, %d heads share one, %d experts", shape.layers, shape.shared, shape.experts), func(t *testing.T) {
			compareMixtures(t, layeredModel(t, "llama", shape.layers, shape.shared, shape.experts))
		})
	}
}

// layeredModel writes a model whose rows are whole blocks of all types.
func layeredModel(t *testing.T, name string, layers, shared, experts int) string {
	t.Helper()
	c := llmtest.TinyConfig(false)
	c.Arch, c.Layers, c.Embd, c.FF, c.Heads, c.KVHeads, c.HeadSize = name, layers, 256, 256, 8, 8/shared, 32
	c.RoPE.Dims = 32
	switch name {
	case "olmo", "falcon":
		c.RMSEps, c.LayerNormEps = 0, c.RMSEps
	}
	switch name {
	case "qwen2", "qwen3", "falcon", "cogvlm":
		c.RoPE.Mode = ggml.RoPENeoX
	}
	if experts > 0 {
		c.Experts, c.ExpertsUsed, c.Gating, c.NormalizedExperts = experts, 2, arch.GatingSoftMax, true
	}
	m := need.Value(model.New(c, nil, 1))(t)
	defer m.Close()
	path := filepath.Join(t.TempDir(), "layers.gguf")
	require.NoError(t, m.Save(path, model.SaveOptions{Type: func(name string, old ggml.Type) ggml.Type {
		if m.Weight(name).NumDims() < 2 {
			return old
		}
		return ggml.F16
	}}))
	return path
}

func compareMixtures(t *testing.T, path string) {
	m := need.Value(model.Load(path, model.LoadOptions{}))(t)
	defer m.Close()
	imatrix := writeImportance(t, m)
	importance := need.Value(quantize.ReadImportance(imatrix))(t)
	compared := 0
	for _, x := range quantize.Mixtures() {
		for _, i := range []quantize.Importance{nil, importance} {
			flags := []string{"llama-quantize", "--dry-run", "--allow-requantize"}
			if i != nil {
				flags = append(flags, "--imatrix", imatrix)
			}
			want, ok := plannedTypes(t, append(flags, path, strings.ToUpper(x.Name))...)
			if !ok { // no type fits a row that is not a multiple of the block
				continue
			}
			for w := range m.Weights() {
				if strings.Contains(w.Name(), ".ple_norm_") || strings.Contains(w.Name(), ".ple_conv1d.") { // small tensors that stay F32 here
					continue
				}
				got := w.Type()
				if matrix := m.Architecture().Weight(w.Name()); w.NumDims() > 1 && matrix.IsConvertible() {
					got, _ = x.TypeOf(m.Architecture(), matrix, i)
				}
				require.Equal(t, want[w.Name()], got.String(), "%s of %s, importance %v", w.Name(), x.Name, i != nil)
				compared++
			}
		}
	}
	t.Logf("%d types are equal", compared)
	require.Positive(t, compared)
}

var plannedLine = regexp.MustCompile(`\[ *\d+/ *\d+\] (\S+) .* type = +(\w+), size = +[\d.]+ MiB(?: -> +[\d.]+ MiB \((\w+)\))?`)

// plannedTypes returns the types that llama-quantize plans.
func plannedTypes(t *testing.T, args ...string) (map[string]string, bool) {
	t.Helper()
	out, err := exec.Command(filepath.Join(stock, "run"), args...).CombinedOutput()
	if strings.Contains(string(out), "no tensor type fallback") {
		return nil, false
	}
	require.NoError(t, err, "%s\n%s", strings.Join(args, " "), out)
	types := map[string]string{}
	for _, found := range plannedLine.FindAllStringSubmatch(string(out), -1) {
		types[found[1]] = found[2]
		if found[3] != "" {
			types[found[1]] = found[3]
		}
	}
	return types, true
}

// writeImportance writes an importance matrix as llama-imatrix does, with random sums.
func writeImportance(t *testing.T, m *model.Model) string {
	t.Helper()
	g := need.Value(ggml.NewGGUF())(t)
	defer g.Close()
	for key, value := range map[string]any{
		"general.type": "imatrix", "imatrix.datasets": []string{"random"}, "imatrix.chunk_count": uint32(4), "imatrix.chunk_size": uint32(512),
	} {
		require.NoError(t, g.Set(key, value))
	}
	for w := range m.Weights() {
		if w.NumDims() < 2 || w.Name() == "token_embd.weight" || w.Name() == "output.weight" {
			continue
		}
		sums := make([]float32, w.Dim(0))
		for i, token := range llmtest.RandomTokens(uint64(len(w.Name())), len(sums), 1000) {
			sums[i] = float32(token + 1)
		}
		addF32(t, g, w.Name()+".in_sum2", sums)
		addF32(t, g, w.Name()+".counts", []float32{4})
	}
	path := filepath.Join(t.TempDir(), "imatrix.gguf")
	require.NoError(t, g.WriteFile(path))
	return path
}

func addF32(t *testing.T, g *ggml.GGUF, name string, values []float32) {
	t.Helper()
	info := ggml.GGUFTensor{Name: name, Type: ggml.F32, Shape: []int64{int64(len(values)), 1}}
	require.NoError(t, g.AddTensorFrom(info, func(w io.Writer) error {
		raw := make([]byte, 4*len(values))
		if err := ggml.Quantize(raw, ggml.F32, values, ggml.QuantizeOptions{}); err != nil {
			return err
		}
		_, err := w.Write(raw)
		return err
	}))
}

// Merging writes byte for byte what llama-quantize writes, including the file type.
func TestInteropMixtureBytes(t *testing.T) {
	path := layeredModel(t, "llama", 1, 2, 0)
	m := need.Value(model.Load(path, model.LoadOptions{}))(t)
	defer m.Close()
	imatrix := writeImportance(t, m)
	importance := need.Value(quantize.ReadImportance(imatrix))(t)
	for _, x := range quantize.Mixtures() {
		for _, i := range []quantize.Importance{nil, importance} {
			if i == nil && x.NeedsImportance() {
				continue
			}
			ours, theirs := filepath.Join(t.TempDir(), "ours.gguf"), filepath.Join(t.TempDir(), "theirs.gguf")
			args := []string{"llama-quantize"}
			if i != nil {
				args = append(args, "--imatrix", imatrix)
			}
			run(t, filepath.Join(stock, "run"), append(args, path, theirs, strings.ToUpper(x.Name), "1")...)
			require.NoError(t, lora.MergeTo(context.Background(), ours, m, nil, lora.MergeOptions{Mixture: &x, Importance: i, Threads: 2}))
			got, want := tensorBytes(t, ours), tensorBytes(t, theirs)
			require.Equal(t, len(want), len(got))
			for name := range want {
				require.True(t, want[name] == got[name], "%s: %s differs, importance %v", x.Name, name, i != nil)
			}
		}
	}
}

// tensorBytes returns the data of all tensors, and the file type.
func tensorBytes(t *testing.T, path string) map[string]string {
	t.Helper()
	m := need.Value(model.Load(path, model.LoadOptions{}))(t)
	defer m.Close()
	number := need.Value(ggml.GGUFValue[uint32](m.GGUF(), "general.file_type"))(t)
	list := map[string]string{"general.file_type": fmt.Sprint(number)}
	for w := range m.Weights() {
		raw := make([]byte, w.NumBytes())
		_, err := w.ReadAt(raw, 0)
		require.NoError(t, err)
		list[w.Name()] = w.Type().String() + string(raw)
	}
	return list
}
