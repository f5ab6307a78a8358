package fused_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/fused"
	"github.com/goggml/ggml/internal/nn"
	"github.com/goggml/ggml/internal/test/llmtest"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/refmath"
	"github.com/goggml/ggml/kernels"
	"github.com/goggml/ggml/llm/infer"
	"github.com/goggml/ggml/llm/model"
)

// The contribution of adapters to products is exact to F32, for any type of the matrices and any
// op. It is measured as the difference that adapters make: the rounding of the base would hide it.
func TestAdapterProductsAreExact(t *testing.T) {
	c := llmtest.LargeBlockConfig(false)
	groups := [][]string{{"blk.0.attn_q.weight", "blk.0.attn_k.weight", "blk.0.attn_v.weight"}, {"blk.1.ffn_down.weight"}, {"output.weight"}}
	for _, typ := range []ggml.Type{ggml.F32, ggml.F16, ggml.BF16, ggml.Q8_0, ggml.Q4_0, ggml.Q4_K} {
		s := llmtest.NewLoRASetup(t, llmtest.TinyModel(t, c, typ), 8, 0.75)
		for _, repack := range []bool{false, true} {
			m := need.Value(model.Load(s.Model.Path, model.LoadOptions{Repack: repack}))(t)
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

// products returns the products of matrices and their adapters with x.
func products(t *testing.T, m *model.Model, adapters model.Adapters, x []float32, group []string) [][]float32 {
	t.Helper()
	row, prepared, err := fused.Fuse(m.RepackedMatrices(), m.MatrixGroups(nil), nn.AdaptersOf(adapters), 0)
	require.NoError(t, err)
	defer prepared.Close()
	lowering := need.Value(nn.CPU(kernels.FastestType()))(t)
	c := ggml.NewContext()
	defer c.Close()
	var matrices []nn.Matrix
	for _, name := range group {
		matrices = append(matrices, nn.Matrix{Name: name, W: m.Weight(name)})
	}
	width := matrices[0].W.Dim(0)
	in := c.NewTensor(ggml.F32, width, int64(len(x))/width).SetInput()
	tape := &nn.Tape{C: c, Graph: c.NewGraph(), Lowering: lowering.With(row)}
	var results []*ggml.Tensor
	for _, y := range tape.Linear(nn.Input(in), matrices...) {
		results = append(results, c.Cont(y.T).SetOutput())
	}
	tape.Graph.Expand(results...)
	e := llmtest.NewEngine(t)
	require.NoError(t, e.Allocate(tape.Graph))
	require.NoError(t, ggml.Write(in, x))
	require.NoError(t, e.Compute(context.Background(), tape.Graph))
	var list [][]float32
	for _, y := range results {
		values := need.Value(y.Float32s())(t)
		list = append(list, values)
	}
	return list
}

// lowRankChange returns s·B·A·x in float64.
func lowRankChange(t *testing.T, p model.LoRAPair, x []float32) []float64 {
	t.Helper()
	a := need.Value(p.A.Float32s())(t)
	b := need.Value(p.B.Float32s())(t)
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

// roundedAdapters returns adapters whose values are rounded to a type.
func roundedAdapters(t *testing.T, adapters model.Adapters, typ ggml.Type) model.Adapters {
	t.Helper()
	rounded := model.Adapters{}
	for name, list := range adapters {
		p := list[0]
		p.Type = typ
		for _, x := range []*ggml.Tensor{p.A, p.B} {
			values := need.Value(x.Float32s())(t)
			require.NoError(t, ggml.Write(x, roundedTo(typ, values)))
		}
		rounded[name] = []model.LoRAPair{p}
	}
	return rounded
}

func roundedTo(typ ggml.Type, values []float32) []float32 {
	list := make([]float32, len(values))
	for i, x := range values {
		if typ == ggml.F16 {
			list[i] = ggml.ToFloat16(x).Float32()
		} else {
			list[i] = ggml.ToBFloat16(x).Float32()
		}
	}
	return list
}

// Adapters in BF16 round the other operand to BF16, and those in F16 do not round it, as MulMat does, for any op of the
// base, and whether or not the scaled B fits 16 bits too.
func TestAdapterProductsOf16Bits(t *testing.T) {
	c := llmtest.LargeBlockConfig(false)
	group := []string{"blk.0.attn_q.weight", "blk.0.attn_k.weight", "blk.0.attn_v.weight"}
	// If h is close to a rounding boundary of BF16, another order of sums rounds it differently.
	for typ, bound := range map[ggml.Type]float64{ggml.F16: 1e-11, ggml.BF16: 1e-7} {
		for _, base := range []ggml.Type{ggml.F32, ggml.F16, ggml.Q4_0} {
			for _, scale := range []float32{2, 0.7} {
				s := llmtest.NewLoRASetup(t, llmtest.TinyModel(t, c, base), 8, scale)
				adapters := roundedAdapters(t, s.Adapters, typ)
				for _, tokens := range []int64{1, 7, 96} {
					name := fmt.Sprintf("%v on %v, scale %v, %d tokens", typ, base, scale, tokens)
					x := randomInput(s.Model.Weight(group[0]).Dim(0), tokens)
					with, without := products(t, s.Model, adapters, x, group), products(t, s.Model, nil, x, group)
					for i, matrix := range group {
						for j := range with[i] {
							with[i][j] -= without[i][j]
						}
						unrounded := lowRankChange(t, adapters[matrix][0], x)
						if typ == ggml.F16 {
							require.Less(t, refmath.NMSE(with[i], unrounded), bound, name)
							continue
						}
						want := roundedChange(t, adapters[matrix][0], x)
						require.Less(t, refmath.NMSE(with[i], want), bound, name)
						require.Greater(t, refmath.NMSE(with[i], unrounded), 2*bound, name)
					}
				}
			}
		}
	}
}

// roundedChange returns s·B·h in float64, for h = A·x, both rounded to the type of the pair.
func roundedChange(t *testing.T, p model.LoRAPair, x []float32) []float64 {
	t.Helper()
	rank, in := p.B.Dim(0), p.A.Dim(0)
	unit := make([]float32, rank*rank) // B of a pair whose change is h
	for i := range rank {
		unit[i*rank+i] = 1
	}
	arena := llmtest.NewArena(t)
	h := lowRankChange(t, model.LoRAPair{A: p.A, B: arena.Tensor("unit", unit, rank, rank), Scale: 1}, roundedTo(p.Type, x))
	narrow := make([]float32, len(h))
	for i, v := range h {
		narrow[i] = float32(v)
	}
	identity := arena.Tensor("identity", unit, rank, rank)
	require.EqualValues(t, len(x)/int(in), len(h)/int(rank))
	return lowRankChange(t, model.LoRAPair{A: identity, B: p.B, Scale: p.Scale}, roundedTo(p.Type, narrow))
}

// Adapters are found by the names of matrices in the file, even if tensors were renamed since.
func TestAdaptersOfRenamedMatrices(t *testing.T) {
	s := llmtest.NewLoRASetup(t, llmtest.TinyModel(t, llmtest.TinyConfig(false), ggml.F32), 4, 2)
	decoded := func(m *model.Model) []float32 {
		session := need.Value(infer.NewSession(m, infer.SessionOptions{Threads: 2, Adapters: s.Adapters}))(t)
		defer session.Close()
		q := need.Value(session.NewSequence())(t)
		return need.Value(q.Decode(t.Context(), []int32{1, 2, 3}))(t)
	}
	want := decoded(s.Model)
	for w := range s.Model.Weights() {
		w.SetName("renamed")
	}
	require.Equal(t, want, decoded(s.Model))
}

// Adapters stay in the type of their file if it represents their values: not after more training,
// nor beside pairs of another type.
func TestAdaptersKeepTheirType(t *testing.T) {
	const name = "blk.0.ffn_down.weight"
	s := llmtest.NewLoRASetup(t, llmtest.TinyModel(t, llmtest.TinyConfig(false), ggml.F32), 4, 2)
	other := s.Adapters[name][0]
	p := roundedAdapters(t, model.Adapters{name: s.Adapters["blk.1.ffn_down.weight"]}, ggml.F16)[name][0]
	types := func(pairs ...model.LoRAPair) []ggml.Type {
		_, f, err := fused.Fuse(nil, s.Model.MatrixGroups(nil), nn.AdaptersOf(model.Adapters{name: pairs}), 0)
		require.NoError(t, err)
		defer f.Close()
		return fused.Types(f, name)
	}
	scaled := func(scale float32) model.LoRAPair {
		p := p
		p.Scale = scale
		return p
	}
	require.Equal(t, []ggml.Type{ggml.F16, ggml.F16}, types(p))
	require.Equal(t, []ggml.Type{ggml.F16, ggml.F16}, types(p, scaled(0.5)))
	require.Equal(t, []ggml.Type{ggml.F16, ggml.F32}, types(scaled(0.7)))
	require.Equal(t, []ggml.Type{ggml.F16, ggml.F16}, types(p, scaled(0), scaled(-4)))
	require.Equal(t, []ggml.Type{ggml.F32, ggml.F32}, types(p, other))
	require.Equal(t, []ggml.Type{ggml.F32, ggml.F32}, types(other, p, p))
	for _, x := range []*ggml.Tensor{p.A, p.B} {
		values := need.Value(x.Float32s())(t)
		old := values[3]
		values[3] += 1e-6
		require.NoError(t, ggml.Write(x, values))
		require.Equal(t, []ggml.Type{ggml.F32, ggml.F32}, types(p))
		values[3] = old
		require.NoError(t, ggml.Write(x, values))
	}
	require.Equal(t, []ggml.Type{ggml.F16, ggml.F16}, types(p))
}
