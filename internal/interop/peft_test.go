//go:build interop

package interop

import (
	"bufio"
	"encoding/json"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/llmtest"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/refmath"
	"github.com/goggml/ggml/internal/test/testutil"
	"github.com/goggml/ggml/llm/lora"
	"github.com/goggml/ggml/llm/model"
	"github.com/goggml/ggml/llm/safetensors"
)

// Bounds on the distance between PyTorch's logits and ours; for models with GELU by NMSE. ggml reads GELU from
// a table of F16, so an input close to a rounding boundary may be rounded either way.
const (
	logitBound = 1e-4
	tableBound = 1e-7
)

// arguments are keyword arguments of a function or configuration in Python.
type arguments = map[string]any

// A peftSession is a Python process with transformers and PEFT.
type peftSession struct {
	sync.Mutex
	in  io.Writer
	out *bufio.Reader
}

// python starts the process that all tests share; it ends with this process.
var python = sync.OnceValues(func() (*peftSession, error) {
	program := filepath.Join("..", "..", "build", "peft", "venv", "bin", "python")
	if _, err := os.Stat(program); err != nil {
		return nil, err
	}
	c := testutil.Command(program, "reference.py")
	c.Stderr = os.Stderr
	in, err := c.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := c.StdoutPipe()
	if err != nil {
		return nil, err
	}
	return &peftSession{in: in, out: bufio.NewReader(out)}, c.Start()
})

// ask calls a function of reference.py.
func ask[T any](t *testing.T, function string, args arguments) (result T) {
	t.Helper()
	p := need.Value(python())(t)
	p.Lock()
	defer p.Unlock()
	args = maps.Clone(args)
	args["Do"] = function
	line := need.Value(json.Marshal(args))(t)
	_, err := p.in.Write(append(line, '\n'))
	require.NoError(t, err)
	line, err = p.out.ReadBytes('\n')
	require.NoError(t, err, "reference.py has ended")
	var answer struct {
		Result T
		Error  string
	}
	require.NoError(t, json.Unmarshal(line, &answer))
	require.Empty(t, answer.Error, function)
	return answer.Result
}

func needPEFT(t *testing.T) {
	t.Helper()
	if _, err := python(); os.IsNotExist(err) {
		t.Skip("there is no PyTorch and PEFT: run make peft")
	}
}

// writeWeights writes the tensors of a model for Python, as stored in the GGUF file.
func writeWeights(t *testing.T, m *model.Model) string {
	t.Helper()
	var tensors []safetensors.Data
	for w := range m.Weights() {
		values := need.Value(w.Float32s())(t)
		shape := slices.Clone(w.Shape())
		slices.Reverse(shape)
		tensors = append(tensors, safetensors.Data{Name: w.Name(), Type: safetensors.F32, Shape: shape, Values: values})
	}
	path := filepath.Join(t.TempDir(), "weights.safetensors")
	require.NoError(t, safetensors.WriteFile(path, tensors, nil))
	return path
}

// peftLogits returns transformers' logits with an adapter of PEFT.
func peftLogits(t *testing.T, folder string, tokens []int32) [][]float32 {
	t.Helper()
	path := filepath.Join(t.TempDir(), "logits.safetensors")
	ask[any](t, "logits", arguments{"Adapter": folder, "Tokens": tokens, "Out": path})
	f := need.Value(safetensors.Open(path))(t)
	defer f.Close()
	values := need.Value(f.Float32s(f.Tensors()[0]))(t)
	return slices.Collect(slices.Chunk(values, len(values)/len(tokens)))
}

// maxDifference returns the largest difference of logits.
func maxDifference(x, y [][]float32) float64 {
	largest := 0.0
	for i := range x {
		largest = max(largest, refmath.MaxAbsDiff(x[i], y[i]))
	}
	return largest
}

// requireSameLogits compares ours with PyTorch's.
func requireSameLogits(t *testing.T, m *model.Model, what string, ours, theirs [][]float32) {
	t.Helper()
	d, n := maxDifference(ours, theirs), nmse(ours, theirs)
	t.Logf("%s: logits differ by %.2g, NMSE %.2g", what, d, n)
	if slices.Contains(tableArchs, m.Config().Arch) {
		require.LessOrEqual(t, n, tableBound, what)
		return
	}
	require.LessOrEqual(t, d, logitBound, what)
}

// everyTarget gives each target a different rank, except experts, which are not modules of PEFT.
func everyTarget(m *model.Model) map[string]int {
	ranks, targets := map[string]int{}, lora.Targets(m.Architecture())
	for i, target := range targets {
		isTiedOutput := target == "output" && m.Config().Tied
		if !isTiedOutput && !strings.HasSuffix(target, "_exps") {
			ranks[target] = 1 + len(targets) - i
		}
	}
	return ranks
}

// An adapter that is written for PEFT has the same effect there, and is unchanged when it is read again, also
// after PEFT has written it.
func TestInteropPEFTExport(t *testing.T) {
	needPEFT(t)
	models := peftModels()
	for _, name := range slices.Sorted(maps.Keys(models)) {
		t.Run(name, func(t *testing.T) {
			m := models[name].load(t)
			tokens := llmtest.RandomTokens(3, 40, m.Config().Vocab)
			base := ourLogits(t, m, tokens, nil)
			requireSameLogits(t, m, "base", base, peftLogits(t, "", tokens))
			for kind, o := range map[string]lora.Options{
				"alpha":  {Ranks: everyTarget(m), Alpha: 16, Targets: slices.Sorted(maps.Keys(everyTarget(m)))},
				"rsLoRA": {Ranks: everyTarget(m), Alpha: 3, RankStabilized: true, Targets: slices.Sorted(maps.Keys(everyTarget(m)))},
				"factor": {Ranks: everyTarget(m), Factor: 1.5, Targets: slices.Sorted(maps.Keys(everyTarget(m)))},
				"rank 4": {Rank: 4, Alpha: 8},
			} {
				o.Seed = 3
				a := randomAdapter(t, m, o)
				folder, again := filepath.Join(t.TempDir(), "adapter"), filepath.Join(t.TempDir(), "again")
				require.NoError(t, a.SavePEFT(folder, lora.PEFTOptions{}))
				ours := ourLogits(t, m, tokens, a.WithScale(1))
				requireSameLogits(t, m, kind, ours, peftLogits(t, folder, tokens))
				require.Greater(t, maxDifference(ours, base), 0.5, "%s: the adapter must matter", kind)
				ask[any](t, "resave", arguments{"Adapter": folder, "Out": again})
				for _, path := range []string{folder, again} {
					if name != "granitehybrid" {
						requireSame(t, a, path, m)
						continue
					}
					b, err := lora.Load(path, m) // PEFT's input_linear has the ranks of gate and up
					require.NoError(t, err)
					requireSameLogits(t, m, path, ours, ourLogits(t, m, tokens, b.WithScale(1)))
					require.NoError(t, b.Close())
				}
			}
		})
	}
}

// An adapter of a text model is applied to the text model inside a model for images and text, and to nothing
// else.
func TestInteropPEFTRoot(t *testing.T) {
	needPEFT(t)
	m := llmtest.NoisyModel(t, peftModels()["gemma3"].config, ggml.F32, 0.1)
	a := randomAdapter(t, m, lora.Options{Ranks: everyTarget(m), Alpha: 16, Seed: 3})
	folder := t.TempDir()
	require.NoError(t, a.SavePEFT(folder, lora.PEFTOptions{Root: "model.language_model"}))
	image := arguments{"hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
	text := arguments{
		"vocab_size": m.Config().Vocab, "hidden_size": m.Config().Embd, "intermediate_size": m.Config().FF, "num_hidden_layers": m.Config().Layers, "num_attention_heads": m.Config().Heads,
		"num_key_value_heads": m.Config().KVHeads, "head_dim": m.Config().HeadSize,
	}
	trained := ask[map[string]float64](t, "trained", arguments{
		"Class": "Gemma3ForConditionalGeneration", "Config": "Gemma3Config", "Adapter": folder, "Arguments": arguments{"text_config": text, "vision_config": image},
	})
	require.Len(t, trained, 2*len(a.Pairs()))
	for name, squares := range trained {
		require.Contains(t, name, "base_model.model.model.language_model.")
		require.Positive(t, squares, "%s has not been read", name)
	}
	requireSame(t, a, folder, m)
}

// requireSame requires that a PEFT folder is read as the same adapter.
func requireSame(t *testing.T, a *lora.Adapter, folder string, m *model.Model) {
	t.Helper()
	b := need.Value(lora.Load(folder, m))(t)
	defer b.Close()
	require.Equal(t, len(a.Pairs()), len(b.Pairs()))
	for i, p := range a.Pairs() {
		q := b.Pairs()[i]
		require.Equal(t, p.Base, q.Base)
		require.Equal(t, a.WithScale(1)[p.Base][0].Scale, b.WithScale(1)[p.Base][0].Scale, p.Base)
		for _, pair := range [][2]*ggml.Tensor{{p.A, q.A}, {p.B, q.B}} {
			want := need.Value(pair[0].Float32s())(t)
			got := need.Value(pair[1].Float32s())(t)
			require.Equal(t, pair[0].Shape(), pair[1].Shape())
			require.True(t, slices.EqualFunc(want, got, func(x, y float32) bool { return math.Float32bits(x) == math.Float32bits(y) }), pair[0].Name())
		}
	}
}
