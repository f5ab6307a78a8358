package ggml_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/refmath"
)

// signatures name an op with the types of its operands and result; a sum of tiled
// products, each product.
func signatures(n *ggml.Tensor) []string {
	var types []string
	for _, s := range n.Sources() {
		types = append(types, s.Type().String())
	}
	sign := func(types []string) string {
		return fmt.Sprintf("%s(%s) %v", n.Op(), strings.Join(types, ", "), n.Type())
	}
	if n.Op() != "custom" {
		return []string{sign(types)}
	}
	var all []string
	for pair := range slices.Chunk(types, 2) {
		all = append(all, sign(pair))
	}
	return all
}

// signatures lists those of the ops that a program computes; none when it is
// refused, or when the CPU does not claim them.
func (p *program) signatures(t testing.TB) []string {
	if p.leaves.Err() != nil || p.c.Err() != nil {
		return nil
	}
	var list []string
	for n := range p.c.NewGraph(p.y).Nodes() {
		if !computed(n) {
			continue
		}
		if !cpu(t).SupportsOp(n) {
			return nil
		}
		list = append(list, signatures(n)...)
	}
	require.NoError(t, p.c.Err())
	return list
}

// No op takes operands of types with which no case compares it with its
// reference: not when one operand of a case has another type, nor two.
func TestNoOtherTypesAccepted(t *testing.T) {
	tested, known := map[string]bool{}, map[string]bool{}
	cases := opCases()
	for i := range cases {
		k := &cases[i]
		k.fill()
		for _, typ := range k.types {
			d := k.draw(typ)
			for range k.runs {
				p := newProgram(k.args(d), k.build)
				list := p.signatures(t)
				for _, s := range list {
					tested[s] = true
				}
				taken := len(list) > 0 || p.onlyViews()
				assert.True(t, taken, "%s of %v is refused: %v %v", k.name, typ, p.leaves.Err(), p.c.Err())
				p.close()
			}
		}
	}
	untested := map[string]string{}
	bytewise := map[string]bool{} // see TestCopySameType
	for _, typ := range ggml.Types() {
		bytewise[fmt.Sprintf("cpy(%v, %v) %v", typ, typ, typ)] = true
		for _, op := range []string{"dup", "cont"} {
			bytewise[fmt.Sprintf("%s(%v) %v", op, typ, typ)] = true
		}
	}
	probe := func(k *opCase, args []arg) {
		p := newProgram(args, k.build)
		defer p.close()
		for _, s := range p.signatures(t) {
			if !tested[s] && !bytewise[s] {
				untested[s] = k.name
			}
		}
	}
	for i := range cases {
		k := &cases[i]
		args := k.probeArgs(k.types[0])
		if ops := fmt.Sprint(k.opNames(t, args)); known[ops] {
			continue
		} else {
			known[ops] = true
		}
		for _, a := range ggml.Types() {
			probe(k, k.probeArgs(a))
			for n := range args {
				probe(k, retyped(args, map[int]ggml.Type{n: a}))
			}
			for _, b := range ggml.Types() {
				for n := 1; n < len(args); n++ {
					probe(k, retyped(args, map[int]ggml.Type{0: a, n: b}))
				}
			}
		}
	}
	cast := &opCase{name: "cast"}
	for _, to := range ggml.Types() {
		for _, from := range ggml.Types() {
			args := []arg{{values: refmath.New(256, 2), typ: from}, {values: refmath.New(256, 2), typ: ggml.F32}}
			cast.build = func(c *ctx, x tensors) *ggml.Tensor { return c.Cast(x[0], to) }
			probe(cast, args)
			cast.build = func(c *ctx, x tensors) *ggml.Tensor { return c.AddCast(x[0], x[1], to) }
			probe(cast, args)
		}
	}
	require.Empty(t, untested)
}

// onlyViews tells whether the program computes nothing.
func (p *program) onlyViews() bool {
	if p.leaves.Err() != nil || p.c.Err() != nil {
		return false
	}
	return !slices.ContainsFunc(slices.Collect(p.c.NewGraph(p.y).Nodes()), computed)
}

// probeArgs draws operands whose rows suit blocks of all types.
func (k *opCase) probeArgs(typ ggml.Type) []arg {
	d := k.draw(typ)
	d.block = 256
	d.layouts = denseOnly
	return k.args(d)
}

// opNames names the ops that a case is made of.
func (k *opCase) opNames(t testing.TB, args []arg) []string {
	p := newProgram(args, k.build)
	defer p.close()
	require.NoError(t, p.c.Err(), k.name)
	names := []string{fmt.Sprint(p.y.IsView(), len(args))}
	for n := range p.c.NewGraph(p.y).Nodes() {
		names = append(names, n.Op())
	}
	return names
}

// retyped gives some operands other types.
func retyped(args []arg, types map[int]ggml.Type) []arg {
	args = slices.Clone(args)
	for i, t := range types {
		args[i].typ = t
	}
	return args
}

// Each operand of an op in each layout: what is let through is computed right.
func TestAcceptedLayouts(t *testing.T) {
	m := machines(t)[0]
	for _, k := range opCases() {
		k.fill()
		if k.inBytes {
			continue
		}
		t.Run(k.name, func(t *testing.T) {
			d := k.draw(k.types[len(k.types)-1])
			d.layouts = denseOnly
			for range 4 {
				args := k.args(d)
				for i := range args {
					for _, l := range anyLayout {
						if l == turned && args[i].typ.BlockSize() > 1 {
							continue // see TestTransposedBlocksRefused
						}
						laid := slices.Clone(args)
						laid[i].layout = l
						p := newProgram(laid, k.build)
						list := p.signatures(t)
						err := p.c.Err()
						p.close()
						if err != nil {
							require.Regexp(t, "contiguous", err.Error(), describe(laid))
						}
						if list != nil {
							k.check(t, m, laid, d.typ)
						}
					}
				}
			}
		})
	}
}

// The rows of a quantised tensor are blocks, and so are no columns: transposed it
// is nothing but a way to its memory.
func TestTransposedBlocksRefused(t *testing.T) {
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
			return c.FlashAttention(x, q, c.NewTensor(ggml.F32, 32, q.Dim(1)), nil, 1, 0, 0)
		},
		"values": func(c *ctx, q, x *ggml.Tensor) *ggml.Tensor {
			return c.FlashAttention(x, c.NewTensor(ggml.F32, x.Dim(0), q.Dim(1)), q, nil, 1, 0, 0)
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
		"tiled": func(c *ctx, q, x *ggml.Tensor) *ggml.Tensor { return c.TiledMulMat(q, x) },
		"tiled_x": func(c *ctx, q, x *ggml.Tensor) *ggml.Tensor {
			return c.TiledMulMatX(q, c.NewTensor(ggml.F32, q.Dim(1)))
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

// There are no empty tensors: what asks for one is refused.
func TestNothingIsEmpty(t *testing.T) {
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
