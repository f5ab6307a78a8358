package lossgraph_test

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/nn"
	"github.com/goggml/ggml/internal/test/llmtest"
	"github.com/goggml/ggml/internal/test/refmath"
	"github.com/goggml/ggml/llm/arch"
	"github.com/goggml/ggml/llm/lossgraph"
	"github.com/goggml/ggml/llm/model"
)

// The gradients that the graph of each architecture has in float64 are the central
// differences of its loss, which are exact to nine digits, for each weight and each matrix
// of adapters.
func TestExactGradients(t *testing.T) {
	forEachArchitecture(t, []ggml.Type{ggml.F32}, func(t *testing.T, m *model.Model) {
		s := llmtest.NewLoRASetup(t, m, 3, 0.75)
		batch := llmtest.NewBatch(m.Config().Vocab, archLength)
		o := lossgraph.Options{Length: archLength, Adapters: s.Adapters, Grads: s.Trained()}
		maps.Copy(o.Grads, llmtest.ZeroGrads(t, m))
		_, grads := llmtest.ExactGradients(t, m, batch, o, llmtest.SmoothGELU)
		o.Grads = nil
		llmtest.RequireSlopes(t, llmtest.ExactLoss(t, m, batch, o), batch, grads, 1e-7, 1e-7)
	})
}

// A spoiling makes the result of an op wrong.
type spoiling func(of *nn.Lowering) *nn.Lowering

// spoil spoils what a function changes of the result of an op.
func spoil[In, Out any](op *nn.Op[In, Out], change func(wrong func(**ggml.Tensor), out *Out)) spoiling {
	return func(of *nn.Lowering) *nn.Lowering {
		return of.With(op.By(func(t *nn.Tape, in In) Out {
			out := op.Build(t.By(of), in)
			change(func(x **ggml.Tensor) { *x = t.C.Scale(*x, 1.001) }, &out)
			return out
		}))
	}
}

// spoilOperand spoils what a function changes of the operands of an op.
func spoilOperand[In, Out any](op *nn.Op[In, Out], change func(wrong func(**ggml.Tensor), in *In)) spoiling {
	return func(of *nn.Lowering) *nn.Lowering {
		return of.With(op.By(func(t *nn.Tape, in In) Out {
			change(func(x **ggml.Tensor) { *x = t.C.Scale(*x, 1.001) }, &in)
			return op.Build(t.By(of), in)
		}))
	}
}

// spoilResult spoils the result of an op with gradients, and spoilGrads what a function changes of these.
func spoilResult[In, Grads any](op *nn.Op[In, nn.Result[Grads]]) spoiling {
	return spoil(op, func(wrong func(**ggml.Tensor), out *nn.Result[Grads]) { wrong(&out.Y) })
}

func spoilGrads[In, Grads any](op *nn.Op[In, nn.Result[Grads]], change func(wrong func(**ggml.Tensor), d *Grads)) spoiling {
	return spoil(op, func(wrong func(**ggml.Tensor), out *nn.Result[Grads]) {
		right := out.Grad
		out.Grad = func(dy *ggml.Tensor) Grads {
			d := right(dy)
			change(wrong, &d)
			return d
		}
	})
}

// spoilGrad spoils the only result, or gradient of an operand, that there is.
func spoilGrad(wrong func(**ggml.Tensor), d **ggml.Tensor) { wrong(d) }

// spoilings are possible errors of ops, by name.
var spoilings = map[string][]spoiling{
	"Linear": {spoil(nn.Linear, func(wrong func(**ggml.Tensor), ys *[]*nn.Value) {
		for _, y := range *ys {
			wrong(&y.T)
		}
	})},
	"RoPE":       {spoilResult(nn.RoPE), spoilGrads(nn.RoPE, spoilGrad)},
	"ScatterAdd": {spoil(nn.ScatterAdd, spoilGrad)},
	"SumColumns": {spoil(nn.SumColumns, spoilGrad)},
	"CrossEntropy": {spoil(nn.CrossEntropy, func(wrong func(**ggml.Tensor), out *nn.Losses) {
		right := out.Grad
		out.Grad = func() *ggml.Tensor {
			d := right()
			wrong(&d)
			return d
		}
	})},
	"MatMul":                 {spoil(nn.MatMul, spoilGrad)},
	"MatMulGradInput":        {spoil(nn.MatMulGradInput, spoilGrad)},
	"AccumulateGradWeight":   {spoilOperand(nn.AccumulateGradWeight, func(wrong func(**ggml.Tensor), g *nn.GradOperands) { wrong(&g.Dy) })},
	"OuterProducts":          {spoil(nn.OuterProducts, spoilGrad)},
	"MulTransposed":          {spoil(nn.MulTransposed, spoilGrad)},
	"SoftMaxGrad":            {spoil(nn.SoftMaxGrad, spoilGrad)},
	"MatMulID":               {spoil(nn.MatMulID, spoilGrad)},
	"MatMulIDGradInput":      {spoil(nn.MatMulIDGradInput, spoilGrad)},
	"AccumulateGradWeightID": {spoilOperand(nn.AccumulateGradWeightID, func(wrong func(**ggml.Tensor), g *nn.GradIDOperands) { wrong(&g.Dy) })},
	"Normalization":          {spoilResult(nn.Normalization), spoilGrads(nn.Normalization, spoilGrad)},
	"AddNorm": {
		spoil(nn.AddNorm, func(wrong func(**ggml.Tensor), out *nn.AddNormed) { wrong(&out.Sum) }),
		spoil(nn.AddNorm, func(wrong func(**ggml.Tensor), out *nn.AddNormed) { wrong(&out.Y) }),
		spoil(nn.AddNorm, func(wrong func(**ggml.Tensor), out *nn.AddNormed) {
			right := out.Grad
			out.Grad = func(dSum, dy *ggml.Tensor) *ggml.Tensor {
				d := right(dSum, dy)
				wrong(&d)
				return d
			}
		}),
	},
	"Router": {spoil(nn.Router, func(wrong func(**ggml.Tensor), out *nn.Routed) { wrong(&out.Weights.T) })},
	"GLU": {
		spoilResult(nn.GLU),
		spoilGrads(nn.GLU, func(wrong func(**ggml.Tensor), d *nn.GLUGrads) { wrong(&d.Gate) }),
		spoilGrads(nn.GLU, func(wrong func(**ggml.Tensor), d *nn.GLUGrads) { wrong(&d.Up) }),
	},
	"Attention": {
		spoilResult(nn.Attention),
		spoilGrads(nn.Attention, func(wrong func(**ggml.Tensor), d *nn.AttentionGrads) { wrong(&d.Q) }),
		spoilGrads(nn.Attention, func(wrong func(**ggml.Tensor), d *nn.AttentionGrads) { wrong(&d.K) }),
		spoilGrads(nn.Attention, func(wrong func(**ggml.Tensor), d *nn.AttentionGrads) { wrong(&d.V) }),
		spoilGrads(nn.Attention, func(wrong func(**ggml.Tensor), d *nn.AttentionGrads) { wrong(&d.Sinks) }),
	},
}

// ofPlain are ops that implement the fallbacks of others. elsewhere are the ops that compute no part of a gradient
// of weights: ops of other architectures, sessions, adapters, distillation and the optimiser.
var (
	ofPlain   = []string{"OuterProducts", "MulTransposed", "SoftMaxGrad"}
	elsewhere = []string{"CachedAttention", "Divergence", "GatedDelta", "ShortConv", "GatedDeltaStep", "IndexScores", "LightningAttention", "LightningStep", "RWKV6Step", "RWKV7Step", "SelectiveScanStep", "Sinkhorn", "FrozenCopies", "Cast", "CastLowRank", "SumSquares", "GateStep", "AdamWStep"}
)

// Each op has its spoilings.
func TestOpsHaveSpoilings(t *testing.T) {
	files, err := filepath.Glob("../../internal/nn/*.go")
	require.NoError(t, err)
	var ops []string
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, found := range regexp.MustCompile(`(?m)^(?:var )?\s*(\w+) += &Op\[`).FindAllSubmatch(text, -1) {
			ops = append(ops, string(found[1]))
		}
	}
	require.ElementsMatch(t, ops, append(slices.Collect(maps.Keys(spoilings)), elsewhere...))
}

// The gradients reveal an error of a thousandth in any op of either lowering.
func TestOracleFindsWrongGradients(t *testing.T) {
	m := llmtest.ArchModel(t, "mimo2", ggml.F32) // with sinks and experts
	batch := llmtest.NewBatch(m.Config().Vocab, archLength)
	_, exact := llmtest.ExactGradients(t, m, batch, lossgraph.Options{Length: archLength, Grads: llmtest.ZeroGrads(t, m)}, llmtest.SmoothGELU)
	bound := tolerated(m).gradient
	cpu, err := nn.CPU(ggml.F32)
	require.NoError(t, err)
	stock, err := nn.StockTraining(ggml.F32, nil)
	require.NoError(t, err)
	for _, lowering := range []*nn.Lowering{cpu, stock} {
		require.Less(t, worstGradient(t, m, lowering, batch, exact), bound, lowering.Name)
		for op, list := range spoilings {
			if lowering == cpu && slices.Contains(ofPlain, op) {
				continue
			}
			for i, spoiled := range list {
				require.Greater(t, worstGradient(t, m, spoiled(lowering), batch, exact), bound, "result %d of %s by %s", i, op, lowering.Name)
			}
		}
	}
}

// worstGradient is the largest relative error of the gradients of all weights by a lowering.
func worstGradient(t *testing.T, m *model.Model, lowering *nn.Lowering, b lossgraph.Batch, exact map[*ggml.Tensor][]float64) (worst float64) {
	t.Helper()
	c := ggml.NewContext()
	defer c.Close()
	grads := llmtest.ZeroGrads(t, m)
	n := int64(len(b.Tokens))
	tape := &nn.Tape{C: c, Graph: c.NewGraph(), Lowering: lowering, Inputs: nn.NewInputs(c), Grads: grads}
	builder := &arch.Builder{
		Architecture: m.Architecture(), Source: m.Weight, Context: archLength,
		NumTokens: n, Rows: n / archLength,
	}
	tape.Loss(builder.Hidden(tape), nn.LossOptions{Chunk: n}, builder.Logits)
	tape.Backward()
	require.NoError(t, c.Err())
	backend, err := ggml.NewCPUBackend(2)
	require.NoError(t, err)
	defer backend.Close()
	buffers, err := c.Allocate(backend.BufferType())
	require.NoError(t, err)
	defer buffers.Close()
	feed := &nn.Feed{Rows: int(n / archLength), Tokens: b.Tokens, Starts: make([]int32, n), Targets: b.Targets, Weights: b.LossWeights}
	for i := range b.Tokens {
		feed.Positions = append(feed.Positions, int32(i%archLength))
	}
	require.NoError(t, tape.Inputs.Fill(feed))
	require.NoError(t, backend.Compute(context.Background(), tape.Graph))
	for w, want := range exact {
		worst = max(worst, refmath.RelativeError(readValues(t, grads[w]), want))
	}
	return worst
}
