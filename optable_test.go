package ggml_test

import (
	"fmt"
	"go/doc"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/fuzz/calls"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/optest"
	"github.com/goggml/ggml/internal/test/refmath"
)

// notOps make a tensor but compute nothing, or call functions of the program.
var notOps = []string{"NewTensor", "NewTensorLike", "NewTensorOf", "NewF32", "NewI32", "Alias", "AliasOf", "BuildOp", "Custom", "CustomInPlace", "MapCustom", "MapCustomInPlace"}

const contextMethods = "github.com/goggml/ggml.(*Context)."

// ops lists the methods of a context that build ops.
func ops() []string {
	var list []string
	for i := range reflect.TypeFor[*ctx]().NumMethod() {
		m := reflect.TypeFor[*ctx]().Method(i)
		tensors := m.Type.NumOut() > 0
		for i := range m.Type.NumOut() {
			tensors = tensors && m.Type.Out(i) == reflect.TypeFor[*ggml.Tensor]()
		}
		if tensors && !slices.Contains(notOps, m.Name) {
			list = append(list, m.Name)
		}
	}
	return list
}

func TestEveryOpHasReference(t *testing.T) {
	built := optest.FindBuilders(t, contextMethods, opCases())
	for _, name := range ops() {
		assert.Contains(t, built.Result, name, "no case compares Context.%s with its reference", name)
	}
}

// hasBackward reports whether an op has a backward according to its documentation: it has one
// unless the documentation denies it, or the op works in place.
func hasBackward(op *doc.Func) bool {
	text := strings.Join(strings.Fields(op.Doc), " ")
	return !strings.HasSuffix(op.Name, "InPlace") && !strings.Contains(text, "no backward") && !strings.Contains(text, "It stops gradients")
}

func TestEveryBackwardHasCentralDifferences(t *testing.T) {
	binding := need.Value(calls.Load("."))(t)
	documented, built := 0, optest.FindBuilders(t, contextMethods, allGradCases())
	for _, of := range binding.Types {
		for _, m := range of.Methods {
			if of.Name == "Context" && slices.Contains(ops(), m.Name) && hasBackward(m) {
				documented++
				assert.True(t, built.Used[m.Name], "no case compares the gradients of Context.%s with central differences", m.Name)
			}
		}
	}
	require.Greater(t, documented, 40)
}

// Ops refuse all types without a case that compares them with the reference.
func TestEveryTypeIsTested(t *testing.T) {
	untested := optest.UntestedTypes(t, opCases(), castProbes())
	for _, typ := range ggml.Types() { // bytewise copies: see TestCopySameType
		delete(untested, fmt.Sprintf("cpy(%v, %v) %v", typ, typ, typ))
		for _, op := range []string{"dup", "cont"} {
			delete(untested, fmt.Sprintf("%s(%v) %v", op, typ, typ))
		}
	}
	require.Empty(t, untested)
}

// castProbes returns conversions between all types: the type of their result is an argument.
func castProbes() []optest.Case {
	var probes []optest.Case
	for _, to := range ggml.Types() {
		for _, from := range ggml.Types() {
			operands := func(*draw) []operand {
				return []operand{{Values: refmath.New(256, 2), Type: from}, {Values: refmath.New(256, 2), Type: ggml.F32}}
			}
			probes = append(probes,
				opCase{Name: "cast", Operands: operands, Build: func(c *ctx, x tensors) *ggml.Tensor { return c.Cast(x[0], to) }},
				opCase{Name: "add_cast", Operands: operands, Build: func(c *ctx, x tensors) *ggml.Tensor { return c.AddCast(x[0], x[1], to) }})
		}
	}
	return probes
}

// Tests each operand of an op in each layout: accepted layouts give right results.
func TestEveryLayout(t *testing.T) { optest.RunLayouts(t, opCases()) }

// Blocks of a quantised tensor run along rows: a transposed one only gives access to its memory.
func TestTransposedBlockErrors(t *testing.T) {
	ops := map[string]func(c *ctx, q, x *ggml.Tensor) *ggml.Tensor{
		"mul_mat":  (*ctx).MulMat,
		"out_prod": func(c *ctx, q, x *ggml.Tensor) *ggml.Tensor { return c.OutProd(q, c.NewTensor(ggml.F32, 3, q.Dim(1))) },
		"mul_mat_id": func(c *ctx, q, x *ggml.Tensor) *ggml.Tensor {
			return c.MulMatID(q, x, c.Cast(c.Fill(c.NewTensor(ggml.F32, 1, 1), 0), ggml.I32))
		},
		"get_rows": func(c *ctx, q, x *ggml.Tensor) *ggml.Tensor { return c.GetRows(q, c.NewTensor(ggml.I32, 1)) },
		"set_rows": func(c *ctx, q, x *ggml.Tensor) *ggml.Tensor {
			return c.SetRows(q, c.NewTensor(ggml.F32, q.Dim(0)), c.NewTensor(ggml.I32, 1))
		},
		"keys": func(c *ctx, q, x *ggml.Tensor) *ggml.Tensor {
			return c.FlashAttention(x, q, c.NewTensor(ggml.F32, 32, q.Dim(1)), ggml.AttentionOptions{})
		},
		"values": func(c *ctx, q, x *ggml.Tensor) *ggml.Tensor {
			return c.FlashAttention(x, c.NewTensor(ggml.F32, x.Dim(0), q.Dim(1)), q, ggml.AttentionOptions{})
		},
		"copy": func(c *ctx, q, x *ggml.Tensor) *ggml.Tensor {
			return c.Copy(q, c.NewTensor(ggml.F32, q.Dim(0), q.Dim(1)))
		},
		"copy_to": func(c *ctx, q, x *ggml.Tensor) *ggml.Tensor {
			return c.Copy(c.NewTensor(ggml.F32, q.Dim(0), q.Dim(1)), q)
		},
		"copy_like": func(c *ctx, q, x *ggml.Tensor) *ggml.Tensor { return c.Copy(q, q) },
		"cast":      func(c *ctx, q, x *ggml.Tensor) *ggml.Tensor { return c.Cast(q, ggml.F32) },
		"add_cast": func(c *ctx, q, x *ggml.Tensor) *ggml.Tensor {
			return c.AddCast(q, c.NewTensor(ggml.F32, q.Dim(0), q.Dim(1)), ggml.F32)
		},
	}
	for name, op := range ops {
		for _, shape := range [][2]int64{{32, 5}, {64, 32}} {
			c := ggml.NewContext()
			q := c.Transpose(c.NewTensor(ggml.Q4_0, shape[0], shape[1]))
			op(c, q, c.NewTensor(ggml.F32, q.Dim(0), 1))
			require.Error(t, c.Err(), "%s of %v", name, q)
			require.Regexp(t, "contiguous|transposed|multiple of 32", c.Err().Error(), name)
			c.Close()
		}
	}
}

// There are no empty tensors: making one is an error.
func TestNoEmptyTensors(t *testing.T) {
	for name, build := range map[string]func(c *ctx, x *ggml.Tensor) *ggml.Tensor{
		"new":         func(c *ctx, x *ggml.Tensor) *ggml.Tensor { return c.NewTensor(ggml.F32, 4, 0) },
		"view":        func(c *ctx, x *ggml.Tensor) *ggml.Tensor { return c.View(x, []int64{0}, nil, 0) },
		"reshape":     func(c *ctx, x *ggml.Tensor) *ggml.Tensor { return c.Reshape(x, 0, 4) },
		"cont":        func(c *ctx, x *ggml.Tensor) *ggml.Tensor { return c.Cont(x, 12, 0) },
		"repeat":      func(c *ctx, x *ggml.Tensor) *ggml.Tensor { return c.Repeat(x, 4, 0) },
		"interpolate": func(c *ctx, x *ggml.Tensor) *ggml.Tensor { return c.Interpolate(x, ggml.ScaleNearest, 0, 3) },
		"win_unpart":  func(c *ctx, x *ggml.Tensor) *ggml.Tensor { return c.WinUnpart(x, 0, 3) },
		"top_k":       func(c *ctx, x *ggml.Tensor) *ggml.Tensor { return c.TopK(x, 0) },
		"timestep":    func(c *ctx, x *ggml.Tensor) *ggml.Tensor { return c.TimestepEmbedding(x, 0, 9) },
		"rel_pos":     func(c *ctx, x *ggml.Tensor) *ggml.Tensor { return c.GetRelPos(c.Cast(x, ggml.F16), 0) },
		"arange":      func(c *ctx, x *ggml.Tensor) *ggml.Tensor { return c.Arange(1, 1, 1) },
	} {
		c := ggml.NewContext()
		build(c, c.NewTensor(ggml.F32, 4, 3))
		require.Error(t, c.Err(), name)
		require.Regexp(t, "must be (at least )?1|must be 1 to|there must be 1|is empty", c.Err().Error(), name)
		c.Close()
	}
}

// Backward refuses ops whose gradients are not compared with central differences.
func TestEveryBackwardIsTested(t *testing.T) {
	require.Greater(t, optest.CheckBackward(t, opCases(), allGradCases()), 50)
}

// Every device computes at least a large enough product.
func TestEveryDeviceComputes(t *testing.T) {
	d := optest.NewDraw(3, ggml.F32)
	for _, dev := range optest.Devices(t) {
		_, ok := dev.Eval(t, []operand{d.Normal(64, 64), d.Normal(64, 64)}, func(c *ctx, x tensors) *ggml.Tensor { return c.MulMat(x[0], x[1]) })
		require.True(t, ok, dev.Name)
	}
}
