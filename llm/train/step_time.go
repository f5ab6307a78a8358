package train

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/llm/arch"
	"github.com/goggml/ggml/llm/layout"
)

// A StepTime is the duration of a run's step.
type StepTime struct {
	Seconds float64
	// Layers and Rows are the numbers of measured layers of the model and rows of a batch. The times of
	// the others are extrapolated from similar ones.
	Layers, OfLayers, Rows, OfRows int
}

// ErrNotMeasured reports that the time was too short for a step of a few layers and one row.
var ErrNotMeasured = errors.New("a step of a few layers and one row takes longer")

// mostMeasured is the largest number of steps to measure.
const mostMeasured = 16

// StepTime measures steps for a given duration, and returns the time that steps of the run take with
// rows of mean length. If steps of all layers take too long, or if the layers are on devices, it
// measures steps of a few layers, one of each kind and one more, and separates the time in a layer
// from the rest of a step. Steps have all rows of a batch or, if that takes too long as well, one row.
// The model and the trained tensors must be in the [Plan.ProbeLayout]; the trained tensors are
// changed.
func (p Plan) StepTime(ctx context.Context, within time.Duration) (StepTime, error) {
	ends := time.Now().Add(within)
	probe, err := p.newProbe()
	if err != nil {
		return StepTime{}, err
	}
	limited, stop := context.WithDeadline(ctx, ends)
	defer stop()
	best, err := probe.measure(limited, probe.sample, 1, 1)
	if err != nil {
		return StepTime{}, err
	}
	if limited.Err() == nil {
		layers, rows := probe.most(best, time.Until(ends))
		more, err := probe.measure(limited, layers, rows, mostMeasured)
		if err != nil {
			return StepTime{}, err
		}
		if more.isWarm {
			best = more
		}
	}
	switch {
	case ctx.Err() != nil:
		return StepTime{}, ctx.Err()
	case best.steps == 0:
		return StepTime{}, ErrNotMeasured
	}
	return StepTime{
		Seconds: probe.secondsOfStep(best), Layers: len(best.layers), OfLayers: len(probe.layers), Rows: best.rows, OfRows: probe.batch,
	}, nil
}

// ProbeLayout returns the layout in which [Plan.StepTime] needs the model: the plan's layout,
// except that devices hold only the measured layers. The others stay on the CPU, mapped, so that
// little is loaded.
func (p Plan) ProbeLayout() (layout.Layout, error) {
	if p.Layout.IsCPU() {
		return p.Layout, nil
	}
	probe, err := p.newProbe()
	if err != nil {
		return layout.Layout{}, err
	}
	cpu := slices.IndexFunc(p.Layout.Devices, func(d *ggml.Device) bool { return d.Type() == ggml.CPU })
	if cpu < 0 {
		cpu = len(p.Layout.Devices)
	}
	measured := map[int]bool{}
	for _, layer := range probe.sample {
		measured[p.Model.Architecture().Blocks()[layer]] = true
	}
	return layout.Layout{Devices: p.Layout.Devices, Of: func(block int, kind layout.Kind) int {
		if block >= 0 && !measured[block] {
			return cpu
		}
		return placeOf(p.Layout, block, kind)
	}}, nil
}

// placeOf returns the index of the device that holds a kind of weight.
func placeOf(l layout.Layout, block int, kind layout.Kind) int {
	if l.Of == nil {
		return 0
	}
	return l.Of(block, kind)
}

// A probe measures steps of a run.
type probe struct {
	Plan
	batch  int // rows per batch
	layers []probedLayer
	sample []int // indices of the layers to measure
}

// A probedLayer holds what the time of a layer depends on.
type probedLayer struct {
	kind      string  // equal for layers that take equally long
	size      float64 // number of weights that multiply a token; times of unmeasured kinds scale with it
	isTrained bool    // some of its tensors are trained
	hasBack   bool    // it has a backward pass: it, or an earlier layer, is trained
}

func (p Plan) newProbe() (*probe, error) {
	if err := p.Model.CheckOpen(); err != nil {
		return nil, err
	}
	if err := p.Options.validate(); err != nil {
		return nil, err
	}
	params, err := p.Trained.params(p.Model, 0)
	if err != nil {
		return nil, err
	}
	if p.Options.Checkpointing == CheckpointingAuto {
		var memory MemoryEstimate
		if memory, p.Options.Checkpointing, err = p.Memory(); err != nil {
			return nil, err
		}
		p.Options.Keep = memory.Keep
	}
	b := &probe{Plan: p, batch: p.Options.Batch, layers: probedLayers(p.Model.Architecture(), p.Layout, params)}
	if e := p.Options.Epochs; e > 0 {
		b.batch = min(b.batch, e*p.Data.Len())
	}
	b.sample = sampleOf(b.layers)
	return b, nil
}

// probedLayers returns the layers of a model. Layers before the first trained one have no backward
// pass.
func probedLayers(a *arch.Architecture, l layout.Layout, params []parameter) []probedLayer {
	ofBlock := make([]probedLayer, a.NumBlocks())
	for _, w := range a.Weights() {
		if w.Layer < 0 {
			continue
		}
		of := &ofBlock[w.Layer]
		of.kind += fmt.Sprintf(" %s on %d,", w.Kind, placeOf(l, w.Layer, w.Kind))
		if n := float64(w.NumElements()); w.Role == arch.ExpertMatrices {
			of.size += n / float64(w.Shape[2]) * float64(w.Used)
		} else {
			of.size += n
		}
	}
	for _, p := range params {
		if p.weight.Layer >= 0 {
			of := &ofBlock[p.weight.Layer]
			of.kind, of.isTrained = of.kind+fmt.Sprintf(" %s trained %v,", p.weight.Kind, p.Shape()), true
		}
	}
	list, back := make([]probedLayer, len(a.Layers())), false
	for i, layer := range a.Layers() {
		list[i] = ofBlock[a.Blocks()[i]]
		back = back || list[i].isTrained
		list[i].hasBack = back
		list[i].kind += fmt.Sprintf(" back %v, %#v", back, layer)
	}
	return list
}

// mostSampled is the maximum number of layers in a sample. Times of further kinds are scaled from
// these by size.
const mostSampled = 6

// sampleOf chooses a layer of each kind: trained kinds first, then the most frequent ones. It adds a
// second layer of the kind of the first trained layer in the sample, because the end of that layer's
// backward pass is not observable.
func sampleOf(layers []probedLayer) []int {
	kinds := map[string][]int{}
	for i, l := range layers {
		kinds[l.kind] = append(kinds[l.kind], i)
	}
	sample, first := []int(nil), len(layers)
	for _, of := range slices.SortedFunc(maps.Values(kinds), func(a, b []int) int {
		if x, y := layers[a[0]].isTrained, layers[b[0]].isTrained; x != y {
			return map[bool]int{true: -1, false: 1}[x]
		}
		return cmp.Or(cmp.Compare(len(b), len(a)), cmp.Compare(a[0], b[0]))
	}) {
		i := of[len(of)/2]
		if len(sample) == mostSampled-1 {
			break
		}
		if sample = append(sample, i); layers[i].isTrained {
			first = min(first, i)
		}
	}
	if first < len(layers) {
		if of := kinds[layers[first].kind]; len(of) > 1 {
			sample = append(sample, of[0])
		}
	}
	slices.Sort(sample)
	return sample
}

// most returns the layers and rows whose steps can be measured in the remaining time, judged by the
// given steps.
func (b *probe) most(few *measuredSteps, left time.Duration) (layers []int, rows int) {
	fits := func(batch time.Duration) bool { return 2.2*float64(batch) <= float64(left) } // the first step takes longer
	all := make([]int, len(b.layers))
	for i := range all {
		all[i] = i
	}
	isThere := b.Layout.IsCPU() || len(b.sample) == len(all)
	switch n := time.Duration(b.batch); {
	case isThere && fits(n*few.whole()):
		return all, b.batch
	case fits(n * few.took):
		return b.sample, b.batch
	}
	return b.sample, 1
}

// measure measures steps of some layers and rows, after a warm-up step, until ctx ends. If ctx ends
// early, the only result may be the warm-up step.
func (b *probe) measure(ctx context.Context, layers []int, rows, steps int) (*measuredSteps, error) {
	m := &measuredSteps{of: b.layers, layers: layers, rows: rows, inLayers: map[int]layerTime{}}
	passed := layerTimes{}
	o := b.Options
	o.Batch, o.Accumulate, o.Epochs, o.Schedule.Steps, o.DataOrigin, o.Convergence = rows, 1, 0, 1<<20, nil, Convergence{}
	o.twoPasses = !b.Options.takesOnePass()
	o.layers, o.Keep = layers, o.Keep/int64(len(b.layers))*int64(len(layers))
	if len(layers) < len(b.layers) {
		o.layerHook = passed.at
	}
	t, err := New(b.Model, b.Trained, b.Data, o)
	if err != nil {
		return nil, err
	}
	defer t.Close()
	if t.scores != nil {
		m.unseen = 1 // for the log-probabilities
	}
	for i := range 1 + steps {
		began := time.Now()
		s, err := t.Step(ctx)
		took := time.Since(began)
		switch {
		case ctx.Err() != nil:
			return m, nil
		case err != nil:
			return nil, err
		case i == 1:
			m.warm()
		}
		m.add(took, s.RowTokens, passed)
	}
	return m, nil
}

// secondsOfStep returns the time of a step of the run, extrapolated from measured steps.
func (b *probe) secondsOfStep(m *measuredSteps) float64 {
	rows := b.Options.perStep()
	if e := b.Options.Epochs; e > 0 {
		rows = min(rows, e*b.Data.Len())
	}
	tokens := float64(b.Data.NumTokens()) / float64(b.Data.Len()) * float64(rows)
	return m.whole().Seconds() / float64(m.tokens) * tokens
}

// layerTimes holds the times at which a step enters and leaves its layers.
type layerTimes map[int]*[arch.LeavesBack + 1]time.Time

func (p layerTimes) at(layer int, at arch.LayerEvent) {
	if p[layer] == nil {
		p[layer] = &[arch.LeavesBack + 1]time.Time{}
	}
	p[layer][at] = time.Now()
}

// measuredSteps are measured steps of some layers of a model.
type measuredSteps struct {
	of     []probedLayer // all layers of the model
	layers []int         // indices of the computed layers
	rows   int           // rows per batch; a step is one batch
	unseen int           // forward passes of a step that call no hook
	isWarm bool          // the warm-up step is excluded

	steps, tokens int
	took          time.Duration
	inLayers      map[int]layerTime
}

// A layerTime is the total time of a layer.
type layerTime struct{ forward, back time.Duration }

// warm drops the warm-up step.
func (m *measuredSteps) warm() {
	m.isWarm, m.steps, m.tokens, m.took = true, 0, 0, 0
	clear(m.inLayers)
}

// add adds a step. It omits the layer whose backward pass has no observed end.
func (m *measuredSteps) add(took time.Duration, tokens int, passed layerTimes) {
	m.steps, m.tokens, m.took = m.steps+1, m.tokens+tokens, m.took+took
	for layer, at := range passed {
		forward, back := time.Duration(1+m.unseen)*at[arch.Leaves].Sub(at[arch.Enters]), time.Duration(0)
		if !at[arch.EntersBack].IsZero() {
			if at[arch.LeavesBack].IsZero() {
				continue
			}
			back = at[arch.LeavesBack].Sub(at[arch.EntersBack])
		}
		took := m.inLayers[layer]
		m.inLayers[layer] = layerTime{took.forward + forward, took.back + back}
	}
}

// whole extrapolates the time of the steps to all layers.
func (m *measuredSteps) whole() time.Duration {
	whole := m.took
	for i := range m.of {
		_, passed := m.inLayers[i] // measured by the hook of another layer
		if !passed && !slices.Contains(m.layers, i) {
			whole += m.timeOf(i)
		}
	}
	return whole
}

// timeOf estimates the time of an unmeasured layer over all steps: the mean of its kind or, if its
// kind was not measured, by its size, including the backward pass only if it has one.
func (m *measuredSteps) timeOf(layer int) time.Duration {
	var same, all, size float64
	n := 0
	for i, took := range m.inLayers {
		if m.of[i].kind == m.of[layer].kind {
			same, n = same+float64(took.forward+took.back), n+1
		}
		if !m.of[layer].hasBack {
			took.back = 0
		}
		all, size = all+float64(took.forward+took.back), size+m.of[i].size
	}
	if n > 0 {
		return time.Duration(same / float64(n))
	}
	return time.Duration(all / size * m.of[layer].size)
}
