package ggml_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/optest"
	"github.com/goggml/ggml/internal/test/refmath"
)

// A ropeVariant is a form of rotation, and whether it takes factors.
type ropeVariant struct {
	ggml.RoPE
	factors bool
}

// ropes returns variants of rotary embedding over 8 dimensions.
func ropes() map[string]ropeVariant {
	plain := ropeVariant{RoPE: ggml.RoPE{Dims: 8, FreqBase: 10000, FreqScale: 1, AttnFactor: 1, BetaFast: 32, BetaSlow: 1}}
	with := func(change func(r *ropeVariant)) ropeVariant {
		r := plain
		change(&r)
		return r
	}
	yarn := func(r *ropeVariant) { r.FreqScale, r.TrainedCtx, r.ExtFactor = 0.25, 64, 1 }
	return map[string]ropeVariant{
		"norm":           plain,
		"neox":           with(func(r *ropeVariant) { r.Mode = ggml.RoPENeoX }),
		"linear":         with(func(r *ropeVariant) { r.FreqScale = 0.25 }),
		"yarn":           with(func(r *ropeVariant) { r.Mode = ggml.RoPENeoX; yarn(r) }),
		"yarn_unrounded": with(func(r *ropeVariant) { r.Unrounded = true; yarn(r) }),
		"factors":        with(func(r *ropeVariant) { r.factors = true }),
		"offset":         with(func(r *ropeVariant) { r.Offset = 6 }),
		"offset_neox": with(func(r *ropeVariant) {
			r.Mode, r.Offset, r.factors = ggml.RoPENeoX, 2, true
		}),
		"multi": with(func(r *ropeVariant) { r.Mode, r.Sections = ggml.RoPEMulti, [4]int{2, 1, 1} }),
		"multi_extra": with(func(r *ropeVariant) {
			r.Mode, r.Sections, r.factors, r.Offset = ggml.RoPEMulti, [4]int{1, 0, 1, 1}, true, 4
		}),
		"multi_yarn": with(func(r *ropeVariant) { r.Mode, r.Sections = ggml.RoPEMulti, [4]int{0, 2, 2}; yarn(r) }),
		"multi_yarn_unrounded": with(func(r *ropeVariant) {
			r.Mode, r.Sections, r.Unrounded = ggml.RoPEMulti, [4]int{1, 2, 1}, true
			yarn(r)
		}),
		"interleaved": with(func(r *ropeVariant) {
			r.Mode, r.Sections = ggml.RoPEInterleaved, [4]int{2, 1, 1}
		}),
		"interleaved_extra": with(func(r *ropeVariant) {
			r.Mode, r.Sections, r.Offset = ggml.RoPEInterleaved, [4]int{1, 1, 0, 2}, 2
		}),
		"vision": with(func(r *ropeVariant) { r.Mode, r.Sections = ggml.RoPEVision, [4]int{4, 4} }),
		"vision_four": with(func(r *ropeVariant) {
			r.Mode, r.Sections, r.factors = ggml.RoPEVision, [4]int{2, 2, 2, 2}, true
		}),
	}
}

func (v ropeVariant) multi() bool { return v.Sections != [4]int{} }

// head draws the size of a head.
func (v ropeVariant) head(d *draw) int64 {
	if v.Mode == ggml.RoPEVision {
		return int64(2 * v.Dims)
	}
	return int64(v.Dims+v.Offset) + 2*(d.Size(4)-1)
}

// positions draws the positions of tokens.
func (v ropeVariant) positions(d *draw, tokens int64) operand {
	if v.multi() {
		tokens *= 4
	}
	return d.Indices(50, tokens)
}

func (v ropeVariant) args(d *draw) []operand {
	tokens := d.Size(5)
	args := []operand{d.Normal(v.head(d), d.Size(3), tokens, d.Size(2)), v.positions(d, tokens)}
	if v.factors {
		args = append(args, d.Uniform(1, 4, 8).As(ggml.F32))
	}
	return args
}

func (v ropeVariant) operand(x tensors) *ggml.Tensor {
	if v.factors {
		return x[2]
	}
	return nil
}

func (v ropeVariant) reference(x refs) refmath.RoPE {
	r := refmath.RoPE{
		Dims: v.Dims, NeoX: v.Mode == ggml.RoPENeoX, CtxOrig: v.TrainedCtx, FreqBase: float64(v.FreqBase),
		FreqScale: float64(v.FreqScale), ExtFactor: float64(v.ExtFactor), AttnFactor: float64(v.AttnFactor),
		BetaFast: float64(v.BetaFast), BetaSlow: float64(v.BetaSlow), Sections: v.Sections, Offset: v.Offset, Unrounded: v.Unrounded,
		Interleaved: v.Mode == ggml.RoPEInterleaved, Vision: v.Mode == ggml.RoPEVision,
	}
	if v.factors {
		r.Factors = x[2].Data
	}
	return r
}

func ropeCases() []opCase {
	var cases []opCase
	for _, name := range slices.Sorted(maps.Keys(ropes())) {
		v := ropes()[name]
		cases = append(cases, opCase{
			Name: "rope_" + name, Types: []ggml.Type{ggml.F32, ggml.F16}, Layouts: optest.ContiguousRows, Bound: optest.Angles, Operands: v.args,
			Build: func(c *ctx, x tensors) *ggml.Tensor { return c.RoPE(x[0], x[1], v.operand(x), v.RoPE) },
			Want:  func(x refs) refmath.Tensor { return refmath.RopeExt(x[0], x[1], v.reference(x)) },
		}, opCase{
			Name: "rope_inplace_" + name, Types: []ggml.Type{ggml.F32, ggml.F16}, Layouts: optest.ContiguousOnly, Bound: optest.Angles, Operands: v.args, InPlace: true,
			Build: func(c *ctx, x tensors) *ggml.Tensor { return c.RoPEInPlace(x[0], x[1], v.operand(x), v.RoPE) },
			Want:  func(x refs) refmath.Tensor { return refmath.RopeExt(x[0], x[1], v.reference(x)) },
		}, opCase{
			Name: "rope_back_" + name, Types: []ggml.Type{ggml.F32, ggml.F16}, Layouts: optest.ContiguousRows, Bound: optest.Angles, Operands: v.args,
			Build: func(c *ctx, x tensors) *ggml.Tensor { return c.RoPEBack(x[0], x[1], v.operand(x), v.RoPE) },
			Want:  func(x refs) refmath.Tensor { return refmath.RopeExtBack(x[0], x[1], v.reference(x)) },
		})
	}
	return cases
}

func ropeGradCases() []gradCase {
	var cases []gradCase
	for _, name := range slices.Sorted(maps.Keys(ropes())) {
		v := ropes()[name]
		if v.Offset > 0 {
			continue
		}
		cases = append(cases, gradCase{
			Name: "rope_" + name, Params: []int{0}, Operands: v.args,
			Build: func(c *ctx, x tensors) *ggml.Tensor { return c.RoPE(x[0], x[1], v.operand(x), v.RoPE) },
			Want:  func(x refs) refmath.Tensor { return refmath.RopeExt(x[0], x[1], v.reference(x)) },
		})
	}
	return cases
}

// If the four positions of each token are equal, several sections give the same result as none.
func TestRoPEMultiOfEqualPositions(t *testing.T) {
	m := optest.Devices(t)[0]
	leaves, c := ggml.NewContext(), ggml.NewContext()
	defer leaves.Close()
	defer c.Close()
	a, one, four := leaves.NewTensor(ggml.F32, 12, 2, 3), leaves.NewTensor(ggml.I32, 3), leaves.NewTensor(ggml.I32, 12)
	buffers := need.Value(leaves.Allocate(ggml.CPUBufferType()))(t)
	defer buffers.Close()
	require.NoError(t, ggml.Write(a, optest.Normal(3, 72)))
	require.NoError(t, ggml.Write(one, []int32{3, 1, 7}))
	require.NoError(t, ggml.Write(four, []int32{3, 1, 7, 3, 1, 7, 3, 1, 7, 3, 1, 7}))
	neox := ggml.RoPE{Dims: 12, Mode: ggml.RoPENeoX, FreqBase: 100, FreqScale: 1, AttnFactor: 1}
	multi, interleaved := neox, neox
	multi.Mode, multi.Sections = ggml.RoPEMulti, [4]int{1, 2, 2, 1}
	interleaved.Mode, interleaved.Sections = ggml.RoPEInterleaved, [4]int{2, 2, 2}
	x, y, z := c.RoPE(a, one, nil, neox), c.RoPE(a, four, nil, multi), c.RoPE(a, four, nil, interleaved)
	m.Compute(t, c.NewGraph(x, y, z))
	require.Equal(t, optest.Values(t, x), optest.Values(t, y))
	require.Equal(t, optest.Values(t, x), optest.Values(t, z))
}

// ggml's backward ignores the offset, so Backward returns an error.
func TestRoPEOffsetHasNoBackward(t *testing.T) {
	c := ggml.NewContext()
	defer c.Close()
	v := ropes()["offset"]
	a := c.NewTensor(ggml.F32, 14, 1, 2).SetParam()
	y := c.RoPE(a, c.NewTensor(ggml.I32, 2), nil, v.RoPE)
	err := c.NewTrainingGraph(c.Sum(y).SetLoss()).Backward()
	require.ErrorContains(t, err, "rope() f32[14, 1, 2]): this op has no backward")
}

// Operands for which ggml would abort, or read out of bounds.
func TestRoPEErrors(t *testing.T) {
	base := ggml.RoPE{Dims: 4, FreqBase: 100, FreqScale: 1}
	multi := base
	multi.Mode, multi.Sections = ggml.RoPEMulti, [4]int{1, 1}
	with := func(r ggml.RoPE, change func(r *ggml.RoPE)) ggml.RoPE {
		change(&r)
		return r
	}
	for want, r := range map[string]ggml.RoPE{
		"there is no RoPE mode 1":                                                  with(base, func(r *ggml.RoPE) { r.Mode = 1 }),
		"the offset is -2; it must be even":                                        with(base, func(r *ggml.RoPE) { r.Offset = -2 }),
		"the offset is 1; it must be even":                                         with(base, func(r *ggml.RoPE) { r.Offset = 1 }),
		"at most ne0 less the 4 rotated dimensions, which is 4":                    with(base, func(r *ggml.RoPE) { r.Offset = 6 }),
		"this mode has no sections":                                                with(base, func(r *ggml.RoPE) { r.Sections[1] = 1 }),
		"neither may be above 2147483647":                                          with(base, func(r *ggml.RoPE) { r.TrainedCtx = 1 << 40 }),
		"the context of the training -1":                                           with(base, func(r *ggml.RoPE) { r.TrainedCtx = -1 }),
		"pos must have four entries for each of the 3 tokens (ne2 of a)":           multi,
		"rope_multi(a f32[8, 2, 3], pos i32[12]): one of the first three sections": with(multi, func(r *ggml.RoPE) { r.Sections = [4]int{0, 0, 0, 2} }),
		"section 1 has -1 pairs; it must have 0 to ne0":                            with(multi, func(r *ggml.RoPE) { r.Sections = [4]int{1, -1} }),
		"the sections have 9 pairs; they must not have more than ne0":              with(multi, func(r *ggml.RoPE) { r.Sections = [4]int{8, 1} }),
		"vision RoPE rotates all of a head of 8, so the dimensions must be 4":      with(multi, func(r *ggml.RoPE) { r.Mode, r.Dims = ggml.RoPEVision, 8 }),
		"vision RoPE has no offset":                                                with(multi, func(r *ggml.RoPE) { r.Mode, r.Offset = ggml.RoPEVision, 2 }),
	} {
		c := ggml.NewContext()
		a, pos := c.NewTensor(ggml.F32, 8, 2, 3).SetName("a"), c.NewTensor(ggml.I32, 12).SetName("pos")
		if r.Mode < ggml.RoPEMulti || r == multi {
			pos = c.NewTensor(ggml.I32, 3).SetName("pos")
		}
		c.RoPE(a, pos, nil, r)
		require.ErrorContains(t, c.Err(), want)
		c.Close()
	}
	c := ggml.NewContext()
	defer c.Close()
	vision := with(multi, func(r *ggml.RoPE) { r.Mode = ggml.RoPEVision })
	c.RoPE(c.NewTensor(ggml.F32, 8, 2, 3), c.NewTensor(ggml.I32, 12), c.NewTensor(ggml.F32, 3), vision)
	require.ErrorContains(t, c.Err(), "factors must have an entry for each of the 4 pairs")
}
