package train

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml/internal/test/llmtest"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/llm/arch"
	"github.com/goggml/ggml/llm/data"
	"github.com/goggml/ggml/llm/lora"
	"github.com/goggml/ggml/llm/model"
)

// counted returns steps of some layers, timed by a clock that counts the nodes of their graph.
func (b *probe) counted(t *testing.T, layers []int) *measuredSteps {
	t.Helper()
	type event struct {
		layer int
		at    arch.LayerEvent
	}
	var order []event
	o := b.Options
	o.layers, o.layerHook = layers, func(layer int, at arch.LayerEvent) { order = append(order, event{layer, at}) }
	tr := need.Value(New(b.Model, b.Trained, b.Data, o))(t)
	defer tr.Close()
	_, err := tr.Step(t.Context())
	require.NoError(t, err)
	clock, passed := time.Time{}.Add(1), layerTimes{}
	for node := range tr.loss.graphs[0].Graph.Nodes() {
		switch node.Op() {
		case "custom":
		case "view":
			continue
		default:
			clock = clock.Add(1)
			continue
		}
		at := order[0]
		passed.at(at.layer, at.at)
		passed[at.layer][at.at], order = clock, order[1:]
	}
	require.Empty(t, order)
	m := &measuredSteps{of: b.layers, layers: layers, inLayers: map[int]layerTime{}}
	m.add(time.Hour, 5, layerTimes{layers[0]: {}})
	m.warm()
	m.add(clock.Sub(time.Time{}), 1, passed)
	return m
}

// deeper returns a plan of a model with more layers than other tests use, if the architecture
// allows it.
func deeper(t *testing.T, name string) Plan {
	t.Helper()
	p := planOf(t, name, plenty)
	c := p.Model.Config()
	n := c.Layers
	c.Layers *= 5
	for _, list := range []*[]int{&c.HeadsAt, &c.KVHeadsAt, &c.FFs, &c.ExpertFFs} {
		*list = append([]int(nil), slices.Repeat(*list, 5)...)
	}
	for _, list := range []*[]bool{&c.LocalLayers, &c.RoPELayers} {
		*list = append([]bool(nil), slices.Repeat(*list, 5)...)
	}
	m, err := model.New(c, nil, 1)
	if err != nil {
		return p
	}
	t.Cleanup(func() { m.Close() })
	a := need.Value(lora.New(m, lora.Options{Rank: 2, Alpha: 4, LastLayers: ptr(c.Layers - n)}))(t)
	t.Cleanup(func() { a.Close() })
	p.Model, p.Trained.Adapters = m, a.WithScale(1)
	return p
}

func ptr[T any](x T) *T { return &x }

// The time of a few layers predicts a step of all layers, on a clock that counts nodes. The prediction
// is exact if one layer of each kind is measured, except if layers share weights: the first layer's
// gradients are not added to others. Nodes that a graph computes once for all choices of blocks of keys, such
// as the weights of heads that count alike, are counted in each layer.
func TestStepOfFewLayers(t *testing.T) {
	exact := 0
	for _, name := range llmtest.TestedArchitectures() {
		p := deeper(t, name)
		if CheckModel(p.Model) != nil {
			continue
		}
		for _, c := range []Checkpointing{CheckpointingOff, CheckpointingOn} {
			t.Run(fmt.Sprintf("%s/%v", name, c), func(t *testing.T) {
				p.Options.Checkpointing, p.Options.Accumulate = c, 1
				b := need.Value(p.newProbe())(t)
				all, kinds, sampled := make([]int, len(b.layers)), map[string]bool{}, map[string]bool{}
				for i, l := range b.layers {
					all[i], kinds[l.kind] = i, true
				}
				for _, i := range b.sample {
					sampled[b.layers[i].kind] = true
				}
				whole, few := b.counted(t, all).whole(), b.counted(t, b.sample).whole()
				switch a := p.Model.Architecture(); {
				case a.NumBlocks() < len(all):
					require.InEpsilon(t, whole, few, 0.05)
				case llmtest.ChoosesBlocks(name):
					require.InEpsilon(t, whole, few, 0.002)
				case len(sampled) < len(kinds):
					require.InEpsilon(t, whole, few, 0.2, "layers of %d kinds by those of %d", len(kinds), len(sampled))
				default:
					require.Equal(t, whole, few)
					exact++
				}
			})
		}
	}
	require.Greater(t, exact, map[bool]int{false: 100, true: 15}[testing.Short()])
}

// With enough time, steps of all layers and rows are measured; with none, the error says so.
func TestStepTime(t *testing.T) {
	p := planOf(t, "llama", plenty)
	took := need.Value(p.StepTime(t.Context(), time.Hour))(t)
	require.Positive(t, took.Seconds)
	took.Seconds = 0
	require.Equal(t, StepTime{Layers: 2, OfLayers: 2, Rows: 2, OfRows: 2}, took)
	l := need.Value(p.ProbeLayout())(t)
	require.True(t, l.IsCPU())

	_, err := p.StepTime(t.Context(), 0)
	require.ErrorIs(t, err, ErrNotMeasured)
	stopped, stop := context.WithCancel(t.Context())
	stop()
	_, err = p.StepTime(stopped, time.Hour)
	require.ErrorIs(t, err, context.Canceled)
	_, err = Plan{}.StepTime(t.Context(), time.Hour)
	require.Error(t, err)
}

// StepTime measures as much as time allows: everything, a few layers with all rows of a batch, or with
// one row.
func TestMostThatIsMeasured(t *testing.T) {
	b := &probe{batch: 4, layers: slices.Repeat([]probedLayer{{kind: "all"}}, 10), sample: []int{3, 6}}
	few := &measuredSteps{of: b.layers, layers: b.sample, rows: 1, steps: 1, tokens: 8, took: 3 * time.Second, inLayers: map[int]layerTime{6: {back: time.Second}}}
	require.Equal(t, 11*time.Second, few.whole())
	for left, want := range map[time.Duration][2]int{97 * time.Second: {10, 4}, 96 * time.Second: {2, 4}, 27 * time.Second: {2, 4}, 26 * time.Second: {2, 1}} {
		layers, rows := b.most(few, left)
		require.Equal(t, want, [2]int{len(layers), rows}, "%v", left)
	}
	// A step has twelve rows of sixteen tokens on average, or fewer if the data has fewer.
	b.Data, b.Options = data.New(24, []data.Sample{{Tokens: make([]int32, 9)}, {Tokens: make([]int32, 25)}}), Options{Batch: 4, Accumulate: 3}
	require.InDelta(t, 12*2*11, b.secondsOfStep(few), 1e-9)
	b.Options.Epochs = 4
	require.InDelta(t, 8*2*11, b.secondsOfStep(few), 1e-9)
}

// A sample has a layer of each kind, if there are few kinds, and a second layer of one of them.
func TestSampleOf(t *testing.T) {
	for kinds, want := range map[string][]int{
		"aaaaaa":                 {0, 3},
		"a":                      {0},
		"ab":                     {0, 1},
		"bbaaaa":                 {0, 1, 4},
		"ffffffaa":               {3, 6, 7}, // f is not trained
		"ababababab":             {0, 4, 5},
		"abcdefghijklmnopqrstuv": {0, 1, 2, 3, 4},
	} {
		var layers []probedLayer
		for _, kind := range kinds {
			layers = append(layers, probedLayer{kind: string(kind), isTrained: kind != 'f' || len(kinds) > 20})
		}
		require.Equal(t, want, sampleOf(layers), kinds)
	}
}
