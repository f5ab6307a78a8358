package train

import (
	"cmp"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/llmtest"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/testhook"
	"github.com/goggml/ggml/kernels"
	"github.com/goggml/ggml/llm/data"
	"github.com/goggml/ggml/llm/lora"
	"github.com/goggml/ggml/llm/model"
)

// A choiceLog is the list of experts that routers chose, call by call.
type choiceLog struct {
	calls [][]int32
	used  int
}

func ignore([]int32) {}

// record logs the choices of a computation.
func (l *choiceLog) record(compute func()) {
	l.calls = nil
	testhook.Routed = func(experts []int32) { l.calls = append(l.calls, slices.Clone(experts)) }
	defer func() { testhook.Routed = ignore }()
	compute()
}

// rerouted returns for how many tokens the first half of the calls chose other experts than the second half.
func (l *choiceLog) rerouted() (n int) {
	half := len(l.calls) / 2
	for i := range half {
		for at := 0; at < len(l.calls[i]); at += l.used {
			of := func(call []int32) []int32 { return slices.Sorted(slices.Values(call[at : at+l.used])) }
			if !slices.Equal(of(l.calls[i]), of(l.calls[half+i])) {
				n++
			}
		}
	}
	return n
}

// hold makes both halves of a computation choose as the second half of the log did, if any router chose.
func (l *choiceLog) hold(compute func()) {
	half, i := len(l.calls)/2, 0
	testhook.Routed = func(experts []int32) {
		copy(experts, l.calls[half+i%half])
		i++
	}
	defer func() { testhook.Routed = ignore }()
	compute()
}

// Gradients in integers are F32's on nine architectures: a mixture, hybrids, and a hybrid mixture among them. A router may
// choose other experts where two nearly tie, which changes gradients more than rounding does. So a mixture's gradients
// have the bound with F32's choices; with its own ones they have it unless tokens are rerouted. Where I8 computes forward in
// BF16, BF16's own error is allowed beside it.
func TestIntegerGradients(t *testing.T) {
	if !kernels.HasIntegers() {
		t.Skip("the processor has no kernel for integers")
	}
	types, names := []ggml.Type{ggml.F16, ggml.Q8_0, ggml.Q4_K}, []string{"llama", "qwen3", "gemma3", "phi3", "starcoder2", "olmo2", "qwen3moe", "granitehybrid", "falcon-h1"}
	if testing.Short() {
		names = names[:2]
	}
	for i, name := range names {
		typ := types[i%len(types)]
		m := need.Value(model.Load(llmtest.WideArchFile(t, name, typ), model.LoadOptions{}))(t)
		t.Cleanup(func() { m.Close() })
		var samples []data.Sample
		for i := range 4 {
			samples = append(samples, data.Sample{Tokens: llmtest.RandomTokens(uint64(i), 65, m.Config().Vocab)})
		}
		for compute, least := range map[ggml.Type]struct{ all, matrix float64 }{ggml.I16: {0.9999, 0.999}, ggml.I8: {0.999, 0.99}} {
			t.Run(fmt.Sprintf("%s/%v/%v", name, typ, compute), func(t *testing.T) {
				testhook.Routed = ignore // before graphs are built
				defer func() { testhook.Routed = nil }()
				o := runOptions()
				o.ComputeType, o.Batch, o.Accumulate = compute, 2, 2
				r := newLoRARun(t, m, data.New(64, samples), o, lora.Options{Rank: 8, Alpha: 16})
				check := func(typ ggml.Type) *ComputeCheck {
					r.options.ComputeType = typ
					require.NoError(t, r.buildGraphs(r.checkpointing, r.keep))
					return need.Value(r.CheckCompute(t.Context()))(t)
				}
				log := choiceLog{used: m.Config().ExpertsUsed}
				for step := range 4 {
					var free, bf16, held *ComputeCheck
					log.record(func() { free = check(compute) })
					allowed := least
					if compute == ggml.I8 && kernels.FastestType() == ggml.BF16 {
						log.hold(func() { bf16 = check(ggml.BF16) })
						allowed.all -= 1 - bf16.Cosine
						allowed.matrix -= 1 - worstOf(bf16).Cosine
					}
					if held = free; log.rerouted() > 0 {
						log.hold(func() { held = check(compute) })
					}
					worst := worstOf(held)
					t.Logf("step %d: %d tokens rerouted, cosine %.6f; with the choices of F32 %.6f, worst %.5f of %s",
						step+1, log.rerouted(), free.Cosine, held.Cosine, worst.Cosine, worst.Name)
					require.GreaterOrEqual(t, held.Cosine, allowed.all)
					require.GreaterOrEqual(t, worst.Cosine, allowed.matrix, worst.Name)
					need.Value(r.Step(t.Context()))(t)
				}
			})
		}
	}
}

// worstOf returns the parameter with the least cosine.
func worstOf(c *ComputeCheck) GradientCosine {
	return slices.MinFunc(c.Parameters, func(a, b GradientCosine) int { return cmp.Compare(a.Cosine, b.Cosine) })
}
