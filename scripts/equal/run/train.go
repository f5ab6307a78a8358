package main

import (
	"context"
	"path/filepath"
	"strings"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/llm/data"
	"github.com/goggml/ggml/llm/lora"
	"github.com/goggml/ggml/llm/model"
	"github.com/goggml/ggml/llm/train"
)

// train trains adapters, first in packed rows with all noise and recomputed layers, then without any of it, and
// returns the first.
func (r *results) train(m *model.Model) *lora.Adapter {
	list := samples(1, 60, vocab(m))
	rows := data.New(length, list)
	packed := must(rows.Packed(1))
	noisy := train.Options{
		Batch: 2, Accumulate: 2, Dropout: 0.1, NEFTune: 5, Checkpointing: train.CheckpointingOn,
		LoRAPlus: 4, AdamW: train.DefaultAdamW(),
	}
	unclipped := train.DefaultAdamW() // clipping multiplies by a factor, whose rounding may differ between lowerings
	unclipped.Clip = 0
	plain := train.Options{
		Batch: 4, Accumulate: 1, GroupByLength: true, Checkpointing: train.CheckpointingOff, ComputeType: ggml.BF16,
		AdamW: unclipped,
	}
	adapter := r.trainAdapter(m, "noisy", packed, noisy)
	check(r.trainAdapter(m, "plain", rows, plain).Close())
	return adapter
}

func (r *results) options(o train.Options) train.Options {
	o.Schedule = train.Schedule{Peak: 0.01, Floor: 0.001, Warmup: 3, Steps: 2 * r.half}
	o.Seed, o.Engine = 3, r.engine
	return o
}

func (r *results) trainAdapter(m *model.Model, name string, d *data.Dataset, o train.Options) *lora.Adapter {
	o = r.options(o)
	adapter := newAdapter(m)
	trained := train.Trainables{Adapters: scaled(adapter, 1)}
	held := data.New(length, samples(2, 6, vocab(m)))
	estimate := estimateMemory(m, trained, d, o, held)
	r.tell(name+"/estimate", "optimizer %d, step %d, evaluations %d", size(estimate.Optimizer), size(estimate.Step), size(estimate.Evaluations))
	t := must(train.New(m, trained, d, o))
	defer t.Close()
	r.steps(t, r.half)
	check(t.SaveCheckpoint(r.file(name + "/checkpoint.gguf")))
	r.steps(t, r.half)
	r.history(name, t, 0)
	e := must(t.Evaluate(context.Background(), held))
	write(r, name+"/evaluation", []float64{e.Loss, e.Accuracy})
	r.tell(name+"/memory", "%d", size(t.Memory()))
	write(r, name+"/adapter", values(adapter))
	r.resumed(m, name, d, o)
	return adapter
}

// resumed continues from the checkpoint, which the other commit may have written.
func (r *results) resumed(m *model.Model, name string, d *data.Dataset, o train.Options) {
	adapter := newAdapter(m)
	defer adapter.Close()
	t := must(train.New(m, train.Trainables{Adapters: scaled(adapter, 1)}, d, o))
	defer t.Close()
	check(t.LoadCheckpoint(filepath.Join(r.resume, name, "checkpoint.gguf")))
	r.steps(t, r.half)
	r.history(name+"/resumed", t, r.half)
	write(r, name+"/resumed/adapter", values(adapter))
}

// size returns bytes of memory: a number, or the sum over devices.
func size(x any) int64 {
	if sizes, ok := x.(interface{ Total() int64 }); ok {
		return sizes.Total()
	}
	return x.(int64)
}

// weights trains all weights of a model that is not quantised.
func (r *results) weights() {
	m := load(r.path, loading{writable: true})
	defer m.Close()
	var trained []*ggml.Tensor
	for w := range m.Weights() {
		if w.Type() != ggml.F32 {
			return
		}
		if isTrainable(m.Architecture().Weight(w.Name())) {
			trained = append(trained, w)
		}
	}
	o := r.options(train.Options{Batch: 8, Accumulate: 1, Checkpointing: train.CheckpointingOn, AdamW: train.DefaultAdamW()})
	t := must(train.New(m, trainables(trained), must(data.New(length, samples(1, 60, vocab(m))).Packed(1)), o))
	defer t.Close()
	r.steps(t, 4)
	r.history("weights", t, 0)
	check(m.Save(r.file("weights/model.gguf"), model.SaveOptions{}))
}

func (r *results) steps(t *train.Trainer, n int) {
	for range n {
		must(t.Step(context.Background()))
	}
}

func (r *results) history(name string, t *train.Trainer, from int) {
	var losses, norms []float64
	for _, step := range t.History[from:] {
		losses, norms = append(losses, step.Loss), append(norms, step.GradNorm)
	}
	write(r, name+"/losses", losses)
	write(r, name+"/norms", norms)
}

func newAdapter(m *model.Model) *lora.Adapter {
	targets := []string{lora.AllLinear, "token_embd"}
	if w := m.Architecture().Weight("output.weight"); w != nil && w.IsAdaptable() {
		targets = append(targets, "output")
	}
	return must(lora.New(m, lora.Options{Rank: 8, Alpha: 16, Init: lora.InitKaiming, Seed: 5, Targets: targets}))
}

func values(a *lora.Adapter) (list []float32) {
	for _, p := range a.Pairs() {
		list = append(append(list, must(p.A.Float32s())...), must(p.B.Float32s())...)
	}
	return list
}

// files writes the adapter in each format.
func (r *results) files(m *model.Model, a *lora.Adapter) {
	check(a.Save(r.file("files/adapter-f16.gguf"), lora.SaveOptions{Type: ggml.F16}))
	if !r.kernels {
		return
	}
	peft := filepath.Dir(r.file("files/peft/adapter_config.json"))
	if err := a.SavePEFT(peft, lora.PEFTOptions{}); err != nil { // PEFT does not support some matrices
		r.tell("files/peft-refused", "%s", strings.ReplaceAll(err.Error(), peft, ""))
	}
	q4 := ggml.Q4_K
	for name, o := range map[string]lora.MergeOptions{"files/merged.gguf": {}, "files/merged-q4_K.gguf": {Type: &q4}} {
		o.Threads = threads
		check(lora.MergeTo(context.Background(), r.file(name), m, []lora.Scaled{{Adapter: a, Scale: 0.5}}, o))
	}
}
