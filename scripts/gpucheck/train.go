package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/gpucost"
	"github.com/goggml/ggml/internal/testhook"
	"github.com/goggml/ggml/llm/arch"
	"github.com/goggml/ggml/llm/data"
	"github.com/goggml/ggml/llm/device"
	"github.com/goggml/ggml/llm/layout"
	"github.com/goggml/ggml/llm/lora"
	"github.com/goggml/ggml/llm/model"
	"github.com/goggml/ggml/llm/train"
)

const rank = 8

// measureTraining measures steps with rows of each length.
func (o *options) measureTraining(ctx context.Context, d *ggml.Device, size, base string, emit func(row ...string)) error {
	path, err := o.file(size, base)
	if err != nil {
		return err
	}
	free := d.Properties().MemoryFree
	e, err := device.New(device.Options{Layout: layout.On(d)})
	if err != nil {
		return err
	}
	defer e.Close()
	m, err := model.Load(path, model.LoadOptions{Layout: e.Layout()})
	if err != nil {
		return err
	}
	defer m.Close()
	a, err := lora.New(m, lora.Options{Rank: rank, Alpha: 16, Init: lora.InitKaiming, Seed: 1})
	if err != nil {
		return err
	}
	defer a.Close()
	for _, length := range o.contexts {
		rows := max(1, o.tokens/length)
		s, err := o.steps(ctx, e, m, train.Trainables{Adapters: a.WithScale(1)}, length, rows)
		cells := []string{size, base, fmt.Sprintf("%d × %d", length, rows)}
		if err != nil {
			emit(append(cells, err.Error(), "", "", "", "")...)
			continue
		}
		rate := float64(length*rows) / s.seconds
		share, predicted := "", ""
		if o.bf16 > 0 {
			share = fmt.Sprintf("%.1f", 100*rate*m.Config().AdapterFLOPs(length)/o.bf16)
			predicted = fmt.Sprintf("%.0f", float64(length*rows)/o.predict(s.work))
		}
		emit(append(cells, fmt.Sprintf("%.0f", rate), share, predicted, fmt.Sprintf("%.1f", float64(free-s.free)/1e9), fmt.Sprintf("%.4f", s.loss))...)
	}
	return nil
}

// A measured is a measurement of steps.
type measured struct {
	seconds float64 // per step
	free    int64   // free bytes of the device afterwards
	loss    float64
	work    []gpucost.Work
}

// steps runs some steps on random tokens.
func (o *options) steps(ctx context.Context, e *device.Engine, m *model.Model, trained train.Trainables, length, rows int) (s measured, err error) {
	tr, err := train.New(m, trained, randomRows(m.Config().Vocab, length, rows), train.Options{
		Schedule: train.Schedule{Peak: 1e-4, Steps: 1 << 20}, AdamW: train.DefaultAdamW(), Batch: rows, Accumulate: 1, Seed: 1,
		Engine: e, ComputeType: o.computeType(e),
	})
	if err != nil {
		return s, err
	}
	defer tr.Close()
	testhook.Submitting = func(graphs ...any) { s.work = workOf(m.Config(), graphs) }
	defer func() { testhook.Submitting = nil }()
	var times []float64
	for begun := time.Now(); len(times) < 2 || len(times) < 8 && time.Since(begun) < 10*time.Second; {
		began := time.Now()
		metrics, err := tr.Step(ctx)
		if err != nil {
			return s, err
		}
		testhook.Submitting = nil
		times = append(times, time.Since(began).Seconds())
		s.loss = metrics.Loss
	}
	s.free = e.AvailableMemory()[0]
	slices.Sort(times[1:])
	s.seconds = times[1:][len(times[1:])/2]
	return s, nil
}

// computeType returns BF16 if the device supports it in products.
func (o *options) computeType(e *device.Engine) ggml.Type {
	if e.CheckComputeType(ggml.BF16) != nil {
		return ggml.F32
	}
	return ggml.BF16
}

func workOf(c arch.Config, graphs []any) []gpucost.Work {
	var list []*ggml.Graph
	for _, g := range graphs {
		list = append(list, g.(*ggml.Graph))
	}
	return gpucost.Of(gpucost.ShapeOf(c, rank), list...)
}

func randomRows(vocab, length, n int) *data.Dataset {
	rng := rand.New(rand.NewPCG(1, 1))
	var samples []data.Sample
	for range n {
		s := data.Sample{}
		for range length + 1 {
			s.Tokens = append(s.Tokens, int32(rng.IntN(vocab)))
		}
		samples = append(samples, s)
	}
	return data.New(length, samples)
}

// predict returns the time of a step at the measured limits of the card.
func (o *options) predict(work []gpucost.Work) float64 {
	card := gpucost.Card{BF16: o.bf16, TF32: o.bf16 / 2, Bandwidth: o.bandwidth, Launch: 3 * time.Microsecond, Gap: time.Microsecond}
	return card.Predict(work, len(work)).Seconds()
}
