package device_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/benchmodel"
	"github.com/goggml/ggml/internal/test/gpucost"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/pages"
	"github.com/goggml/ggml/internal/testhook"
	"github.com/goggml/ggml/llm/arch"
	"github.com/goggml/ggml/llm/data"
	"github.com/goggml/ggml/llm/device"
	"github.com/goggml/ggml/llm/estimate"
	"github.com/goggml/ggml/llm/layout"
	"github.com/goggml/ggml/llm/lora"
	"github.com/goggml/ggml/llm/model"
	"github.com/goggml/ggml/llm/train"
	"github.com/goggml/ggml/llm/weightcache"
)

// A cudaStep is a step of LoRA on CUDA as recorded by the stand-in.
type cudaStep struct {
	model         arch.Config
	base          ggml.Type
	context, rows int
	kept          *weightcache.Tier // cached copies of frozen weights; nil means as many as fit
	asked         calls
	peak          int64 // bytes on the device
	work          []gpucost.Work
}

const cudaRank = 8

func (s cudaStep) tokens() int { return s.context * s.rows }

// A step of LoRA on CUDA is one submission. The device accumulates in F32, no weight is transferred, and nothing comes
// back; the page lists the calls.
func TestCUDAStep(t *testing.T) {
	s := newStandIn(t)
	var steps []cudaStep
	for _, c := range []arch.Config{benchmodel.Large(), benchmodel.Huge()} {
		for _, base := range []ggml.Type{ggml.BF16, ggml.Q4_K} {
			t.Run(fmt.Sprintf("%s_%v", c.Name, base), func(t *testing.T) {
				e := newEngine(t, device.Options{Layout: layout.On(s.Device)})
				m := need.Value(model.Load(hollowModel(t, c, base), model.LoadOptions{Layout: e.Layout()}))(t)
				a := newCUDAAdapter(t, m)
				for _, shape := range [][2]int{{512, 1}, {512, 8}, {4096, 1}} {
					step := cudaStep{model: c, base: base, context: shape[0], rows: shape[1]}
					s.take(t, e, m, a, &step)
					step.require(t)
					steps = append(steps, step)
				}
				require.NoError(t, errors.Join(a.Close(), m.Close(), e.Close()))
			})
		}
	}
	if len(steps) == 12 { // all steps ran
		t.Log("scripts/cuda-step writes the pages")
		pages.Check(t, "../../docs/benchmarks/cuda-step.md", cudaPage(steps))
		for _, s := range steps {
			if s.model.Name == "8B" && s.context == 4096 {
				pages.CheckSection(t, "../../docs/gpu-kernels.md", "the plan for "+s.typeName(), planSection(s, gpucost.Cards[0]))
			}
		}
	}
}

// A step takes at most the CUDA memory planned for it, and the plan is not far above that.
func TestCUDAPeak(t *testing.T) {
	s := newStandIn(t)
	for _, base := range []ggml.Type{ggml.BF16, ggml.Q4_K} {
		for _, kept := range []weightcache.Tier{weightcache.None, weightcache.All} {
			t.Run(fmt.Sprint(base, " ", kept), func(t *testing.T) {
				step := cudaStep{model: benchmodel.Large(), base: base, context: 512, rows: 8, kept: &kept}
				path := hollowModel(t, step.model, base)
				mapped := need.Value(model.Load(path, model.LoadOptions{}))(t)
				planned, needs := newCUDAAdapter(t, mapped), estimate.New(s.Device)
				require.NoError(t, train.AddEstimate(needs, mapped, train.Trainables{Adapters: planned.WithScale(1)}, step.data(), step.options(nil)))
				whole := need.Value(needs.In(layout.On(s.Device)))(t)
				require.NoError(t, errors.Join(planned.Close(), mapped.Close()))

				s.calls(t)
				before := s.used
				e := newEngine(t, device.Options{Layout: layout.On(s.Device)})
				m := need.Value(model.Load(path, model.LoadOptions{Layout: e.Layout()}))(t)
				a := newCUDAAdapter(t, m)
				s.take(t, e, m, a, &step)
				require.NoError(t, errors.Join(a.Close(), m.Close(), e.Close()))
				t.Logf("%.2f GB of %.2f GB planned", float64(step.peak-before)/1e9, float64(whole[0])/1e9)
				require.LessOrEqual(t, step.peak-before, whole[0])
				require.Greater(t, step.peak-before, whole[0]/5*4)
			})
		}
	}
}

// errTaken ends a step after its calls were recorded. Nothing is computed, so the trainer would report bad results.
var errTaken = errors.New("taken")

// take runs a step up to its results.
func (s *standIn) take(t *testing.T, e *device.Engine, m *model.Model, a *lora.Adapter, step *cudaStep) {
	s.calls(t)
	s.peak = s.used
	tr := need.Value(train.New(m, train.Trainables{Adapters: a.WithScale(1)}, step.data(), step.options(e)))(t)
	defer tr.Close()
	testhook.Submitting = func(graphs ...any) {
		s.calls(t)
		var list []*ggml.Graph
		for _, g := range graphs {
			list = append(list, g.(*ggml.Graph))
		}
		step.work = gpucost.Of(gpucost.ShapeOf(step.model, cudaRank), list...)
	}
	testhook.Computed = func() {
		step.asked, step.peak = s.calls(t), s.peak
		panic(errTaken)
	}
	defer func() {
		testhook.Submitting, testhook.Computed = nil, nil
		require.Equal(t, errTaken, recover())
	}()
	_, err := tr.Step(t.Context())
	require.NoError(t, err)
}

// data returns the samples of two steps.
func (s cudaStep) data() *data.Dataset {
	rng := rand.New(rand.NewPCG(1, 1))
	tokens := make([]int32, s.context+1)
	for i := range tokens {
		tokens[i] = int32(rng.IntN(s.model.Vocab))
	}
	return data.New(s.context, slices.Repeat([]data.Sample{{Tokens: tokens}}, 2*s.rows))
}

func (s cudaStep) options(e *device.Engine) train.Options {
	return train.Options{
		Schedule: train.Schedule{Peak: 1e-4, Steps: 2}, AdamW: train.DefaultAdamW(), Batch: s.rows, Accumulate: 1, Seed: 1,
		Engine: e, ComputeType: ggml.BF16, WeightCopies: s.kept,
	}
}

// newCUDAAdapter returns the adapter of a step.
func newCUDAAdapter(t *testing.T, m *model.Model) *lora.Adapter {
	t.Helper()
	return need.Value(lora.New(m, lora.Options{Rank: cudaRank, Alpha: 16, Init: lora.InitKaiming, Seed: 1}))(t)
}

func (s cudaStep) require(t *testing.T) {
	asked := s.asked
	require.Positive(t, asked.updates, "the update is of the same submission")
	require.LessOrEqual(t, asked.updates, 10, "matrices of an adapter are updated together")
	require.LessOrEqual(t, asked.waits, 12, "inputs are few, whatever the length of rows")
	for types := range asked.byCompute {
		require.NotEqual(t, "F16", strings.Fields(types)[3], "sums of 16 bits")
	}
	require.Less(t, asked.copied["host-to-device"], int64(1<<20), "more than tokens, positions and settings")
	require.Zero(t, asked.copied["device-to-host"], "something comes back in the middle")

	// The counts are complete: they include exactly the products that the stand-in recorded.
	seen, counted := map[bool]float64{}, map[bool]float64{}
	for types, flops := range asked.flops {
		seen[strings.HasPrefix(types, "BF16")] += flops
	}
	for _, w := range s.work {
		counted[w.BF16] += w.FLOPs
	}
	require.InEpsilon(t, seen[true], counted[true], 0.01)
	require.InEpsilon(t, seen[false], counted[false], 0.05)
	t.Logf("%d kernels, products %v of %v FLOP, copied %v bytes in %v, %d waits, peak %d", asked.kernels, asked.byCompute, asked.flops, asked.copied, asked.copies, asked.waits, s.peak)
}

func cudaPage(steps []cudaStep) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("# What a step asks of CUDA\n")
	line("Made by `scripts/cuda-step`. It takes a step of LoRA (rank %d, all linear layers, products in BF16) with ggml's CUDA plugin on a stand-in for driver, runtime and cuBLAS, which claims compute capability 9.0 and 80 GB, computes nothing, and writes down each call (`TestCUDAStep`, part of `make gpu-check`). So this needs no GPU; speeds are predictions.\n", cudaRank)
	line("Forward and backward pass and the update are one submission; no weight is copied, nothing comes back before the losses, and no product adds up in 16 bits. The test fails where one of these is no longer so, or where this page is not what the stand-in sees.\n")
	line("## What is asked for\n")
	line("Of the device: kernels that are launched, products by cuBLAS with the types of their operands (sums and results are in F32, and those of F32 are rounded to TF32), copies, waits of the host, and the most memory that is allocated at a time. Moved is what kernels read and write, by the shapes of the graph.\n")
	line("| model | base | context × rows | kernels | products in BF16 | in F32 | moved | host to device | within the device | waits | memory |")
	line("|---|---|---|---:|---:|---:|---:|---:|---:|---:|---:|")
	for _, s := range steps {
		a, flops, number := s.asked, map[bool]float64{}, map[bool]int{}
		for types, n := range a.byCompute {
			inBF16 := strings.HasPrefix(types, "BF16")
			number[inBF16] += n
			flops[inBF16] += a.flops[types]
		}
		line("| %s | %v | %s | %s | %s, %.1f TFLOP | %s, %.1f TFLOP | %s GB | %d kB | %s, %.0f MB | %d | %.1f GB |",
			s.model.Name, s.typeName(), s.shape(), grouped(a.kernels), grouped(number[true]), flops[true]/1e12, grouped(number[false]), flops[false]/1e12, grouped(int(moved(s)/1e9)),
			a.copied["host-to-device"]/1000, grouped(a.copies["device-to-device"]), float64(a.copied["device-to-device"])/1e6, a.waits, float64(s.peak)/1e9)
	}
	line("\n## Predictions\n")
	line("Tokens/s, and the share of the card's product of 8192³ in BF16 that they are: of 4 operations for each weight and token, and 6 for each layer, token before and width of attention, which is what no way of computing saves. Within the limits of each card (`internal/test/gpucost`), none of which has been measured here:\n")
	line("| card | product in BF16 | in TF32 | copies | a launch | between two kernels |")
	line("|---|---:|---:|---:|---:|---:|")
	for _, c := range gpucost.Cards {
		line("| %s | %.0f TFLOP/s | %.0f TFLOP/s | %.2f TB/s | %v | %v |", c.Name, c.BF16/1e12, c.TF32/1e12, c.Bandwidth/1e12, c.Launch, c.Gap)
	}
	line("\nA product takes as long as its operations at four fifths of that speed, or as reading and writing its matrices; all else as long as what it reads and writes. Kernels come one after the other. All cards take the step that 80 GB have been given, with as many copies of frozen matrices as fit there; where it needs more than the card has, the prediction is left out.\n")
	header, rule := "| model | base | context × rows |", "|---|---|---|"
	for _, c := range gpucost.Cards {
		header, rule = header+" "+c.Name+" |", rule+"---:|"
	}
	line("%s\n%s", header, rule)
	for _, s := range steps {
		row := fmt.Sprintf("| %s | %v | %s |", s.model.Name, s.typeName(), s.shape())
		for _, c := range gpucost.Cards {
			if s.peak > c.Memory {
				row += " – |"
				continue
			}
			rate := float64(s.tokens()) / c.Predict(s.work, s.asked.launches()).Seconds()
			row += fmt.Sprintf(" %s, %.0f %% |", grouped(rounded(rate)), 100*rate*s.model.AdapterFLOPs(s.context)/c.BF16)
		}
		line("%s", row)
	}
	card := gpucost.Cards[0]
	line("\n## What is lost\n")
	line("Milliseconds of a step on the %s, by what they are for; the least is what the operations above take at the speed of its product of 8192³.\n", card.Name)
	header, rule = "| model, base, context × rows | least |", "|---|---:|"
	for k := range gpucost.NumKinds {
		header, rule = header+" "+k.String()+" |", rule+"---:|"
	}
	line("%s launches | all |\n%s---:|---:|", header, rule)
	for _, s := range steps {
		p := card.Predict(s.work, s.asked.launches())
		row := fmt.Sprintf("| %s, %v, %s | %.1f |", s.model.Name, s.typeName(), s.shape(), 1000*s.model.AdapterFLOPs(s.context)*float64(s.tokens())/card.BF16)
		for _, seconds := range p.ByKind {
			row += fmt.Sprintf(" %.1f |", 1000*seconds)
		}
		line("%s %.1f | %.1f |", row, 1000*p.Launches, 1000*p.Seconds())
	}
	line("\n## What moves most\n")
	last := steps[len(steps)-1]
	for _, s := range steps {
		if s.model.Name == last.model.Name && s.base == ggml.BF16 && s.rows == 1 && s.context == 4096 {
			last = s
		}
	}
	line("Ops of the step of %s in %v at %s, those that take more than a hundredth of its time.\n", last.model.Name, last.typeName(), last.shape())
	line("| for | op | nodes | GB | TFLOP | ms |")
	line("|---|---|---:|---:|---:|---:|")
	for _, o := range card.ByOp(last.work) {
		if o.Seconds > card.Predict(last.work, last.asked.launches()).Seconds()/100 {
			line("| %v | %s | %s | %.1f | %.1f | %.1f |", o.Kind, o.Op, grouped(o.Nodes), float64(o.Bytes)/1e9, o.FLOPs/1e12, 1000*o.Seconds)
		}
	}
	return b.String()
}

func (s cudaStep) typeName() string { return strings.ToUpper(s.base.String()) }

func (s cudaStep) shape() string { return fmt.Sprintf("%s × %d", grouped(s.context), s.rows) }

// rounded rounds a rate to three digits.
func rounded(x float64) int {
	unit := 1.0
	for x/unit >= 1000 {
		unit *= 10
	}
	return int(unit) * int(x/unit+0.5)
}

// grouped formats a number with commas.
func grouped(n int) string {
	digits := fmt.Sprint(n)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}
