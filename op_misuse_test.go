package ggml_test

import (
	"math"
	"reflect"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/optest"
)

// Every failed op names itself, its operands, the reason and the caller's line.
func TestOpErrors(t *testing.T) {
	const big = math.MaxInt64
	cubes := func(m *misuse, n int64) *ggml.Tensor { return m.c.NewTensor(ggml.F32, 1024, 1024, n, 2).SetName("x") }
	requireOpErrors(t, []opError{
		// shapes
		{func(m *misuse) { m.c.Add(m.a, m.b) }, "add(a f32[4, 3], b f32[5, 2]): dimension 0: 4 is not a multiple of 5, so the second operand cannot be repeated to the shape of the first"},
		{func(m *misuse) { m.c.MulMat(m.a, m.b) }, "mul_mat(a f32[4, 3], b f32[5, 2]): ne0 must be equal: a has 4, b has 5"},
		{func(m *misuse) { m.c.MulMat(m.row, m.a) }, "mul_mat(row f32[4, 1, 6], a f32[4, 3]): ne2 and ne3 of b must be multiples of ne2 and ne3 of a"},
		{func(m *misuse) { m.c.OutProd(m.a, m.b) }, "out_prod(a f32[4, 3], b f32[5, 2]): ne1 must be equal: a has 3, b has 2"},
		{func(m *misuse) { m.c.SiluBack(m.a, m.b) }, "silu_back(a f32[4, 3], b f32[5, 2]): the shapes must be equal"},
		{func(m *misuse) { m.c.Concat(m.a, m.b, 1) }, "concat(a f32[4, 3], b f32[5, 2]): dimension 0 must be equal: a has 4, b has 5"},
		{func(m *misuse) { m.c.Concat(m.a, m.a, 4) }, "concat(a f32[4, 3], a f32[4, 3]): there is no dimension 4"},
		{func(m *misuse) { m.c.GetRows(m.row, m.ids) }, "get_rows(row f32[4, 1, 6], ids i32[2]): ne1 and ne2 of ids must be ne2 and ne3 of a"},
		{func(m *misuse) { m.c.Repeat(m.a, 6, 3) }, "repeat(a f32[4, 3]): dimension 0: 6 is not a multiple of 4"},
		{func(m *misuse) { m.c.SoftMaxExt(m.a, ggml.SoftMaxOptions{Mask: m.b}) }, "soft_max_ext(a f32[4, 3], b f32[5, 2]): the mask must have a's ne0, and at least its ne1"},
		{func(m *misuse) { m.c.SoftMaxExt(m.a, ggml.SoftMaxOptions{MaxBias: 8}) }, "soft_max_ext(a f32[4, 3]): ALiBi needs a mask"},
		{func(m *misuse) { m.c.CrossEntropyLoss(m.a, m.b) }, "cross_entropy_loss(a f32[4, 3], b f32[5, 2]): the shapes must be equal"},
		{func(m *misuse) { m.c.Diag(m.a) }, "diag(a f32[4, 3]): ne1 is 3; it must be 1"},
		{func(m *misuse) { m.c.GLU(ggml.SwiGLU, m.b, false) }, "glu(b f32[5, 2]): ne0 is 5; it must be even"},
		{func(m *misuse) { m.c.TopK(m.a, 5) }, "top_k(a f32[4, 3]): k is 5; it must be 1 to ne0, which is 4"},
		{func(m *misuse) { m.c.GroupNorm(m.a, 0, 1e-5) }, "group_norm(a f32[4, 3]): there are 0 groups; they must be 1 to ne2, which is 1"},
		{func(m *misuse) { m.c.ArgMax(m.row) }, "argmax(row f32[4, 1, 6]): a has 3 dimensions; it must be a matrix"},
		{func(m *misuse) { m.c.Set(m.a, m.b, [3]int64{16, 0, 0}, 32) }, "set(a f32[4, 3], b f32[5, 2]): the part ends at byte 68, a has 48"},
		{func(m *misuse) { m.c.RoPE(m.row, m.ids, nil, ggml.RoPE{Dims: 4, FreqBase: 1, FreqScale: 1}) }, "rope_ext(row f32[4, 1, 6], ids i32[2]): pos must have an entry for each of the 6 positions (ne2 of a)"},
		{func(m *misuse) { m.c.RoPE(m.row, m.ids, nil, ggml.RoPE{Dims: 3, FreqBase: 1, FreqScale: 1}) }, "rope_ext(row f32[4, 1, 6], ids i32[2]): 3 dimensions are rotated; they must be even and at most ne0, which is 4"},
		{func(m *misuse) { m.c.FlashAttention(m.a, m.b, m.b, ggml.AttentionOptions{}) }, "flash_attn_ext(a f32[4, 3], b f32[5, 2], b f32[5, 2]): ne0 of q and k must be equal: 4 and 5"},

		// types
		{func(m *misuse) { m.c.Add(m.a, m.ids) }, "add(a f32[4, 3], ids i32[2]): b has type i32; it must have f32, f16 or bf16"},
		{func(m *misuse) { m.c.MulMat(m.q, m.ids) }, "mul_mat(q q8_0[32, 2], ids i32[2]): b has type i32; it must have f32, f16 or bf16"},
		{func(m *misuse) { m.c.MulMat(m.ids, m.a) }, "mul_mat(ids i32[2], a f32[4, 3]): a must have a float or quantised type"},
		{func(m *misuse) { m.c.GetRows(m.a, m.b) }, "get_rows(a f32[4, 3], b f32[5, 2]): ids has type f32; it must have i32"},
		{func(m *misuse) { m.c.RMSNorm(m.q, 1e-5) }, "rms_norm(q q8_0[32, 2]): a has type q8_0; it must have f32"},
		{func(m *misuse) { m.c.Cast(m.q, ggml.F16) }, "cast(q q8_0[32, 2]): there is no conversion from q8_0 to f16; go through f32"},
		{func(m *misuse) { m.c.Cast(m.a, ggml.Q8_0) }, "cast(a f32[4, 3]): ne0 is 4; a row of q8_0 is a multiple of 32 elements"},
		{func(m *misuse) { m.c.Cast(m.a, ggml.Type(4)) }, "cast(a f32[4, 3]): there is no type 4"},
		{func(m *misuse) { m.c.OptStepSGD(m.a, m.a, m.ids) }, "opt_step_sgd(a f32[4, 3], a f32[4, 3], ids i32[2]): a must be marked as a parameter; call SetParam"},

		// layouts
		{func(m *misuse) { m.c.Scale(m.c.Transpose(m.a), 2) }, "scale(a (transposed) f32[3, 4]): the rows of a must be contiguous; call Cont"},
		{func(m *misuse) { m.c.Silu(m.c.Transpose(m.a)) }, "silu(a (transposed) f32[3, 4]): the rows of a must be contiguous; call Cont"},
		{func(m *misuse) { m.c.MulMat(m.c.Transpose(m.a), m.c.Transpose(m.a)) }, "mul_mat(a (transposed) f32[3, 4], a (transposed) f32[3, 4]): the rows of a must be contiguous; call Cont"},
		{func(m *misuse) { m.c.Reshape(m.c.Transpose(m.a), 12) }, "reshape(a (transposed) f32[3, 4]): a must be contiguous; call Cont"},

		// new shapes, views
		{func(m *misuse) { m.c.NewTensor(ggml.F32) }, "new_tensor(result): a shape has 1 to 4 dimensions, this one has 0"},
		{func(m *misuse) { m.c.NewTensor(ggml.F32, 1, 2, 3, 4, 5) }, "new_tensor(result f32[1, 2, 3, 4, 5]): a shape has 1 to 4 dimensions, this one has 5"},
		{func(m *misuse) { m.c.NewTensor(ggml.F32, 2, -3) }, "new_tensor(result f32[2, -3]): ne1 is -3; it must be at least 1"},
		{func(m *misuse) { m.c.NewTensor(ggml.F32, 0) }, "new_tensor(result f32[0]): ne0 is 0; it must be at least 1"},
		{func(m *misuse) { m.c.NewTensor(ggml.Q4_K, 255) }, "new_tensor(result q4_K[255]): ne0 is 255; a row of q4_K is a multiple of 256 elements"},
		{func(m *misuse) { m.c.NewTensor(ggml.F32, big, big) }, "new_tensor(result f32[9223372036854775807, 9223372036854775807]): the tensor is too large"},
		{func(m *misuse) { m.c.NewTensor(ggml.Type(99), 1) }, "new_tensor(result Type(99)[1]): there is no type 99"},
		{func(m *misuse) { m.c.Reshape(m.a, 5, 2) }, "reshape(a f32[4, 3]): the shape [5 2] has 10 elements, a has 12"},
		{func(m *misuse) { m.c.Reshape(m.a, -1, 5) }, "reshape(a f32[4, 3]): ne0 is -1; it must be at least 1"},
		{func(m *misuse) { m.c.Reshape(m.a, -1, -1) }, "reshape(a f32[4, 3]): ne0 is -1; it must be at least 1"},
		{func(m *misuse) { m.c.Reshape(m.a, 1<<62, 4, 1<<62) }, "reshape(a f32[4, 3]): the tensor is too large"},
		{func(m *misuse) { m.c.Reshape(m.a, -1, 1<<62, 4) }, "reshape(a f32[4, 3]): ne0 is -1; it must be at least 1"},
		{func(m *misuse) { m.c.Repeat(m.a, 1<<40, 3<<40) }, "repeat(a f32[4, 3]): the tensor is too large"},
		{func(m *misuse) { m.c.Pad(m.a, [4]int{-1, 0, 0, 0}) }, "pad(a f32[4, 3]): the padding of dimension 0 is -1"},
		{func(m *misuse) { m.c.View(m.a, []int64{4, 4}, nil, 0) }, "view(a f32[4, 3]): the view ends at byte 64, a has 48"},
		{func(m *misuse) { m.c.View(m.a, []int64{4}, nil, 40) }, "view(a f32[4, 3]): the view ends at byte 56, a has 48"},
		{func(m *misuse) { m.c.View(m.a, []int64{4}, nil, -4) }, "view(a f32[4, 3]): the offset is -4; it must be a multiple of the block size 4 within the 48 bytes of a"},
		{func(m *misuse) { m.c.View(m.a, []int64{4}, nil, 2) }, "view(a f32[4, 3]): the offset is 2; it must be a multiple of the block size 4 within the 48 bytes of a"},
		{func(m *misuse) { m.c.View(m.a, []int64{4}, nil, big) }, "view(a f32[4, 3]): the offset is 9223372036854775807; it must be a multiple of the block size 4 within the 48 bytes of a"},
		{func(m *misuse) { m.c.View(m.a, []int64{1, 2}, []int64{big - 3}, 0) }, "view(a f32[4, 3]): stride 1 is 9223372036854775804; it must be a multiple of the block size 4"},
		{func(m *misuse) { m.c.View(m.a, []int64{1, 2}, []int64{1 << 50}, 0) }, "view(a f32[4, 3]): the view ends at byte 1125899906842628, a has 48"},
		{
			func(m *misuse) { m.c.View(m.a, []int64{4, 4}, []int64{4}, 4) },
			"view(a f32[4, 3]): the elements of the view share memory and take 64 bytes apart, of which a has 44 from the offset on; copy parts of a by Concat or GetRows",
		},
		{func(m *misuse) { m.c.View(m.a, []int64{1}, []int64{4, 4, 4, 4}, 0) }, "view(a f32[4, 3]): there are 4 strides; at most 3 can be given"},
		{func(m *misuse) { m.c.Acc(m.a, m.a, [3]int64{16, 48, 48}, -4) }, "acc(a f32[4, 3], a f32[4, 3]): the offset is -4; it must be a multiple of 4 bytes"},
		{func(m *misuse) { m.c.Permute(m.a, [4]int{0, 0, 1, 2}) }, "permute(a f32[4, 3]): the axes [0 0 1 2] are not a permutation of 0, 1, 2, 3"},
		{func(m *misuse) { m.c.Permute(m.a, [4]int{0, 1, 2, 1 << 40}) }, "permute(a f32[4, 3]): the axes [0 1 2 1099511627776] are not a permutation of 0, 1, 2, 3"},
		{func(m *misuse) { m.c.Arange(0, 1, 0) }, "arange: the range from 0 to 1 in steps of 0 is empty or endless"},
		{func(m *misuse) { m.c.Arange(0, 1e30, 1) }, "arange: the range from 0 to 1e+30 in steps of 1 has more than 2147483647 values"},
		{func(m *misuse) { m.c.Arange(1, 85, float32(math.Inf(1))) }, "arange: the range from 1 to 85 in steps of +Inf has no values"},
		{func(m *misuse) { m.c.Arange(0, float32(math.NaN()), 1) }, "arange: the range from 0 to NaN in steps of 1 is empty or endless"},
		{func(m *misuse) { m.c.Clamp(m.a, 1, 0) }, "clamp(a f32[4, 3]): the low limit 1 is above the high limit 0"},
		{func(m *misuse) { m.c.ArgSort(m.a, 7) }, "argsort(a f32[4, 3]): there is no sort order 7"},
		{func(m *misuse) { m.c.GLU(9, m.a, false) }, "glu(a f32[4, 3]): there is no gated linear unit 9"},

		// operands for which ggml would abort, or access memory out of bounds
		{func(m *misuse) { m.c.FlashAttention(m.c.Transpose(m.a), m.a, m.a, ggml.AttentionOptions{Scale: 1}) }, "flash_attn_ext(a (transposed) f32[3, 4], a f32[4, 3], a f32[4, 3]): the rows of q must be contiguous; call Cont"},
		{func(m *misuse) { m.c.Acc(m.a, m.c.Transpose(m.a), [3]int64{12, 48, 48}, 0) }, "acc(a f32[4, 3], a (transposed) f32[3, 4]): the rows of b must be contiguous; call Cont"},
		{func(m *misuse) { m.c.Acc(cubes(m, 768), cubes(m, 1), [3]int64{}, 0) }, "acc(x f32[1024, 1024, 768, 2], x f32[1024, 1024, 1, 2]): stride 3 is 3221225472; it can be at most 2147483647"},
		{func(m *misuse) { m.c.Set(m.c.NewTensor(ggml.F32, 1<<30).SetName("x"), m.a, [3]int64{}, 1<<30) }, "set(x f32[1073741824], a f32[4, 3]): the offset is 1073741824; it must be below 1073741824"},
		{func(m *misuse) { m.c.Clamp(m.c.Transpose(m.a), 0, 1) }, "clamp(a (transposed) f32[3, 4]): the rows of a must be contiguous; call Cont"},
		{func(m *misuse) { m.c.RepeatBack(m.c.Transpose(m.a), m.c.Transpose(m.a)) }, "repeat_back(a (transposed) f32[3, 4], a (transposed) f32[3, 4]): the rows of a must be contiguous; call Cont"},
		{func(m *misuse) { m.c.Copy(m.c.Transpose(m.q), m.c.NewTensor(ggml.F32, 2, 32)) }, "cpy(q (transposed) q8_0[2, 32], leaf f32[2, 32]): the rows of a must be contiguous; call Cont"},
		{func(m *misuse) { m.c.SolveTri(m.a, m.b) }, "solve_tri(a f32[4, 3], b f32[5, 2]): ne0 and ne1 of a are 4 and 3; they must be equal"},
		{func(m *misuse) { m.c.SoftMaxExt(m.a, ggml.SoftMaxOptions{Sinks: m.vector(2)}) }, "soft_max_ext(a f32[4, 3], v f32[2]): sinks must have an entry for each of the 1 heads"},
		{func(m *misuse) { m.c.NewTensorLike(m.c.Transpose(m.q)) }, "dup_tensor(q (transposed) q8_0[2, 32]): ne0 is 2; a row of q8_0 is a multiple of 32 elements"},

		// nil tensors
		{func(m *misuse) { m.c.Add(m.a, nil) }, "add(a f32[4, 3], nil): operand 1 is nil"},
		{func(m *misuse) { m.c.MulMat(nil, m.a) }, "mul_mat(nil, a f32[4, 3]): operand 0 is nil"},
		{func(m *misuse) { m.c.NewGraph(nil) }, "Context.NewGraph(nil): the tensor is nil"},
	})
}

// Layouts for which ggml would abort, or access memory out of bounds.
func TestLayoutErrors(t *testing.T) {
	type build = func(c *ctx) *ggml.Tensor
	x := func(c *ctx, ne ...int64) *ggml.Tensor { return c.NewTensor(ggml.F32, ne...) }
	q := func(c *ctx, ne ...int64) *ggml.Tensor { return c.NewTensor(ggml.Q4_0, ne...) }
	permuted := func(c *ctx) *ggml.Tensor { return c.Permute(x(c, 5, 4, 3), [4]int{2, 0, 1, 3}) } // [4, 3, 5]
	// Contiguous for ggml, but rows are not at multiples of stride 1.
	odd := func(c *ctx) *ggml.Tensor { return c.Permute(x(c, 4, 3), [4]int{0, 2, 1, 3}) } // [4, 1, 3]
	same := func(c *ctx) *ggml.Tensor { return c.View(x(c, 4, 3), []int64{4, 3}, []int64{0}, 0) }
	const call = "; call Cont"
	for want, f := range map[string]build{
		"clamp: the rows of a must be contiguous" + call:       func(c *ctx) *ggml.Tensor { return c.Clamp(permuted(c), 0, 1) },
		"repeat: the rows of a must be contiguous" + call:      func(c *ctx) *ggml.Tensor { return c.Repeat(permuted(c), 4, 3, 10) },
		"repeat_back: the rows of a must be contiguous" + call: func(c *ctx) *ggml.Tensor { return c.RepeatBack(permuted(c), x(c, 4, 3)) },
		"out_prod: the rows of a must be contiguous" + call:    func(c *ctx) *ggml.Tensor { return c.OutProd(permuted(c), x(c, 2, 3, 5)) },
		"acc: the rows of b must be contiguous" + call:         func(c *ctx) *ggml.Tensor { return c.Acc(x(c, 60), permuted(c), [3]int64{16, 48, 240}, 0) },
		"flash_attn_ext: the rows of q must be contiguous" + call: func(c *ctx) *ggml.Tensor {
			return c.FlashAttention(permuted(c), x(c, 4, 2, 5), x(c, 4, 2, 5), ggml.AttentionOptions{Scale: 1})
		},
		"silu_back: grad must be contiguous" + call:            func(c *ctx) *ggml.Tensor { return c.SiluBack(odd(c), odd(c)) },
		"soft_max_ext_back: grad must be contiguous" + call:    func(c *ctx) *ggml.Tensor { return c.SoftMaxBack(odd(c), odd(c), 1) },
		"cross_entropy_loss: logits must be contiguous" + call: func(c *ctx) *ggml.Tensor { return c.CrossEntropyLoss(odd(c), odd(c)) },
		"leaky_relu: a must be contiguous" + call:              func(c *ctx) *ggml.Tensor { return c.LeakyRelu(odd(c), 1) },
		"rope_ext: ne0 is 5; it must be even": func(c *ctx) *ggml.Tensor {
			return c.RoPE(x(c, 5, 1, 1), c.NewTensor(ggml.I32, 1), nil, ggml.RoPE{Dims: 4, FreqBase: 1, FreqScale: 1})
		},
		"neg_inplace: elements of a share memory, and cannot be":      func(c *ctx) *ggml.Tensor { return c.NegInPlace(same(c)) },
		"cpy: elements of b share memory, and cannot be written":      func(c *ctx) *ggml.Tensor { return c.Copy(x(c, 4, 3), same(c)) },
		"set: elements of the part share memory: with the shape [4 2": func(c *ctx) *ggml.Tensor { return c.Set(x(c, 4, 3), x(c, 4, 2), [3]int64{8, 48, 48}, 0) },
		"cpy: a must be contiguous, or have b's shape and contiguous": func(c *ctx) *ggml.Tensor { return c.Copy(c.Permute(q(c, 32, 4, 3), [4]int{0, 2, 1, 3}), q(c, 32, 12)) },
		"cpy: b must be contiguous" + call: func(c *ctx) *ggml.Tensor {
			return c.Copy(x(c, 32, 3, 4), c.Permute(q(c, 32, 4, 3), [4]int{0, 2, 1, 3}))
		},
		"cpy: ne0 must be equal: a has 64, b has 32": func(c *ctx) *ggml.Tensor { return c.Copy(x(c, 64, 3), q(c, 32, 6)) },
		"cpy: b must be contiguous, or its ne0 a multiple of the": func(c *ctx) *ggml.Tensor {
			return c.Copy(q(c, 32, 6), c.View(x(c, 20, 12), []int64{16, 12}, []int64{80}, 0))
		},
	} {
		c := ggml.NewContext()
		f(c)
		var e *ggml.OpError
		if assert.ErrorAs(t, c.Err(), &e, want) {
			assert.Contains(t, e.Op+": "+e.Reason, want)
		}
		c.Close()
	}
}

// Every op reports nil operands as an error, with zero values for all other parameters.
func TestNilOperands(t *testing.T) {
	context := reflect.TypeFor[*ggml.Context]()
	tensor := reflect.TypeFor[*ggml.Tensor]()
	for i := range context.NumMethod() {
		method := context.Method(i)
		takes := method.Type.NumIn() > 1 && method.Type.In(1) == tensor && method.Type.NumOut() == 1 && method.Type.Out(0) == tensor
		if !takes {
			continue
		}
		c := ggml.NewContext()
		in := []reflect.Value{reflect.ValueOf(c)}
		for j := 1; j < method.Type.NumIn(); j++ {
			if method.Type.IsVariadic() && j == method.Type.NumIn()-1 {
				break
			}
			in = append(in, reflect.Zero(method.Type.In(j)))
		}
		result := method.Func.Call(in)[0].Interface().(*ggml.Tensor)
		require.NotNil(t, result, method.Name)
		require.ErrorContains(t, c.Err(), "operand 0 is nil", method.Name)
		c.Close()
	}
}

func TestPoisonedTensor(t *testing.T) {
	m := newMisuse()
	defer m.c.Close()
	bad := m.c.Add(m.a, m.b)
	first := m.c.Err()
	require.ErrorContains(t, first, "add(a f32[4, 3], b f32[5, 2])")

	// It is safe to use, and every function returns the first error.
	y := m.c.Silu(m.c.MulMat(bad, m.c.Sub(m.a, m.ids)))
	require.NotNil(t, y)
	require.Equal(t, first, m.c.Err())
	require.Equal(t, "(failed op)", y.String())
	require.Zero(t, y.NumBytes())
	require.False(t, y.IsAllocated())
	y.SetName("y").SetOutput()
	require.Equal(t, "", y.Name())
	_, err := y.Float32s()
	require.Equal(t, first, err)
	require.Equal(t, first, ggml.Write(y, []float32{1}))
	require.Equal(t, first, ggml.CopyTensor(m.a, y))
	_, err = m.c.Allocate(ggml.CPUBufferType())
	require.Equal(t, first, err)
	graph := m.c.NewGraph(y)
	device := optest.Devices(t)[0]
	require.Equal(t, first, optest.NewScheduler(t, device.Backends...).Allocate(graph))
	require.Equal(t, first, device.Backends[0].Compute(t.Context(), graph))
	require.Equal(t, first, graph.Backward())

	// A context that uses it as an operand adopts its error.
	other := ggml.NewContext()
	defer other.Close()
	other.Abs(other.Add(other.NewTensor(ggml.F32, 1), y))
	require.Equal(t, first, other.Err())
	require.Equal(t, first, other.NewGraph().Backward())
}

func TestClosedOperands(t *testing.T) {
	closed, c := newMisuse(), ggml.NewContext()
	defer c.Close()
	require.NoError(t, closed.c.Close())
	require.NoError(t, closed.c.Close())

	x := c.NewTensor(ggml.F32, 4).SetName("x")
	c.Add(x, closed.a)
	require.ErrorIs(t, c.Err(), ggml.ErrClosed)
	require.ErrorContains(t, c.Err(), "ggml: add(x f32[4], (closed) f32[4, 3]): the context of operand 1 is closed (at op_misuse_test.go:")

	masked := ggml.NewContext()
	defer masked.Close()
	masked.SoftMaxExt(masked.NewTensor(ggml.F32, 4, 3), ggml.SoftMaxOptions{Mask: closed.a})
	require.ErrorContains(t, masked.Err(), "soft_max_ext(leaf f32[4, 3], (closed) f32[4, 3]): the context of operand 1 is closed")

	closed.c.Abs(closed.a)
	require.ErrorIs(t, closed.c.Err(), ggml.ErrClosed)
	require.ErrorContains(t, closed.c.Err(), "ggml: abs((closed) f32[4, 3]): the context is closed (at op_misuse_test.go:")

	// Its tensors keep their shape, and nothing else.
	require.Equal(t, []int64{4, 3}, closed.a.Shape())
	require.Equal(t, "", closed.a.Name())
	require.False(t, closed.a.IsAllocated())
	require.Zero(t, closed.a.NumBytes())
	require.Zero(t, closed.a.Stride(1))
	require.False(t, closed.a.SetOutput().IsView())
	require.Equal(t, "none", closed.a.Op())
	for range closed.c.Tensors() {
		t.Fatal("a closed context has tensors")
	}
	require.False(t, optest.Finds(closed.c.Tensor("a")))
}
