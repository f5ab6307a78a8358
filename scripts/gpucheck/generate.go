package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/llm/device"
	"github.com/goggml/ggml/llm/infer"
	"github.com/goggml/ggml/llm/layout"
	"github.com/goggml/ggml/llm/model"
)

const promptTokens, newTokens = 512, 64

// measureGeneration measures prefill and decode, ours and then llama-bench's.
func (o *options) measureGeneration(ctx context.Context, size, base string, emit func(row ...string)) error {
	path, err := o.file(size, base)
	if err != nil {
		return err
	}
	d, err := o.gpu()
	if err != nil {
		return err
	}
	prefill, decode, err := ours(ctx, d, path)
	if err != nil {
		return err
	}
	stockPrefill, stockDecode, stockErr := o.llamaBench(ctx, d, path)
	for _, r := range []struct {
		what         string
		ours, theirs float64
	}{{"prefill", prefill, stockPrefill}, {"decode", decode, stockDecode}} {
		theirs, ratio := "–", ""
		if r.theirs > 0 {
			theirs, ratio = fmt.Sprintf("%.0f", r.theirs), fmt.Sprintf("%.2f", r.ours/r.theirs)
		}
		emit(size, base, r.what, fmt.Sprintf("%.0f", r.ours), theirs, ratio)
	}
	return stockErr
}

// ours returns tokens/s of a session.
func ours(ctx context.Context, d *ggml.Device, path string) (prefill, decode float64, err error) {
	e, err := device.New(device.Options{Layout: layout.On(d)})
	if err != nil {
		return 0, 0, err
	}
	defer e.Close()
	m, err := model.Load(path, model.LoadOptions{Layout: e.Layout()})
	if err != nil {
		return 0, 0, err
	}
	defer m.Close()
	s, err := infer.NewSession(m, infer.SessionOptions{Context: 1024, CacheType: ggml.F16, Engine: e})
	if err != nil {
		return 0, 0, err
	}
	defer s.Close()
	q, err := s.NewSequence()
	if err != nil {
		return 0, 0, err
	}
	rng, logits := rand.New(rand.NewPCG(1, 1)), make([]float32, m.Config().Vocab)
	tokens := make([]int32, promptTokens)
	for i := range tokens {
		tokens[i] = int32(rng.IntN(m.Config().Vocab))
	}
	var prefills, decodes []float64
	for range 4 {
		if _, err := q.Rewind(0); err != nil {
			return 0, 0, err
		}
		began := time.Now()
		if err := q.DecodeInto(ctx, logits, tokens); err != nil {
			return 0, 0, err
		}
		prefills = append(prefills, promptTokens/time.Since(began).Seconds())
		if _, err := q.Rewind(0); err != nil { // llama-bench also decodes from an empty context
			return 0, 0, err
		}
		began = time.Now()
		for _, token := range tokens[:newTokens] {
			if err := q.DecodeInto(ctx, logits, []int32{token}); err != nil {
				return 0, 0, err
			}
		}
		decodes = append(decodes, newTokens/time.Since(began).Seconds())
	}
	return slices.Max(prefills), slices.Max(decodes), nil
}
