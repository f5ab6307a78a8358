package infer_test

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/llmtest"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/refmath"
	"github.com/goggml/ggml/llm/infer"
	"github.com/goggml/ggml/llm/model"
)

// Adapters agree with their definition for weights of each type, repacked or not, in prefill and
// token by token, on all matrices or some, also with several pairs for one matrix.
func TestSessionAdapters(t *testing.T) {
	for typ, bound := range map[ggml.Type]float64{ggml.F32: 1e-11, ggml.F16: 1e-5, ggml.Q8_0: 1e-3} {
		for _, some := range []string{"", "attn_k ffn_up output", "attn_v ffn_gate ffn_down", "attn_output"} {
			t.Run(fmt.Sprintf("%v %s", typ, some), func(t *testing.T) {
				s := llmtest.NewLoRASetup(t, llmtest.TinyModel(t, llmtest.PackableConfig(false), typ), 5, 0.75)
				repacked := need.Value(model.Load(s.Model.Path, model.LoadOptions{Repack: true}))(t)
				defer repacked.Close()
				exact := maps.Clone(s.Adapters) // one pair for each matrix
				for name, list := range s.Adapters {
					d := list[0]
					third, rest := d, d
					third.Scale, rest.Scale = 0.25, 0.5
					s.Adapters[name] = []model.LoRAPair{third, {A: d.A, B: d.B}, rest}
					parts := strings.Split(name, ".")
					if some != "" && !strings.Contains(some, parts[len(parts)-2]) {
						delete(s.Adapters, name)
						delete(exact, name)
					}
				}
				tokens := llmtest.RandomTokens(5, 40, s.Model.Config().Vocab)
				want := slices.Concat(llmtest.ExactLogits(t, s.Model, exact, tokens, s.Model.Config().Context)...)
				o := infer.SessionOptions{Adapters: s.Adapters, Threads: 2}
				for m, bound := range map[*model.Model]float64{s.Model: bound, repacked: max(bound, 1e-4)} {
					require.Less(t, refmath.NMSE(flat(t, newSequence(t, m, o), tokens), want), bound)
					single := newSequence(t, m, o)
					var steps []float32
					for _, token := range tokens {
						steps = append(steps, decode(t, single, token)...)
					}
					require.Less(t, refmath.NMSE(steps, want), bound)
				}
				plain := flat(t, newSequence(t, s.Model, infer.SessionOptions{}), tokens)
				require.Greater(t, refmath.NMSE(plain, want), 10*bound, "the adapter must do something")
			})
		}
	}
}

// Adapters may have factors beyond the range of F16.
func TestSessionAdapterOfAnySize(t *testing.T) {
	m := llmtest.GoldenModel(t, ggml.Q8_0)
	store := llmtest.NewArena(t)
	tokens := llmtest.RandomTokens(1, 20, m.Config().Vocab)
	var logits [][]float32
	for _, factor := range []float64{1, 1e-9, 1e9} {
		a, b := make([]float32, m.Config().Embd*4), make([]float32, m.Config().Embd*4)
		for i := range a {
			a[i] = float32(factor * 0.5 * math.Sin(float64(i)))
			b[i] = float32(0.5 * math.Cos(float64(i)) / factor)
		}
		name := fmt.Sprint(factor)
		adapters := model.Adapters{"blk.0.attn_q.weight": {{
			A: store.Tensor("a"+name, a, int64(m.Config().Embd), 4), B: store.Tensor("b"+name, b, 4, int64(m.Config().Embd)), Scale: 1,
		}}}
		logits = append(logits, flat(t, newSequence(t, m, infer.SessionOptions{Adapters: adapters}), tokens))
	}
	plain := flat(t, newSequence(t, m, infer.SessionOptions{}), tokens)
	require.Greater(t, refmath.NMSE(plain, logits[0]), 1e-2)
	require.Less(t, refmath.NMSE(logits[1], logits[0]), 1e-3)
	require.Less(t, refmath.NMSE(logits[2], logits[0]), 1e-3)
}
