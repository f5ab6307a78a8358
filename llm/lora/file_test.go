package lora_test

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/llmtest"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/llm/lora"
	"github.com/goggml/ggml/llm/model"
)

const golden = "testdata/tiny-spm-lora-f32.gguf"

func TestSaveLoad(t *testing.T) {
	m := tinyModel(t, false)
	folder := t.TempDir()
	targets := lora.Targets(m.Architecture())
	rapid.Check(t, func(t *rapid.T) {
		o := lora.Options{
			Ranks: rapid.MapOfN(rapid.SampledFrom(targets), rapid.IntRange(1, 9), 1, len(targets)).Draw(t, "ranks"),
			Alpha: rapid.Float32Range(0, 100).Draw(t, "alpha"),
			Seed:  rapid.Uint64().Draw(t, "seed"),
		}
		a := need.Value(lora.New(m, o))(t)
		defer a.Close()
		save := lora.SaveOptions{Name: "round trip", Keys: map[string]any{"training.steps": uint32(12), "training.loss": float32(1.5)}}
		first, second := filepath.Join(folder, "first.gguf"), filepath.Join(folder, "second.gguf")
		require.NoError(t, a.Save(first, save))
		b := load(t, first, m)
		require.Equal(t, a.Alpha, b.Alpha)
		require.Equal(t, a.Arch, b.Arch)
		require.Equal(t, len(a.Pairs()), len(b.Pairs()))
		for i, p := range a.Pairs() {
			q := b.Pairs()[i]
			require.Equal(t, p.Base, q.Base)
			require.Equal(t, p.A.Shape(), q.A.Shape())
			require.Equal(t, floats(t, p.A), floats(t, q.A))
			require.Equal(t, floats(t, p.B), floats(t, q.B))
		}
		// The keys of the file were kept: nothing has to be given again.
		require.NoError(t, b.Save(second, lora.SaveOptions{}))
		require.Equal(t, content(t, first), content(t, second))
	})
}

// Files have the names of the architecture, whatever the tensors have been called since.
func TestRenamedTensors(t *testing.T) {
	m := tinyModel(t, true)
	a := trained(t, m, everything(m, 4, 1))
	folder := t.TempDir()
	save := func(name string) (files [][]byte) {
		path := filepath.Join(folder, name)
		require.NoError(t, m.Save(path, model.SaveOptions{}))
		files = append(files, content(t, path))
		require.NoError(t, a.Save(path, lora.SaveOptions{}))
		files = append(files, content(t, path))
		require.NoError(t, lora.MergeTo(t.Context(), path, m, []lora.Scaled{{Adapter: a, Scale: 1}}, lora.MergeOptions{}))
		return append(files, content(t, path))
	}
	want := save("first.gguf")
	for w := range m.Weights() {
		w.SetName("renamed")
	}
	for _, p := range a.Pairs() {
		p.A.SetName("renamed")
		p.B.SetName("")
	}
	require.Equal(t, want, save("second.gguf"))
}

func content(t require.TestingT, path string) []byte {
	return need.Value(os.ReadFile(path))(t)
}

// An adapter that another program wrote, in the form stock llama.cpp accepts.
func TestLoadGolden(t *testing.T) {
	m := newModel(t, goldenConfig(), t.Cleanup)
	a := load(t, golden, m)
	require.Len(t, a.Pairs(), 3*7)
	require.Equal(t, "llama", a.Arch)
	require.Positive(t, a.Alpha)
	require.NotEqual(t, losses(t, m, nil), losses(t, m, a.WithScale(1)))
}

func TestSaveInTypes(t *testing.T) {
	m := tinyModel(t, false)
	a := trained(t, m, lora.Options{Rank: 4, Alpha: 8, Ranks: map[string]int{"token_embd": 2}})
	for typ, half := range map[ggml.Type]float64{ggml.F32: 0, ggml.F16: 2e-3, ggml.BF16: 1.6e-2} { // half a unit at 4
		path := filepath.Join(t.TempDir(), "adapter.gguf")
		require.NoError(t, a.Save(path, lora.SaveOptions{Type: typ}))
		b := need.Value(lora.Load(path, m))(t)
		for i, p := range b.Pairs() {
			require.InDeltaSlice(t, floats(t, a.Pairs()[i].A), floats(t, p.A), half)
			require.Equal(t, typ, p.Type)
		}
		require.NoError(t, b.Close())
	}
}

func TestSaveFaults(t *testing.T) {
	m := tinyModel(t, false)
	a := trained(t, m, lora.Options{Rank: 4, Alpha: 8, Targets: []string{"attn_q"}})
	folder := t.TempDir()
	path := filepath.Join(folder, "adapter.gguf")
	require.ErrorContains(t, a.Save(path, lora.SaveOptions{Type: ggml.Q8_0}), "adapters are written in f32, f16 or bf16, not in q8_0")
	require.ErrorContains(t, a.Save(path, lora.SaveOptions{Keys: map[string]any{"adapter.type": "x"}}), `key "adapter.type"`)
	require.ErrorContains(t, a.Save(filepath.Join(folder, "none", "a.gguf"), lora.SaveOptions{}), "no such file")
	b := a.Pairs()[1].B
	values := floats(t, b)
	values[9] = 70000
	require.NoError(t, ggml.Write(b, values))
	require.ErrorContains(t, a.Save(path, lora.SaveOptions{Type: ggml.F16}), `"blk.1.attn_q.weight.lora_b"`)
	require.NoError(t, a.Save(path, lora.SaveOptions{}))
	values[9] = float32(math.NaN())
	require.NoError(t, ggml.Write(b, values))
	before := content(t, path)
	require.ErrorContains(t, a.Save(path, lora.SaveOptions{}), "value 1 of row 2 is NaN")
	require.Equal(t, before, content(t, path), "a failed save must leave the old file")
	files := need.Value(os.ReadDir(folder))(t)
	require.Len(t, files, 1)
	a.Alpha = -1
	require.ErrorContains(t, a.Save(path, lora.SaveOptions{}), "alpha is -1")
}

// Matrices whose adapters stock llama.cpp would ignore have none.
func TestMatricesWithoutAdapters(t *testing.T) {
	m := llmtest.ArchModel(t, "deepseek2", ggml.F32)
	targets := "attn_output, ffn_gate, ffn_up, ffn_down, ffn_gate_inp, ffn_gate_exps, ffn_up_exps, ffn_down_exps, ffn_gate_shexp, ffn_up_shexp, ffn_down_shexp, token_embd"
	for _, target := range []string{"attn_q_b", "attn_k_b", "output"} {
		_, err := lora.New(m, lora.Options{Rank: 4, Targets: []string{target}})
		require.EqualError(t, err, fmt.Sprintf("a new adapter: there is no target %q; the targets are %s", target, targets))
	}
	f := goodFile()
	f.keys["general.architecture"] = "deepseek2"
	f.tensors = pairTensors("blk.0.attn_q_b.weight", []int64{32, 4}, []int64{4, 160})
	_, err := lora.Load(f.write(t), m)
	require.ErrorContains(t, err, "blk.0.attn_q_b.weight is a matrix for which llama.cpp would silently ignore an adapter; train the whole matrix")
}

// A fileSpec is an adapter file to be written by hand.
type fileSpec struct {
	keys    map[string]any
	tensors []ggml.GGUFTensor
	value   float32
}

func goodFile() fileSpec {
	return fileSpec{
		keys: map[string]any{
			"general.type": "adapter", "general.architecture": "llama", "adapter.type": "lora", "adapter.lora.alpha": float32(8),
		},
		tensors: pairTensors("blk.0.attn_q.weight", []int64{64, 4}, []int64{4, 64}),
	}
}

func pairTensors(base string, a, b []int64) []ggml.GGUFTensor {
	return []ggml.GGUFTensor{{Name: base + ".lora_a", Shape: a}, {Name: base + ".lora_b", Shape: b}}
}

func (f fileSpec) write(t *testing.T) string {
	t.Helper()
	g := need.Value(ggml.NewGGUF())(t)
	defer g.Close()
	for key, value := range f.keys {
		require.NoError(t, g.Set(key, value))
	}
	for _, info := range f.tensors {
		require.NoError(t, g.AddTensorFrom(info, func(w io.Writer) error {
			if info.Type != ggml.F32 && info.Type != ggml.I32 {
				values := make([]float32, info.NumElements())
				raw := make([]byte, info.Type.RowSize(info.NumElements()))
				for i := range values {
					values[i] = f.value
				}
				require.NoError(t, ggml.Quantize(raw, info.Type, values, ggml.QuantizeOptions{RowLen: int(info.Shape[0])}))
				_, err := w.Write(raw)
				return err
			}
			for range info.NumElements() {
				if err := binary.Write(w, binary.LittleEndian, f.value); err != nil {
					return err
				}
			}
			return nil
		}))
	}
	path := filepath.Join(t.TempDir(), "adapter.gguf")
	require.NoError(t, g.WriteFile(path))
	return path
}

func TestLoadFaults(t *testing.T) {
	m, tied := tinyModel(t, false), tinyModel(t, true)
	for _, test := range []struct {
		name   string
		damage func(f *fileSpec)
		want   []string
	}{
		{"a model", func(f *fileSpec) { f.keys["general.type"] = "model" }, []string{`general.type is "model", not "adapter"`}},
		{"no type", func(f *fileSpec) { delete(f.keys, "general.type") }, []string{"the key general.type is missing"}},
		{"type of another type", func(f *fileSpec) { f.keys["general.type"] = uint32(1) }, []string{"the key general.type is not a string"}},
		{"control vector", func(f *fileSpec) { f.keys["adapter.type"] = "control_vector" }, []string{`adapter.type is "control_vector", not "lora"`}},
		{"wrong architecture", func(f *fileSpec) { f.keys["general.architecture"] = "qwen2" }, []string{`general.architecture is "qwen2", not "llama"`}},
		{"activated", func(f *fileSpec) { f.keys["adapter.alora.invocation_tokens"] = []uint32{1} }, []string{"activated LoRA"}},
		{"alpha u32", func(f *fileSpec) { f.keys["adapter.lora.alpha"] = uint32(8) }, []string{"adapter.lora.alpha is of type uint32"}},
		{"alpha f64", func(f *fileSpec) { f.keys["adapter.lora.alpha"] = 8.0 }, []string{"adapter.lora.alpha is of type float64"}},
		{"alpha negative", func(f *fileSpec) { f.keys["adapter.lora.alpha"] = float32(-8) }, []string{"alpha is -8"}},
		{"alpha NaN", func(f *fileSpec) { f.keys["adapter.lora.alpha"] = float32(math.NaN()) }, []string{"alpha is NaN"}},
		{"no tensors", func(f *fileSpec) { f.tensors = nil }, []string{"the adapter has no tensors"}},
		{"missing base", func(f *fileSpec) {
			f.tensors = pairTensors("blk.9.attn_q.weight", []int64{64, 4}, []int64{4, 64})
		}, []string{"blk.9.attn_q.weight: the model has no such tensor"}},
		{"no .weight", func(f *fileSpec) {
			f.tensors = pairTensors("blk.0.attn_q", []int64{64, 4}, []int64{4, 64})
		}, []string{"blk.0.attn_q: the model has no such tensor"}},
		{"norm", func(f *fileSpec) {
			f.tensors = append(f.tensors, pairTensors("blk.0.attn_norm.weight", []int64{64, 4}, []int64{4, 1})...)
		}, []string{"blk.0.attn_norm.weight is a norm"}},
		{"a without b", func(f *fileSpec) { f.tensors = f.tensors[:1] }, []string{"blk.0.attn_q.weight has .lora_a but not .lora_b"}},
		{"b without a", func(f *fileSpec) { f.tensors = f.tensors[1:] }, []string{"blk.0.attn_q.weight has .lora_b but not .lora_a"}},
		{"unknown suffix", func(f *fileSpec) { f.tensors[0].Name = "blk.0.attn_q.weight.lora_c" },
			[]string{"tensor blk.0.attn_q.weight.lora_c: its name must end in", "has .lora_b but not .lora_a"}},
		{"a transposed", func(f *fileSpec) { f.tensors[0].Shape = []int64{4, 64} },
			[]string{"blk.0.attn_q.weight [64 64]: A is [4 64] and B [4 64]; they must be A [64, r] and B [r, 64]"}},
		{"two ranks", func(f *fileSpec) { f.tensors[1].Shape = []int64{8, 64} }, []string{"A is [64 4] and B [8 64]"}},
		{"three dimensions", func(f *fileSpec) { f.tensors[1].Shape = []int64{4, 64, 2} }, []string{"must be matrices"}},
		{"wrong model size", func(f *fileSpec) {
			f.tensors = pairTensors("blk.0.ffn_down.weight", []int64{128, 4}, []int64{4, 64})
		}, []string{"blk.0.ffn_down.weight [96 64]: A is [128 4]"}},
		{"embedding not flipped", func(f *fileSpec) {
			f.tensors = pairTensors("token_embd.weight", []int64{64, 4}, []int64{4, 96})
		}, []string{"token_embd.weight [64 96]: A is [64 4] and B [4 96]; they must be A [r, 96] and B [r, 64]"}},
		{"integers", func(f *fileSpec) { f.tensors[0].Type = ggml.I32 }, []string{"has type i32, which does not hold real numbers"}},
		{"infinite", func(f *fileSpec) { f.value = float32(math.Inf(1)) },
			[]string{"tensor blk.0.attn_q.weight.lora_a holds values that are not finite", "tensor blk.0.attn_q.weight.lora_b holds values"}},
		{"everything", func(f *fileSpec) {
			f.keys["general.architecture"], f.keys["adapter.lora.alpha"] = "gemma", int32(1)
			f.tensors = append(f.tensors[:1], pairTensors("blk.1.attn_k.weight", []int64{64, 4}, []int64{4, 64})...)
		}, []string{`"gemma", not "llama"`, "of type int32", "blk.0.attn_q.weight has .lora_a but not", "blk.1.attn_k.weight [64 32]"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := goodFile()
			test.damage(&f)
			path := f.write(t)
			_, err := lora.Load(path, m)
			var mismatch *lora.MismatchError
			require.ErrorAs(t, err, &mismatch)
			require.Equal(t, path, mismatch.Path)
			require.Len(t, mismatch.Faults, len(test.want), "%q", mismatch.Faults)
			for i, want := range test.want {
				require.Contains(t, mismatch.Faults[i], want)
				require.Contains(t, err.Error(), want)
			}
		})
	}
	f := goodFile()
	f.tensors = pairTensors("output.weight", []int64{64, 4}, []int64{4, 96})
	path := f.write(t)
	a := need.Value(lora.Load(path, m))(t)
	require.NoError(t, a.Close())
	_, err := lora.Load(path, tied)
	require.ErrorContains(t, err, "output.weight: the model has no such tensor: its output is the token embedding")
}

// Alpha may be missing; tensors may have other types and rank 1.
func TestLoadConverts(t *testing.T) {
	m := tinyModel(t, false)
	for _, typ := range []ggml.Type{ggml.F16, ggml.BF16, ggml.Q8_0, ggml.Q4_0} {
		f := goodFile()
		delete(f.keys, "adapter.lora.alpha")
		f.tensors = pairTensors("blk.0.attn_q.weight", []int64{64}, []int64{1, 64})
		f.tensors[0].Type, f.value = typ, 0.5
		if !typ.IsQuantized() {
			f.tensors[1].Type = typ
		}
		a := need.Value(lora.Load(f.write(t), m))(t)
		p := a.Pairs()[0]
		require.Equal(t, 1, a.Rank())
		require.Equal(t, ggml.F32, p.A.Type())
		require.InDelta(t, 0.5, floats(t, p.A)[63], 0.01, typ)
		require.InDelta(t, 0.5, floats(t, p.B)[63], 0.01, typ)
		require.Equal(t, float32(2), a.WithScale(2)[p.Base][0].Scale)
		require.NoError(t, a.Close())
	}
}

// Damaged files give an error, never a crash, nor a leak.
func TestLoadDamaged(t *testing.T) {
	m := newModel(t, goldenConfig(), t.Cleanup)
	raw := content(t, golden)
	path := filepath.Join(t.TempDir(), "damaged.gguf")
	load := func(data []byte) error {
		require.NoError(t, os.WriteFile(path, data, 0o600))
		a, err := lora.Load(path, m)
		require.NoError(t, a.Close())
		return err
	}
	_, err := lora.Load(filepath.Join(t.TempDir(), "none.gguf"), m)
	require.ErrorContains(t, err, "none.gguf")
	for _, n := range []int{0, 3, 4, 20, 200, 2000, len(raw) / 2, len(raw) - 40} {
		err := load(raw[:n])
		require.ErrorContains(t, err, "damaged.gguf", "cut at %d", n)
	}
	// Whatever a byte of the header is changed to, the result is an adapter or an error.
	refused := 0
	for i := 0; i < 3000; i += 7 {
		broken := append([]byte(nil), raw...)
		broken[i] ^= byte(1 + i%255)
		if load(broken) != nil {
			refused++
		}
	}
	require.Greater(t, refused, 100)
}

func ExampleMismatchError() {
	err := &lora.MismatchError{Path: "a.gguf", Faults: []string{"adapter.lora.alpha: alpha is -8; it must be a finite number of at least 0"}}
	fmt.Println(err)
	// Output: a.gguf: does not fit the model: adapter.lora.alpha: alpha is -8; it must be a finite number of at least 0
}
