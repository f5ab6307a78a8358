package infer_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/llmtest"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/refmath"
	"github.com/goggml/ggml/llm/arch"
	"github.com/goggml/ggml/llm/device"
	"github.com/goggml/ggml/llm/infer"
	"github.com/goggml/ggml/llm/model"
)

const (
	archLength  = llmtest.LongContext + 23
	archContext = archLength + 5
)

// All architectures, with adapters on every matrix, agree with their graph in float64: in prefill,
// token by token, and as second sequence of a session. The sequence is longer than the windows and
// than the contexts that YaRN, temperature scaling and RoPE factors extend.
func TestArchitecturesAgainstReference(t *testing.T) {
	names := llmtest.Architectures()
	require.Equal(t, arch.Architectures(), names)
	if testing.Short() {
		names = llmtest.TestedArchitectures()
	}
	for _, arch := range names {
		t.Run(arch, func(t *testing.T) {
			t.Parallel()
			bound := 1e-11
			if llmtest.LooksUpGELU(arch) { // ggml's table of GELU rounds its input to F16
				bound = 1e-8
			}
			m := llmtest.ArchModel(t, arch, ggml.F32)
			if llmtest.DividesByLength(m) {
				bound = 1e-9
			}
			r := newReference(t, m)
			for way, rows := range r.everyWay(t, m, "") {
				require.Less(t, r.nmse(rows), bound, way)
			}
		})
	}
}

// Products with quantised matrices, repacked or not, have no larger error than ggml's, which rounds
// activations to 8 bits. A factor allows for values that happen to be near a rounding boundary.
func TestQuantisedArchitecturesAgainstReference(t *testing.T) {
	const chance = 2 // largest observed: 1.5
	for _, arch := range llmtest.TestedArchitectures() {
		t.Run(arch, func(t *testing.T) {
			t.Parallel()
			file := llmtest.AllExpertsFile(t, arch, ggml.Q8_0)
			m := loadModel(t, file, false)
			r := newReference(t, m)
			own := r.everyWay(t, m, device.Stock)
			for _, m := range []*model.Model{m, loadModel(t, file, true)} {
				for way, rows := range r.everyWay(t, m, "") {
					require.Less(t, r.nmse(rows), chance*r.nmse(own[way]), way)
				}
			}
		})
	}
}

func loadModel(t *testing.T, file string, repack bool) *model.Model {
	t.Helper()
	m := need.Value(model.Load(file, model.LoadOptions{Repack: repack}))(t)
	t.Cleanup(func() { m.Close() })
	return m
}

// A reference has the logits of an adapted model after each token, in float64.
type reference struct {
	adapters model.Adapters
	tokens   []int32
	exact    [][]float64
}

func newReference(t *testing.T, m *model.Model) *reference {
	t.Helper()
	r := &reference{adapters: llmtest.NewLoRASetup(t, m, 3, 0.75).Adapters, tokens: llmtest.RandomTokens(5, archLength, m.Config().Vocab)}
	r.exact = llmtest.ExactLogits(t, m, r.adapters, r.tokens, archContext)
	return r
}

// everyWay returns the logits by each way in which a session computes them with a set of ops: prefill with two
// threads, and steps with one, because two would wait for each other longer than they compute.
func (r *reference) everyWay(t *testing.T, m *model.Model, ops device.OpSet) map[string][][]float32 {
	t.Helper()
	options := func(threads int) infer.SessionOptions {
		e := need.Value(device.New(device.Options{Threads: threads, OpSet: ops}))(t)
		t.Cleanup(func() { e.Close() })
		return infer.SessionOptions{Adapters: r.adapters, Batch: 16, Context: archContext, Engine: e}
	}
	rows := need.Value(newSequence(t, m, options(2)).DecodeAll(context.Background(), r.tokens))(t)
	if !m.Architecture().IsCausal() {
		return map[string][][]float32{"prefill": rows} // not causal: only whole sequences
	}
	o := options(1)
	session := newSequence(t, m, o)
	var steps [][]float32
	for _, token := range r.tokens {
		steps = append(steps, decode(t, session, token))
	}
	return map[string][][]float32{"prefill": rows, "token by token": steps, "as second sequence": asSecond(t, m, o, r.tokens)}
}

// nmse compares the logits after the last tokens with the exact ones.
func (r *reference) nmse(rows [][]float32) float64 {
	return refmath.NMSE(slices.Concat(rows...), slices.Concat(r.exact[len(r.exact)-len(rows):]...))
}

// Experts of each weight type agree with float64, computed in each way.
func TestTypesOfExperts(t *testing.T) {
	need.Time(t, "decodes with many types")
	const roundedInputs = 3e-2 // rounding may change the choice of experts
	for _, k := range llmtest.ExpertTypes() {
		t.Run(fmt.Sprintf("%s %v", k.Arch, k.Experts), func(t *testing.T) {
			t.Parallel()
			m := k.Load(t, model.LoadOptions{})
			r := newReference(t, m)
			for _, m := range []*model.Model{m, k.Load(t, model.LoadOptions{Repack: true})} {
				for way, rows := range r.everyWay(t, m, "") {
					require.Less(t, r.nmse(rows), roundedInputs, way)
				}
			}
		})
	}
}

// The logits of each architecture, and of its graph in float64, equal stock llama.cpp's, which defines the meaning of
// keys and weights.
func TestArchitecturesAgainstStock(t *testing.T) {
	for _, arch := range llmtest.StockArchitectures() {
		m := need.Value(model.Load(llmtest.StockArchFile(t, arch), model.LoadOptions{}))(t)
		defer m.Close()
		tokens := llmtest.ArchTokens()
		bound := 1e-11
		if llmtest.LooksUpGELU(arch) { // table of GELU, see above
			bound = 1e-7
		}
		if llmtest.DividesByLength(m) {
			bound = 1e-9
		}
		want := refmath.From(llmtest.GoldenLogits(t, "arch-"+arch)).Data
		exact := llmtest.ExactLogits(t, m, nil, tokens, len(tokens))
		require.Less(t, refmath.NMSE(slices.Concat(exact...), want), bound, arch)
		require.Less(t, refmath.NMSE(flat(t, newSequence(t, m, infer.SessionOptions{Context: len(tokens)}), tokens), want), bound, arch)
	}
}

func requireLogits(t *testing.T, got [][]float32, want [][]float64, nmse float64) {
	t.Helper()
	require.Less(t, refmath.NMSE(slices.Concat(got...), slices.Concat(want...)), nmse)
}

// asSecond returns the logits from the middle of a sequence on, while a longer first sequence is
// stepped with it.
func asSecond(t *testing.T, m *model.Model, o infer.SessionOptions, tokens []int32) [][]float32 {
	t.Helper()
	o.Sequences = 2
	s := newSession(t, m, o)
	first, _ := start(t, s, llmtest.RandomTokens(6, len(tokens)/2+3, m.Config().Vocab)...)
	second, logits := start(t, s, tokens[:len(tokens)/2]...)
	rows := [][]float32{logits}
	for _, token := range tokens[len(tokens)/2:] {
		next := []infer.StepInput{{Sequence: first, Token: 1}, {Sequence: second, Token: token}}
		require.NoError(t, s.Step(context.Background(), next))
		rows = append(rows, next[1].Logits)
	}
	return rows
}

// Passes over many tokens of several sequences go on from the sequences' states, as steps of a token do.
func TestLongPassesOfRecurrences(t *testing.T) {
	for _, arch := range []string{"qwen35", "qwen3next", "kimi-linear"} {
		t.Run(arch, func(t *testing.T) {
			if arch != "qwen35" {
				need.Time(t, "one will do")
			}
			t.Parallel()
			m := need.Value(model.Load(llmtest.WideArchFile(t, arch, ggml.F32), model.LoadOptions{}))(t)
			defer m.Close()
			s := newSession(t, m, infer.SessionOptions{Context: 128, Sequences: 2})
			var next []infer.StepInput
			var tokens [2][]int32
			for i := range tokens {
				tokens[i] = llmtest.RandomTokens(uint64(i), 75, m.Config().Vocab)
				q, _ := start(t, s, tokens[i][:5]...)
				next = append(next, infer.StepInput{Sequence: q, Before: tokens[i][5:74], Token: tokens[i][74]})
			}
			require.NoError(t, s.Step(t.Context(), next))
			for i := range tokens {
				alone, logits := start(t, newSession(t, m, infer.SessionOptions{Context: 128}), tokens[i][0])
				for _, token := range tokens[i][1:] {
					logits = decode(t, alone, token)
				}
				require.Less(t, refmath.NMSE(next[i].Logits, refmath.From(logits).Data), 1e-10)
			}
		})
	}
}

// A short context uses the RoPE factors for short contexts.
func TestShortContext(t *testing.T) {
	m := llmtest.ArchModel(t, "phi3", ggml.F32)
	tokens := llmtest.RandomTokens(5, 10, m.Config().Vocab)
	for _, context := range []int{llmtest.LongContext - 1, llmtest.LongContext} {
		want := llmtest.ExactLogits(t, m, nil, tokens, context)
		got := decode(t, newSequence(t, m, infer.SessionOptions{Context: context}), tokens...)
		require.Less(t, refmath.NMSE(got, want[9]), 1e-11)
	}
}
