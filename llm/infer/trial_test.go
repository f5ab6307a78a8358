package infer_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/nn"
	"github.com/goggml/ggml/internal/state"
	"github.com/goggml/ggml/internal/test/llmtest"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/refmath"
	"github.com/goggml/ggml/llm/arch"
	"github.com/goggml/ggml/llm/data"
	"github.com/goggml/ggml/llm/device"
	"github.com/goggml/ggml/llm/infer"
	"github.com/goggml/ggml/llm/lora"
	"github.com/goggml/ggml/llm/lossgraph"
	"github.com/goggml/ggml/llm/model"
	"github.com/goggml/ggml/llm/train"
)

// This file tries an architecture that no row of the table has: a part with two kinds of states, one of which can
// be restored only at some positions, parallel to attention in one residual; and layers of different widths. No
// other file has code for it.

// A runningMean computes y_n = M · mean(conv(x)_0 … conv(x)_n), with a causal convolution.
type runningMean struct{}

const taps = 3 // width of the convolution

func (runningMean) Forward(p arch.Place, t *nn.Tape, x *nn.Value) *nn.Value {
	width := x.T.Dim(0)
	kernel := p.Weight(arch.Weight{Kind: "mean_conv", Shape: []int64{taps, width}, Role: arch.Kernel, Init: average})
	m := p.Matrix("mean", width, width, arch.MatrixOptions{
		Residual: true, Rows: []arch.Rows{{Name: "mean", Module: fmt.Sprintf("layers.%d.mean", p.Layer), Count: width}},
	})
	if p.State(0) != nil {
		before, now := p.State(0).(*state.Recent).Before(t, p.Pass, x)
		x = t.ConvolveAfter(before, now, nn.Convolution{Kernel: kernel, Step: 1})
		return t.Linear(p.Kept(t, meanOfSequence(t, p.State(1).(*state.Recurrent), p.Pass, x.T)), m)[0]
	}
	return t.Linear(meanOfSample(t, t.ShortConv(x, nn.Convolution{Kernel: kernel, Step: 1})), m)[0]
}

// average initialises a convolution with equal taps.
func average(_ *rand.Rand, kernel []float32) {
	for i := range kernel {
		kernel[i] = 1. / taps
	}
}

func (runningMean) NewStates(o state.Options) ([]state.State, error) {
	width := llmtest.TinyConfig(false).Embd
	recent, err := state.NewRecent(o, width, taps-1)
	if err != nil {
		return nil, err
	}
	sums, err := state.NewRecurrent(o, width, 8)
	return []state.State{recent, sums}, err
}

// meanOfSample returns the running mean of x [m, n] within each token's sample.
func meanOfSample(t *nn.Tape, x *nn.Value) *nn.Value {
	c, n := t.C, x.T.Dim(1)
	shares := nn.Declare(t.Inputs, "shares of means", ggml.F32, []int64{n, n}, func(f *nn.Feed, values []float32) {
		for i, pos := range f.Positions {
			for j := range int(pos) + 1 {
				values[i*int(n)+i-j] = 1 / float32(pos+1)
			}
		}
	})
	columns := func(x *ggml.Tensor) *ggml.Tensor { return c.Cont(c.Transpose(x)) }
	return t.Op(c.MulMat(columns(x.T), shares), func(dy *ggml.Tensor) []*ggml.Tensor {
		return []*ggml.Tensor{c.MulMat(columns(dy), columns(shares))}
	}, x)
}

// meanOfSequence returns the running mean of x [m, n·slots]; the state keeps the sum of the earlier vectors.
func meanOfSequence(t *nn.Tape, sums *state.Recurrent, p state.Pass, x *ggml.Tensor) *nn.Value {
	c, m, n := t.C, x.Dim(0), x.Dim(1)/p.Slots
	shares := nn.Declare(t.Inputs, "shares of tokens", ggml.F32, []int64{n, n, p.Slots}, func(f *nn.Feed, values []float32) {
		for i, pos := range f.Positions {
			for j := range i%int(n) + 1 {
				values[i*int(n)+j] = 1 / float32(pos+1)
			}
		}
	})
	before := nn.Declare(t.Inputs, "shares of what was before", ggml.F32, []int64{1, n, p.Slots}, func(f *nn.Feed, values []float32) {
		for i, pos := range f.Positions {
			values[i] = 1 / float32(pos+1)
		}
	})
	own := c.Cont(c.Transpose(c.Reshape(x, m, n, p.Slots))) // [n, m, slots]
	old := c.Reshape(sums.Before(t, p), m, 1, p.Slots)
	sums.Write(t, p, c.Reshape(c.Add(old, c.Reshape(c.SumRows(own), m, 1, p.Slots)), m, p.Slots))
	y := c.Add(c.MulMat(own, shares), c.Mul(c.Repeat(old, m, n, p.Slots), before)) // [m, n, slots]
	return nn.Input(c.Reshape(y, m, n*p.Slots))
}

// trialModel returns a model of three layers: attention and a narrow feed-forward network; attention parallel to a
// running mean; attention with fewer heads and a wide network.
func trialModel(t *testing.T) *model.Model {
	t.Helper()
	c := llmtest.TinyConfig(false)
	c.Arch, c.RoPE.Mode = "qwen2", ggml.RoPENeoX
	usual := need.Value(arch.Resolve(c))(t)
	layers := make([]arch.Layer, 3)
	for i := range layers {
		layers[i] = slices.Clone(usual.Layers()[0])
		network := layers[i][1].Part.(arch.FeedForward)
		network.Width = 32 * (i + 1)
		layers[i][1].Part = network
	}
	layers[1][0] = arch.Residual{Part: arch.Parallel{{Before: "mean_norm", Part: runningMean{}}, layers[1][0]}}
	attention := layers[2][0].Part.(arch.Attention)
	attention.Heads, attention.KVHeads = 2, 1
	layers[2][0].Part = attention
	a := need.Value(arch.New(c, layers))(t)
	m := need.Value(model.NewOf(a, nil, 3))(t)
	t.Cleanup(func() { m.Close() })
	kernel := need.Value(ggml.Read[float32](m.Weight("blk.1.mean_conv.weight")))(t)
	require.InDeltaSlice(t, slices.Repeat([]float32{1. / taps}, len(kernel)), kernel, 0)
	llmtest.RandomMatrices(t, m)
	require.Equal(t, []string{"attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down", "mean"}, a.Linears())
	require.Equal(t, []int64{64, 96}, a.Weight("blk.2.ffn_up.weight").Shape)
	require.Equal(t, []int64{32, 64}, a.Weight("blk.2.attn_output.weight").Shape)
	return m
}

// Sessions agree with the graph of a whole sequence, in passes of any length, and with a second
// sequence.
func TestTrialDecodes(t *testing.T) {
	m := trialModel(t)
	tokens := llmtest.RandomTokens(3, 24, m.Config().Vocab)
	l := need.Value(lossgraph.New(m, llmtest.NewEngine(t), lossgraph.Options{Length: len(tokens), Batch: 1}))(t)
	defer l.Close()
	targets := llmtest.RandomTokens(4, len(tokens), m.Config().Vocab)
	losses := need.Value(l.Compute(context.Background(), lossgraph.Batch{Tokens: tokens, Targets: targets}))(t)
	requireLosses := func(logits [][]float32, from int) {
		t.Helper()
		for i, z := range logits {
			sum := 0.0
			for _, x := range z {
				sum += math.Exp(float64(x))
			}
			require.InDelta(t, losses[from+i], math.Log(sum)-float64(z[targets[from+i]]), 1e-4, "token %d", from+i)
		}
	}
	s := need.Value(infer.NewSession(m, infer.SessionOptions{Context: 32, Sequences: 2, Threads: 2, Batch: 7}))(t)
	defer s.Close()
	q := need.Value(s.NewSequence())(t)
	whole := need.Value(q.DecodeAll(context.Background(), tokens))(t)
	requireLosses(whole, 0)

	// After a rewind the logits are the same; tokens are recomputed from the last snapshot.
	rewind(t, q, 22)
	require.Equal(t, 21, q.Computed()) // the end of the third pass of 7 tokens
	for i := 22; i < len(tokens); i++ {
		logits := need.Value(q.Decode(context.Background(), tokens[i:i+1]))(t)
		requireLosses([][]float32{logits}, i)
	}
	rewind(t, q, 20)
	require.Equal(t, 14, q.Computed()) // an earlier snapshot
	logits, cached, err := q.Prefill(context.Background(), tokens[:12])
	require.NoError(t, err)
	require.Equal(t, 7, cached)
	requireLosses([][]float32{logits}, 11)

	// A second sequence reuses the first one's beginning up to a snapshot.
	other := need.Value(s.NewSequence())(t)
	logits, cached, err = other.Prefill(context.Background(), tokens[:11])
	require.NoError(t, err)
	require.Equal(t, 7, cached)
	requireLosses([][]float32{logits}, 10)
	for i := range 8 {
		both := []infer.StepInput{{Sequence: q, Token: tokens[12+i]}, {Sequence: other, Token: tokens[11+i]}}
		require.NoError(t, s.Step(context.Background(), both))
		requireLosses([][]float32{both[0].Logits}, 12+i)
		requireLosses([][]float32{both[1].Logits}, 11+i)
	}

	// A failed pass leaves the sequence unchanged.
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err = q.Decode(ctx, tokens[20:21])
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, 20, q.Len())
	logits = need.Value(q.Decode(context.Background(), tokens[20:21]))(t)
	requireLosses([][]float32{logits}, 20)
}

// Texts embedded together have the same vectors as alone, also in slots that other texts used.
func TestTrialEmbeds(t *testing.T) {
	m := trialModel(t)
	ctx, o := context.Background(), infer.EmbedOptions{Pooling: infer.PoolMean}
	var texts [][]int32
	for i, length := range []int{9, 2, 21, 5, 13} {
		texts = append(texts, llmtest.RandomTokens(uint64(i), length, m.Config().Vocab))
	}
	got := need.Value(newSession(t, m, infer.SessionOptions{Sequences: 2, Batch: 8}).Embed(ctx, texts, o))(t)
	for i, text := range texts {
		alone := need.Value(newSession(t, m, infer.SessionOptions{}).Embed(ctx, [][]int32{text}, o))(t)
		require.Less(t, refmath.NMSE(got[i], alone[0]), 1e-10, i)
	}
}

// The gradients of adapters equal the slopes of the loss, with both op sets, recomputed layers, and
// several samples packed in a row.
func TestTrialGradients(t *testing.T) {
	need.Time(t, "many gradients")
	m := trialModel(t)
	for _, lowering := range []device.OpSet{device.Kernels, device.Stock} {
		e := need.Value(device.New(device.Options{Threads: 2, OpSet: lowering}))(t)
		defer e.Close()
		s := llmtest.NewLoRASetup(t, m, 3, 0.5)
		batch := llmtest.NewBatch(m.Config().Vocab, 12)
		batch.Starts = make([]int32, 24)
		for i := 5; i < 12; i++ {
			batch.Starts[i] = 5
		}
		var losses []float64
		for _, checkpoint := range []bool{false, true} {
			l := s.NewGraph(t, e, lossgraph.Options{Length: 12, Batch: 2, Packed: true, Checkpoint: checkpoint, FeedForwardChunk: 5})
			losses = append(losses, s.ComputeGraph(t, l, batch))
			for x, acc := range s.Trained() {
				requireSlope(t, s, l, batch, x, acc)
			}
		}
		require.InEpsilon(t, losses[0], losses[1], 1e-5)
	}
}

// requireSlope compares a gradient with the slope of the loss along it.
func requireSlope(t *testing.T, s *llmtest.LoRASetup, l *lossgraph.Graph, b lossgraph.Batch, x, acc *ggml.Tensor) {
	t.Helper()
	grad := need.Value(ggml.Read[float32](acc))(t)
	old := need.Value(ggml.Read[float32](x))(t)
	var square float64
	for _, g := range grad {
		square += float64(g) * float64(g)
	}
	require.NotZero(t, square, x.Name())
	const h = 0.02
	at := func(step float64) float64 {
		moved := slices.Clone(old)
		for i, g := range grad {
			moved[i] += float32(step * float64(g) / math.Sqrt(square))
		}
		require.NoError(t, ggml.Write(x, moved))
		return s.ComputeGraph(t, l, b)
	}
	slope := (at(h) - at(-h)) / (2 * h)
	require.InDelta(t, math.Sqrt(square), slope, 0.01*math.Sqrt(square)+1e-4, x.Name())
	require.NoError(t, ggml.Write(x, old))
	s.ComputeGraph(t, l, b)
}

// A run lowers the loss, and a run resumed from a checkpoint gives the same result.
func TestTrialTrains(t *testing.T) {
	m := trialModel(t)
	path := filepath.Join(t.TempDir(), "checkpoint.gguf")
	newTrainer := func() *train.Trainer {
		a := need.Value(lora.New(m, lora.Options{Rank: 4, Alpha: 8, Seed: 1}))(t)
		t.Cleanup(func() { a.Close() })
		require.NotNil(t, a.WithScale(1)["blk.1.mean.weight"])
		samples := make([]data.Sample, 8)
		for i := range samples {
			samples[i] = data.Sample{Tokens: llmtest.RandomTokens(uint64(i), 17, m.Config().Vocab)}
		}
		tr := need.Value(train.New(m, train.Trainables{Adapters: a.WithScale(1)}, data.New(16, samples), train.Options{
			Batch: 4, Accumulate: 1, Threads: 2, Schedule: train.Schedule{Peak: 0.02, Steps: 12}, AdamW: train.DefaultAdamW(), Checkpointing: train.CheckpointingOn,
		}))(t)
		t.Cleanup(func() { tr.Close() })
		return tr
	}
	run := func(tr *train.Trainer, steps int) (losses []float64) {
		for range steps {
			step := need.Value(tr.Step(context.Background()))(t)
			losses = append(losses, step.Loss)
		}
		return losses
	}
	whole := run(newTrainer(), 12)
	require.Less(t, whole[11], whole[0]-0.1)
	first := newTrainer()
	require.Equal(t, whole[:5], run(first, 5))
	require.NoError(t, first.SaveCheckpoint(path))
	second := newTrainer()
	require.NoError(t, second.LoadCheckpoint(path))
	require.Equal(t, whole[5:], run(second, 7))
}
