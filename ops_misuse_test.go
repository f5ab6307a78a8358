package ggml_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
)

// What the library would abort on, or compute out of bounds.
func TestMoreOpErrors(t *testing.T) {
	type dims2 = [2]ggml.ConvDim
	const big = math.MaxInt32
	kernel := func(m *misuse) *ggml.Tensor { return m.c.NewTensor(ggml.F32, 3, 3, 2, 4).SetName("k") }
	image := func(m *misuse) *ggml.Tensor { return m.c.NewTensor(ggml.F32, 8, 8, 2).SetName("x") }
	cubes := func(m *misuse, n int64) *ggml.Tensor { return m.c.NewTensor(ggml.F32, 1024, 1024, n, 2).SetName("x") }
	vector := func(m *misuse, n int64) *ggml.Tensor { return m.c.NewTensor(ggml.F32, n).SetName("v") }
	cases := []struct {
		build func(m *misuse)
		want  string
	}{
		{func(m *misuse) { m.c.FlashAttention(m.c.Transpose(m.a), m.a, m.a, nil, 1, 0, 0) }, "flash_attn_ext(a (transposed) f32[3, 4], a f32[4, 3], a f32[4, 3]): the rows of q must be contiguous; call Cont"},
		{func(m *misuse) { m.c.Acc(m.a, m.c.Transpose(m.a), [3]int64{12, 48, 48}, 0) }, "acc(a f32[4, 3], a (transposed) f32[3, 4]): the rows of b must be contiguous; call Cont"},
		{func(m *misuse) { m.c.Acc(cubes(m, 768), cubes(m, 1), [3]int64{}, 0) }, "acc(x f32[1024, 1024, 768, 2], x f32[1024, 1024, 1, 2]): stride 3 is 3221225472; it can be at most 2147483647"},
		{func(m *misuse) { m.c.Set(m.c.NewTensor(ggml.F32, 1<<30).SetName("x"), m.a, [3]int64{}, 1<<30) }, "set(x f32[1073741824], a f32[4, 3]): the offset is 1073741824; it must be below 1073741824"},
		{func(m *misuse) { m.c.Clamp(m.c.Transpose(m.a), 0, 1) }, "clamp(a (transposed) f32[3, 4]): the rows of a must be contiguous; call Cont"},
		{func(m *misuse) { m.c.RepeatBack(m.c.Transpose(m.a), m.c.Transpose(m.a)) }, "repeat_back(a (transposed) f32[3, 4], a (transposed) f32[3, 4]): the rows of a must be contiguous; call Cont"},
		{func(m *misuse) { m.c.Copy(m.c.Transpose(m.q), m.c.NewTensor(ggml.F32, 2, 32)) }, "cpy(q (transposed) q8_0[2, 32], leaf f32[2, 32]): the rows of a must be contiguous; call Cont"},
		{func(m *misuse) { m.c.Conv2D(kernel(m), m.a, dims2{}) }, "conv_2d(k f32[3, 3, 2, 4], a f32[4, 3]): the channels differ: ne2 of the kernel is 2, ne2 of the data 1"},
		{func(m *misuse) { m.c.Conv2D(kernel(m), image(m), dims2{{Stride: -1}}) }, "conv_2d(k f32[3, 3, 2, 4], x f32[8, 8, 2]): dimension 0: stride -1, padding 0, dilation 1; stride and dilation must be at least 1, padding at least 0, none above 1048576"},
		{func(m *misuse) { m.c.Conv2D(kernel(m), image(m), dims2{{}, {Dilation: 4}}) }, "conv_2d(k f32[3, 3, 2, 4], x f32[8, 8, 2]): dimension 1: a kernel of 3 with dilation 4 does not fit into 8 and a padding of 0"},
		{func(m *misuse) { m.c.Conv2D(m.q, image(m), dims2{}) }, "conv_2d(q q8_0[32, 2], x f32[8, 8, 2]): kernel has type q8_0; it must have f16 or f32"},
		{func(m *misuse) { m.c.Conv2D(m.c.Transpose(kernel(m)), image(m), dims2{}) }, "conv_2d(k (transposed) f32[3, 3, 2, 4], x f32[8, 8, 2]): kernel must be contiguous; call Cont"},
		{func(m *misuse) { m.c.Im2Col(kernel(m), image(m), ggml.F32) }, "im2col(k f32[3, 3, 2, 4], x f32[8, 8, 2]): there are 0 dims; 1 or 2 can be given"},
		{func(m *misuse) { m.c.Im2Col(kernel(m), image(m), ggml.Q8_0, ggml.ConvDim{}) }, "im2col(k f32[3, 3, 2, 4], x f32[8, 8, 2]): the result has type q8_0; it must have f32 or f16"},
		{func(m *misuse) { m.c.Im2ColBack(m.a, kernel(m), [4]int64{8, 8, 2, 1}, ggml.ConvDim{}, ggml.ConvDim{}) }, "im2col_back(a f32[4, 3], k f32[3, 3, 2, 4]): grad must have the shape [18 6 6 1], as the result of im2col"},
		{func(m *misuse) { m.c.Conv3D(kernel(m), image(m), 3, [3]ggml.ConvDim{}) }, "conv_3d(k f32[3, 3, 2, 4], x f32[8, 8, 2]): ne3 of the kernel, 4, and of the data, 1, must be multiples of the 3 channels"},
		{func(m *misuse) { m.c.Conv3D(kernel(m), image(m), 0, [3]ggml.ConvDim{}) }, "conv_3d(k f32[3, 3, 2, 4], x f32[8, 8, 2]): ne3 of the kernel, 4, and of the data, 1, must be multiples of the 0 channels"},
		{func(m *misuse) { m.c.Col2Im1D(m.a, 1, 3, 0) }, "col2im_1d(a f32[4, 3]): ne0 is 4, no multiple of the 3 output channels"},
		{func(m *misuse) { m.c.Col2Im1D(m.a, 1, 1, 9) }, "col2im_1d(a f32[4, 3]): the result would have -12 elements in a row"},
		{func(m *misuse) { m.c.ConvTranspose1D(m.a, m.a, 0) }, "conv_transpose_1d(a f32[4, 3], a f32[4, 3]): the stride is 0; it must be 1 to 1048576"},
		{func(m *misuse) { m.c.Pool1D(m.a, 2, ggml.PoolDim{Size: 1}) }, "pool_1d(a f32[4, 3]): there is no pooling 2"},
		{func(m *misuse) { m.c.Pool1D(m.a, ggml.PoolMax, ggml.PoolDim{}) }, "pool_1d(a f32[4, 3]): dimension 0: a window of 0, stride 0, padding 0; size and stride must be 1 to 1048576, padding less than the size"},
		{func(m *misuse) { m.c.Pool1D(m.a, ggml.PoolMax, ggml.PoolDim{Size: 7, Padding: 1}) }, "pool_1d(a f32[4, 3]): dimension 0: a window of 7 does not fit into 4 and a padding of 1"},
		{func(m *misuse) { m.c.Pool2D(m.a, ggml.PoolMax, [2]ggml.PoolDim{{Size: 2, Padding: 2}, {Size: 2}}) }, "pool_2d(a f32[4, 3]): dimension 0: a window of 2, stride 2, padding 2; size and stride must be 1 to 1048576, padding less than the size"},
		{func(m *misuse) { m.c.Pool2D(m.a, ggml.PoolMax, [2]ggml.PoolDim{{Size: 2}, {Size: 4}}) }, "pool_2d(a f32[4, 3]): dimension 1: a window of 4 does not fit into 3 and a padding of 0"},
		{func(m *misuse) { m.c.Pool2DBack(m.a, image(m), ggml.PoolMax, [2]ggml.PoolDim{{Size: 2}, {Size: 2}}) }, "pool_2d_back(a f32[4, 3], x f32[8, 8, 2]): grad must have the shape [4 4 2 1], as the result of pool_2d"},
		{func(m *misuse) { m.c.Interpolate(m.a, 3, 8, 8) }, "interpolate(a f32[4, 3]): there is no scale mode 0x3"},
		{func(m *misuse) { m.c.Interpolate(m.a, ggml.ScaleBicubic|ggml.ScaleAntialias, 8, 8) }, "interpolate(a f32[4, 3]): only bilinear scaling has antialiasing"},
		{func(m *misuse) { m.c.Interpolate(m.a, ggml.ScaleNearest, 8, 0) }, "interpolate(a f32[4, 3]): ne1 is 0; it must be at least 1"},
		{func(m *misuse) { m.c.Upscale(m.a, 1, ggml.ScaleNearest) }, "upscale(a f32[4, 3]): the factor is 1; it must be 2 to 4194304"},
		{func(m *misuse) { m.c.PadExt(m.a, [4]int{-1}, [4]int{}) }, "pad_ext(a f32[4, 3]): the padding of dimension 0 is -1 and 0; it must not be negative, and less than 1073741824"},
		{func(m *misuse) { m.c.PadCircular(m.a, [4]int{5}, [4]int{}) }, "pad_ext_circular(a f32[4, 3]): dimension 0: the padding of 5 is longer than a, which has 4"},
		{func(m *misuse) { m.c.PadReflect1D(m.a, 4, 0) }, "pad_reflect_1d(a f32[4, 3]): the padding is 4 and 0; it must be less than ne0, which is 4"},
		{func(m *misuse) { m.c.Roll(m.q, [4]int{1}) }, "roll(q q8_0[32, 2]): a has type q8_0; it must have f32"},
		{func(m *misuse) { m.c.Tri(m.a, ggml.Lower) }, "tri(a f32[4, 3]): ne0 and ne1 are 4 and 3; they must be equal"},
		{func(m *misuse) { m.c.Tri(m.a, 4) }, "tri(a f32[4, 3]): there is no triangle 4"},
		{func(m *misuse) { m.c.TimestepEmbedding(vector(m, 4), 0, 9) }, "timestep_embedding(v f32[4]): the dimension is 0; it must be 1 to 1073741823"},
		{func(m *misuse) { m.c.TimestepEmbedding(m.a, 4, 9) }, "timestep_embedding(a f32[4, 3]): a has 2 dimensions; it must be a vector"},
		{func(m *misuse) { m.c.WinPart(m.a, 0) }, "win_part(a f32[4, 3]): the window is 0; it must be 1 to 16383"},
		{func(m *misuse) { m.c.WinUnpart(m.a, 3, 3) }, "win_unpart(a f32[4, 3]): ne1 and ne2 are 3 and 1; they must be equal, and less than 16384"},
		{func(m *misuse) { m.c.GetRelPos(m.a, 2) }, "get_rel_pos(a f32[4, 3]): a has type f32; it must have f16"},
		{func(m *misuse) { m.c.AddRelPos(m.a, m.b, m.b) }, "add_rel_pos(a f32[4, 3], b f32[5, 2], b f32[5, 2]): a must be [n·n, qw·qh, batch], pw and ph [n, qw, qh, batch]"},
		{func(m *misuse) { m.c.RWKV7(m.a, m.a, m.a, m.a, m.a, m.a, vector(m, 48)) }, "rwkv_wkv7(a f32[4, 3], a f32[4, 3], a f32[4, 3], a f32[4, 3], a f32[4, 3], a f32[4, 3], v f32[48]): ne0 is 4; it must be a multiple of 64"},
		{func(m *misuse) { m.c.GatedLinearAttention(m.a, m.a, m.a, m.a, vector(m, 47), 1) }, "gated_linear_attn(a f32[4, 3], a f32[4, 3], a f32[4, 3], a f32[4, 3], v f32[47]): the state must be [n·n·heads, sequences], which is [48, …]"},
		{func(m *misuse) { m.c.GatedLinearAttention(m.a, m.a, m.a, m.a, m.c.NewTensor(ggml.F32, 48, 2), 1) }, "gated_linear_attn(a f32[4, 3], a f32[4, 3], a f32[4, 3], a f32[4, 3], leaf f32[48, 2]): the 1 tokens are no multiple of the 2 sequences"},
		{func(m *misuse) { m.c.SSMConv(m.a, m.b) }, "ssm_conv(a f32[4, 3], b f32[5, 2]): the channels differ: ne1 of x is 3, of the kernel 2"},
		{func(m *misuse) { m.c.SolveTri(m.a, m.b) }, "solve_tri(a f32[4, 3], b f32[5, 2]): ne0 and ne1 of a are 4 and 3; they must be equal"},
		{func(m *misuse) { m.c.AddID(m.a, m.b, m.ids) }, "add_id(a f32[4, 3], b f32[5, 2], ids i32[2]): ne0 must be equal: a has 4, b has 5"},
		{func(m *misuse) { m.c.AddCast(m.a, m.a, ggml.F32) }, "add_cast(a f32[4, 3], a f32[4, 3]): a has type f32; it must be f16, bf16 or quantised"},
		{func(m *misuse) { m.c.AddCast(m.c.NewTensor(ggml.F16, 4, 3), m.a, ggml.Q8_0) }, "add_cast(leaf f16[4, 3], a f32[4, 3]): the sum of f16 and f32 cannot have type q8_0; use f32 and Cast"},
		{func(m *misuse) { m.c.AddCast(m.q, m.c.NewTensor(ggml.F32, 32, 2), ggml.IQ3S) }, "add_cast(q q8_0[32, 2], leaf f32[32, 2]): the sum of q8_0 and f32 cannot have type iq3_s; use f32 and Cast"},
		{func(m *misuse) { m.c.ArgSortTopK(m.a, 5) }, "argsort_top_k(a f32[4, 3]): k is 5; it must be 1 to ne0, which is 4"},
		{func(m *misuse) { m.c.SoftMaxSinks(m.a, nil, nil, 1, 0) }, "soft_max_add_sinks(a f32[4, 3]): sinks is nil; use the op without it"},
		{func(m *misuse) { m.c.SoftMaxSinks(m.a, nil, vector(m, 2), 1, 0) }, "soft_max_add_sinks(a f32[4, 3], v f32[2]): sinks must have an entry for each of the 1 heads"},
		{func(m *misuse) { m.c.SubInPlace(m.a, m.b) }, "sub_inplace(a f32[4, 3], b f32[5, 2]): dimension 0: 4 is no multiple of 5, so the second operand cannot be repeated to the shape of the first"},
		{func(m *misuse) { m.c.NewTensorLike(m.c.Transpose(m.q)) }, "dup_tensor(q (transposed) q8_0[2, 32]): ne0 is 2; a row of q8_0 is a multiple of 32 elements"},
		{func(m *misuse) { m.c.ScaleInPlace(m.c.Transpose(m.a), 2) }, "scale_inplace(a (transposed) f32[3, 4]): a must be contiguous; call Cont"},
		{func(m *misuse) { m.c.ClampInPlace(m.a, 1, 0) }, "clamp_inplace(a f32[4, 3]): the low limit 1 is above the high limit 0"},
		{func(m *misuse) { m.c.ConvTranspose2D(m.c.NewTensor(ggml.F16, 2, 2, 1, 1).SetName("h"), m.a, big) }, "conv_transpose_2d_p0(h f16[2, 2], a f32[4, 3]): the stride is 2147483647; it must be 1 to 1048576"},
	}
	for _, k := range cases {
		m := newMisuse()
		k.build(m)
		assert.EqualError(t, m.c.Err(), fmt.Sprintf("ggml: %s (at %s)", k.want, line(k.build)), k.want)
		m.c.Close()
	}
}

// Indices out of range are found before the library reads there.
func TestMoreIndices(t *testing.T) {
	backend, alloc := cpuBackend(t, 1), graphAllocator(t)
	leaves := ggml.NewContext()
	defer leaves.Close()
	ids := leaves.NewTensor(ggml.I32, 1)
	buffers, err := leaves.Allocate(ggml.CPUBufferType())
	require.NoError(t, err)
	defer buffers.Close()
	ones := func(c *ctx, ne ...int64) *ggml.Tensor { return c.Fill(c.NewTensor(ggml.F32, ne...), 1) }
	ops := map[string]func(c *ctx) *ggml.Tensor{
		"add_id": func(c *ctx) *ggml.Tensor { return c.AddID(ones(c, 4), ones(c, 4, 3), ids) },
		"ssm_scan": func(c *ctx) *ggml.Tensor {
			b := ones(c, 2)
			return c.SSMScan(ones(c, 2, 1, 1, 3), ones(c, 1), ones(c, 1), ones(c, 2), b, b, ids)
		},
	}
	for name, op := range ops {
		for id, valid := range map[int32]bool{-1: false, 0: true, 2: true, 3: false} {
			c := ggml.NewContext()
			require.NoError(t, ggml.Write(ids, []int32{id}))
			g := c.NewGraph(op(c))
			require.NoError(t, alloc.Alloc(g))
			err := backend.Compute(t.Context(), g)
			if valid {
				require.NoError(t, err, name)
			} else {
				require.ErrorContains(t, err, fmt.Sprintf("row index %d is out of range: there are 3 rows", id), name)
			}
			c.Close()
		}
	}
}

// A kernel that is trained, but whose values nothing uses.
func TestBackwardOfUnusedKernel(t *testing.T) {
	c := ggml.NewContext()
	defer c.Close()
	kernel := c.NewTensor(ggml.F32, 3, 3, 2, 4).SetParam()
	x := c.NewTensor(ggml.F32, 8, 8, 2).SetParam()
	y := c.Im2Col(kernel, x, ggml.F32, ggml.ConvDim{}, ggml.ConvDim{})
	g := c.NewTrainingGraph(c.Sum(y).SetLoss())
	require.ErrorContains(t, g.Backward(), "the kernel is a parameter, but no later op uses its values")

	a, b := c.NewTensor(ggml.F32, 4).SetParam(), c.NewTensor(ggml.F32, 4).SetParam()
	g = c.NewTrainingGraph(c.Sum(c.Copy(a, b)).SetLoss())
	require.ErrorContains(t, g.Backward(), "the parameter is overwritten by the copy, so that it has no gradient")
}
