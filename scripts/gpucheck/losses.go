package main

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/llm/data"
	"github.com/goggml/ggml/llm/device"
	"github.com/goggml/ggml/llm/layout"
	"github.com/goggml/ggml/llm/lora"
	"github.com/goggml/ggml/llm/model"
	"github.com/goggml/ggml/llm/train"
)

// measureLosses trains alike on the CPU and on each GPU.
func measureLosses(ctx context.Context, o *options, emit func(row ...string)) error {
	os.Setenv("NVIDIA_TF32_OVERRIDE", "0") // before a backend exists
	devices, err := gpus()
	if err != nil {
		return err
	}
	for _, base := range o.lossBases {
		path, err := o.file("tiny", base)
		if err != nil {
			return err
		}
		want, err := losses(ctx, nil, path)
		if err != nil {
			return err
		}
		for _, d := range devices {
			got, err := losses(ctx, d, path)
			if err != nil {
				emit(d.Name(), base, err.Error(), "", "")
				continue
			}
			most := 0.0
			for i := range want {
				most = max(most, math.Abs(got[i]-want[i]))
			}
			emit(d.Name(), base, fmt.Sprintf("%.4f", got[0]), fmt.Sprintf("%.4f", got[len(got)-1]), fmt.Sprintf("%.1e", most))
		}
	}
	return nil
}

const lossTokens = 16 // per row

// losses returns the losses of 50 steps on sequences in which each token determines the next.
func losses(ctx context.Context, d *ggml.Device, path string) ([]float64, error) {
	e, err := device.New(device.Options{Layout: layout.On(d)})
	if err != nil {
		return nil, err
	}
	defer e.Close()
	m, err := model.Load(path, model.LoadOptions{Layout: e.Layout()})
	if err != nil {
		return nil, err
	}
	defer m.Close()
	a, err := lora.New(m, lora.Options{Rank: rank, Alpha: 16, Init: lora.InitKaiming, Seed: 1})
	if err != nil {
		return nil, err
	}
	defer a.Close()
	rng, vocab := rand.New(rand.NewPCG(9, 9)), m.Config().Vocab
	next, rows := rng.Perm(vocab), []data.Sample(nil)
	for range 16 {
		s := data.Sample{Tokens: []int32{int32(rng.IntN(vocab))}}
		for range lossTokens {
			s.Tokens = append(s.Tokens, int32(next[s.Tokens[len(s.Tokens)-1]]))
		}
		rows = append(rows, s)
	}
	tr, err := train.New(m, train.Trainables{Adapters: a.WithScale(1)}, data.New(lossTokens, rows), train.Options{
		Schedule: train.Schedule{Peak: 0.003, Warmup: 5, Steps: 50}, AdamW: train.DefaultAdamW(), Batch: 2, Accumulate: 1, Seed: 3, Engine: e,
	})
	if err != nil {
		return nil, err
	}
	defer tr.Close()
	var list []float64
	for range 50 {
		metrics, err := tr.Step(ctx)
		if err != nil {
			return nil, err
		}
		list = append(list, metrics.Loss)
	}
	return list, nil
}
