package infer

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/llmtest"
	"github.com/goggml/ggml/internal/refmath"
	"github.com/goggml/ggml/kernels"
	"github.com/goggml/ggml/llm/model"
	"github.com/goggml/ggml/llm/nn"
)

// What adapters add to products is as exact as F32, whatever type the matrices have and
// however they are multiplied. It is measured by itself, as the difference that adapters
// make: the rounding of the base would hide it.
func TestAdapterProductsAreExact(t *testing.T) {
	c := llmtest.LargeBlockConfig(false)
	groups := [][]string{{"blk.0.attn_q.weight", "blk.0.attn_k.weight", "blk.0.attn_v.weight"}, {"blk.1.ffn_down.weight"}, {"output.weight"}}
	for _, typ := range []ggml.Type{ggml.F32, ggml.F16, ggml.BF16, ggml.Q8_0, ggml.Q4_0, ggml.Q4_K} {
		s := llmtest.NewLoRASetup(t, llmtest.TinyModel(t, c, typ), 8, 0.75)
		for _, repack := range []bool{false, true} {
			m, err := model.Load(s.Model.Path, model.LoadOptions{Repack: repack})
			require.NoError(t, err)
			defer m.Close()
			for _, tokens := range []int64{1, 2, 7, 96} {
				for _, group := range groups {
					name := fmt.Sprintf("%v, repacked %v, %d tokens, %s", typ, repack, tokens, group[0])
					x := randomInput(m.Weight(group[0]).Dim(0), tokens)
					with, without := products(t, m, s.Adapters, x, group), products(t, m, nil, x, group)
					for i, matrix := range group {
						for j := range with[i] {
							with[i][j] -= without[i][j]
						}
						want := lowRankChange(t, s.Adapters[matrix][0], x)
						require.Less(t, refmath.NMSE(with[i], want), 1e-11, name)
					}
				}
			}
		}
	}
}

func randomInput(width, tokens int64) []float32 {
	rng := rand.New(rand.NewPCG(1, 2))
	x := make([]float32, width*tokens)
	for i := range x {
		x[i] = float32(rng.NormFloat64())
	}
	return x
}

// products are those of matrices with x, with their adapters.
func products(t *testing.T, m *model.Model, adapters model.Adapters, x []float32, group []string) [][]float32 {
	t.Helper()
	fused, err := fuseAdapters(m, adapters)
	require.NoError(t, err)
	defer fused.close()
	lowering, err := nn.CPU(kernels.FastestType())
	require.NoError(t, err)
	c := ggml.NewContext()
	defer c.Close()
	var matrices []nn.Matrix
	for _, name := range group {
		matrices = append(matrices, nn.Matrix{Name: name, W: m.Weight(name)})
	}
	width := matrices[0].W.Dim(0)
	in := c.NewTensor(ggml.F32, width, int64(len(x))/width).SetInput()
	tape := &nn.Tape{C: c, Graph: c.NewGraph(), Lowering: lowering}
	var results []*ggml.Tensor
	for _, y := range newCPUProducts(m, fused).Linear(tape, nn.Input(in), matrices...) {
		results = append(results, c.Cont(y.T).SetOutput())
	}
	tape.Graph.Expand(results...)
	e := llmtest.NewEngine(t)
	require.NoError(t, e.Allocate(tape.Graph))
	require.NoError(t, ggml.Write(in, x))
	require.NoError(t, e.Compute(context.Background(), tape.Graph))
	var list [][]float32
	for _, y := range results {
		values, err := y.Float32s()
		require.NoError(t, err)
		list = append(list, values)
	}
	return list
}

// lowRankChange is s·B·A·x in float64.
func lowRankChange(t *testing.T, p model.LoRAPair, x []float32) []float64 {
	t.Helper()
	a, err := p.A.Float32s()
	require.NoError(t, err)
	b, err := p.B.Float32s()
	require.NoError(t, err)
	in, rank := int(p.A.Dim(0)), int(p.B.Dim(0))
	var y []float64
	for ; len(x) > 0; x = x[in:] {
		h := make([]float64, rank)
		for i := range h {
			for j, v := range x[:in] {
				h[i] += float64(p.Scale) * float64(a[i*in+j]) * float64(v)
			}
		}
		for row := 0; row < len(b); row += rank {
			sum := 0.0
			for i, v := range h {
				sum += float64(b[row+i]) * v
			}
			y = append(y, sum)
		}
	}
	return y
}
