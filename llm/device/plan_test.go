package device_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/llmtest"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/optest"
	"github.com/goggml/ggml/llm/device"
	"github.com/goggml/ggml/llm/estimate"
	"github.com/goggml/ggml/llm/infer"
	"github.com/goggml/ggml/llm/layout"
	"github.com/goggml/ggml/llm/lora"
	"github.com/goggml/ggml/llm/model"
	"github.com/goggml/ggml/llm/train"
	"github.com/goggml/ggml/llm/weightcache"
)

// small returns a device that limits the memory a client may allocate.
func small(t *testing.T, memory int64) *ggml.Device {
	t.Helper()
	r := need.Value(ggml.AddRPCServer(optest.StartRPCServerWith(t, optest.ServerOptions{Memory: memory}).Endpoint))(t)
	t.Cleanup(func() { require.NoError(t, r.Unload()) })
	return r.Devices()[0]
}

// planned are architectures that transfer different tensors between devices.
var planned = []string{"gemma3", "llama", "qwen3moe"}

// trainingEstimate returns the estimate of a training run.
func trainingEstimate(t *testing.T, m *model.Model, c train.Checkpointing) *estimate.Memory {
	t.Helper()
	d := estimate.New()
	require.NoError(t, train.AddEstimate(d, m, train.Trainables{Adapters: newAdapter(t, m).WithScale(1)}, samples(m.Config().Vocab), trainOptions(nil, c)))
	return d
}

// The estimated memory of a run in a layout, computed before anything is there, equals the memory it takes, and plans
// use the same figures.
func TestEstimateOfTraining(t *testing.T) {
	need.Time(t, "trains in many layouts")
	all := layouts(t)
	all["one device"] = layout.On(all["by kind"].Devices[0])
	for _, name := range planned {
		m := llmtest.ArchModel(t, name, ggml.F32)
		for place, l := range all {
			for _, c := range []train.Checkpointing{train.CheckpointingOff, train.CheckpointingOn} {
				t.Run(fmt.Sprint(name, " ", place, " ", c), func(t *testing.T) {
					demanded := need.Value(trainingEstimate(t, m, c).Parts(l))(t)
					var planned layout.Sizes
					for _, sizes := range demanded {
						planned = planned.Plus(sizes)
					}
					said := need.Value(train.EstimateMemory(l, m, train.Trainables{Adapters: newAdapter(t, m).WithScale(1)}, samples(m.Config().Vocab), trainOptions(nil, c)))(t)
					for i, d := range l.Devices { // plans do not know what the CPU will hold; its kernels need less
						if d.Type() == ggml.CPU {
							require.GreaterOrEqual(t, planned[i], said.Total()[i])
						} else {
							require.InEpsilon(t, said.Total()[i], planned[i], 0.06)
						}
					}

					on, e := loadOn(t, m, l), newEngine(t, device.Options{Layout: l})
					tr := need.Value(train.New(on, train.Trainables{Adapters: newAdapter(t, on).WithScale(1)}, samples(on.Config().Vocab), withCopies(trainOptions(e, c), weightcache.None)))(t)
					defer tr.Close()
					_, err := tr.Step(t.Context())
					require.NoError(t, err)
					requireEstimate(t, tr.Memory(), said.Optimizer.Plus(said.Step))
					requireEstimate(t, on.Sizes(), said.Weights)
					requireEstimate(t, sizesOf(t, e, on, newAdapter(t, on)), said.Adapters)

					needs := estimate.NewIn(l)
					require.NoError(t, train.AddEvaluationEstimate(needs, m, nil, train.EvaluatorOptions{}, samples(m.Config().Vocab)))
					parts := need.Value(needs.Parts(l))(t)
					evaluator := need.Value(train.NewEvaluator(on, train.EvaluatorOptions{Engine: e}))(t)
					defer evaluator.Close()
					_, err = evaluator.Evaluate(t.Context(), nil, samples(m.Config().Vocab))
					require.NoError(t, err)
					for i, taken := range evaluator.Memory() {
						require.GreaterOrEqual(t, parts["evaluations"][i]*9/8, taken, "with the room that plans leave")
						require.LessOrEqual(t, parts["evaluations"][i], taken/2*3+4096)
					}
				})
			}
		}
	}
}

// withCopies returns options with a tier of cached weight copies.
func withCopies(o train.Options, kept weightcache.Tier) train.Options {
	o.WeightCopies = &kept
	return o
}

// requireEstimate checks that an estimate is within 5 % of the memory taken.
func requireEstimate(t *testing.T, taken, said layout.Sizes) {
	t.Helper()
	require.Len(t, said, len(taken))
	for i := range taken {
		t.Logf("of device %d: %d said, %d taken", i, said[i], taken[i])
		require.InDelta(t, taken[i], said[i], float64(taken[i])/20+4096, "%v, of %v", said, taken)
	}
}

// requireRoom checks that a plan counts at least the memory taken, and at most a quarter more.
func requireRoom(t *testing.T, taken, planned layout.Sizes) {
	t.Helper()
	require.Len(t, planned, len(taken))
	for i := range taken {
		require.GreaterOrEqual(t, planned[i], taken[i], "%v, of %v", planned, taken)
		require.LessOrEqual(t, planned[i], taken[i]/4*5+4096, "%v, of %v", planned, taken)
	}
}

// sizesOf returns the sizes of an adapter.
func sizesOf(t *testing.T, e *device.Engine, m *model.Model, a *lora.Adapter) layout.Sizes {
	sizes := make(layout.Sizes, len(e.Devices()))
	for name, pairs := range a.WithScale(1) {
		w, i := m.Architecture().Weight(name), 0
		if of := e.Layout().Of; of != nil {
			i = of(w.Layer, w.Kind)
		}
		for _, p := range pairs {
			sizes[i] += p.A.NumBytes() + p.B.NumBytes()
		}
	}
	return sizes
}

// A run in a planned layout has the losses and the tokens of a run on one device.
func TestPlans(t *testing.T) {
	need.Time(t, "trains many times")
	a, b := remote(t), remote(t)
	for _, name := range planned {
		t.Run(name, func(t *testing.T) {
			m := llmtest.ArchModel(t, name, ggml.F32)
			needs := trainingEstimate(t, m, train.CheckpointingOff)
			all := need.Value(needs.In(layout.On(a)))(t)
			half := m.Config().Layers / 2
			runsAlike(t, m, runOn(t, m, newEngine(t, device.Options{OpSet: device.Stock})), map[string]layout.Planner{
				"a device":                 {Devices: []*ggml.Device{a}},
				"two devices":              {Devices: []*ggml.Device{a, b}},
				"the CPU and a device":     {Devices: []*ggml.Device{a}, DeviceLayers: &half},
				"a device and the CPU":     {Devices: []*ggml.Device{a, cpu(t)}, DeviceLayers: &half},
				"parts":                    {Devices: []*ggml.Device{cpu(t), b}, Split: []float64{1, 1}},
				"a device with too little": {Devices: []*ggml.Device{small(t, all[0]*3/4)}},
			})
		})
	}
}

// A planRun holds what a run computes independently of its plan.
type planRun struct {
	history []train.StepMetrics
	text    []int
}

// runOn trains a model and generates tokens.
func runOn(t *testing.T, m *model.Model, e *device.Engine) planRun {
	t.Helper()
	tr := newTrainer(t, m, e, train.CheckpointingOff)
	run(t, tr)
	require.NoError(t, tr.Close()) // frees memory for the session
	return planRun{tr.History, greedy(t, m, e)}
}

// runsAlike checks that a model from a file trains and generates the same in planned layouts.
func runsAlike(t *testing.T, m *model.Model, want planRun, plans map[string]layout.Planner) {
	needs := trainingEstimate(t, m, train.CheckpointingOff)
	for what, p := range plans {
		t.Run(what, func(t *testing.T) {
			p.Layers, p.Tied, p.Experts, p.Need = m.Config().Layers, m.Config().Tied, m.Architecture().Experts(), needs.In
			plan := need.Value(p.Plan())(t)
			t.Log(plan)
			if strings.Contains(what, "too little") {
				require.Contains(t, plan.String(), "on the CPU")
				require.Less(t, plan.Need[0], plan.Free[0])
				require.Equal(t, len(p.Experts) > 0, plan.Experts > 0)
				require.False(t, plan.IsWhole())
			}
			on, e := loadOn(t, m, plan.Layout), newEngine(t, device.Options{Layout: plan.Layout})
			for x := range on.Weights() {
				requirePlaced(t, e, on.Architecture().Weight(x.Name()), x)
			}
			got := runOn(t, on, e)
			requireSameLosses(t, want.history, got.history, 1e-4)
			require.Equal(t, want.text, got.text)
		})
	}
}

// greedy returns the greedy continuation of a text.
func greedy(t *testing.T, m *model.Model, e *device.Engine) []int {
	t.Helper()
	s := need.Value(infer.NewSession(m, infer.SessionOptions{Engine: e, Adapters: trained(t, m).WithScale(1)}))(t)
	defer s.Close()
	q := need.Value(s.NewSequence())(t)
	next := llmtest.RandomTokens(5, 9, m.Config().Vocab)
	var text []int
	for range 20 {
		logits := need.Value(q.Decode(context.Background(), next))(t)
		best := greediest(logits)
		text, next = append(text, best), []int32{int32(best)}
	}
	return text
}

// greediest returns the most likely token.
func greediest(logits []float32) int {
	best := 0
	for i, l := range logits {
		if l > logits[best] {
			best = i
		}
	}
	return best
}

// A session takes its estimated memory from its creation on, whatever it computes.
func TestEstimateOfSessions(t *testing.T) {
	need.Time(t, "makes sessions in many layouts")
	ctx := t.Context()
	m := llmtest.ArchModel(t, "gemma3", ggml.F32)
	c, far := m.Config(), layouts(t)
	d := far["by kind"].Devices[0]
	far["one device"] = layout.On(d)
	for name, l := range far {
		for _, sequences := range []int{1, 3} {
			if name == "by kind" && sequences > 1 {
				continue // keys and values are on another device than attention, so their copies count in full
			}
			t.Run(fmt.Sprint(name, " ", sequences), func(t *testing.T) {
				o := infer.SessionOptions{Sequences: sequences, Context: 300, Batch: 64, CacheType: ggml.F16, Adapters: trained(t, m).WithScale(1)}
				needs := estimate.NewIn(l)
				require.NoError(t, infer.AddEstimate(needs, m, o))
				said := need.Value(needs.In(l))(t)

				on, e := loadOn(t, m, l), newEngine(t, device.Options{Layout: l})
				a := trained(t, on)
				o.Adapters, o.Engine = a.WithScale(1), e
				s := need.Value(infer.NewSession(on, o))(t)
				defer s.Close()
				made := e.Memory()
				requireRoom(t, on.Sizes().Plus(sizesOf(t, e, on, a)).Plus(s.Memory()).Plus(made), said)
				var next []infer.StepInput
				for range sequences {
					q := need.Value(s.NewSequence())(t)
					_, err := q.Decode(ctx, llmtest.RandomTokens(5, 290, c.Vocab))
					require.NoError(t, err)
					next = append(next, infer.StepInput{Sequence: q, Token: 3})
				}
				for range 8 {
					require.NoError(t, s.Step(ctx, next))
				}
				_, err := next[0].Sequence.Rewind(30)
				require.NoError(t, err)
				_, err = next[0].Sequence.Decode(ctx, []int32{1, 2, 3})
				require.NoError(t, err)
				require.Equal(t, made, e.Memory(), "nothing is taken later")
			})
		}
	}
	adapters := trained(t, m).WithScale(1)
	bare := estimate.New()
	require.NoError(t, m.AddEstimate(bare, adapters))
	without := need.Value(bare.In(layout.On(d)))(t)
	evaluations := estimate.New()
	require.NoError(t, train.AddEvaluationEstimate(evaluations, m, adapters, train.EvaluatorOptions{}, samples(c.Vocab)))
	sizes := need.Value(evaluations.In(layout.On(d)))(t)
	require.Greater(t, sizes[0], without[0])
	full := need.Value(trainingEstimate(t, m, train.CheckpointingOff).In(layout.On(d)))(t)
	require.Less(t, sizes[0], full[0])
}
