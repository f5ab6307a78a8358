package rpc

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/rpcwire"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/kernels"
)

// native describes a tensor of a native op with parameters of its own.
func native(t rpcwire.Tensor, op string, own []int32, sources ...uint64) rpcwire.Tensor {
	y, id := node(t, "custom", sources...), rpcwire.OpID(op)
	y.Params[0], y.Params[1], y.Params[2] = int32(id), int32(id>>32), -1 // by any number of threads
	copy(y.Params[ggml.NativeParamsOffset/4:], own)
	return y
}

// changed is native, of an op that changes its first operand.
func changed(x rpcwire.Tensor, id uint64, op string, sources ...uint64) rpcwire.Tensor {
	x.ID, x.ViewSource = id, x.ID
	return native(x, op, nil, sources...)
}

func needKernels(t *testing.T) {
	if need.Value(kernels.GEMMLibrary())(t) == "" {
		t.Skip("there is no GEMM library, which kernels of training need")
	}
}

// A server computes kernels that clients name, and lists them.
func TestKernels(t *testing.T) {
	needKernels(t)
	s := start(t, usual)
	lists := s.dial(t)
	lists.send(rpcwire.NativeOps, make([]byte, 4))
	require.Contains(t, strings.Split(string(lists.reply()), "\n"), "gemm")
	for _, request := range [][]byte{{7, 0, 0, 0}, {0, 0, 0, 0, 0}} { // a device that there is not, and too much
		c := s.dial(t)
		c.send(rpcwire.NativeOps, request)
		c.refused()
	}
	c := s.dial(t)
	p := c.alloc(placeSize)
	x, y := p.tensor(1, ggml.F32, 0, 2), native(p.tensor(2, ggml.F32, 64, 1), "sum_squares", nil, 1)
	c.set(x, []byte{0, 0, 0x80, 0x3f, 0, 0, 0, 0x40})
	c.compute(x, y)
	require.Equal(t, []byte{0, 0, 0xa0, 0x40}, c.get(y, 4)) // 5
	labels := p.tensor(4, ggml.I32, 192, 2)
	c.set(labels, numbers(2, 1<<31-1)) // labels that do not exist
	losses := native(p.tensor(5, ggml.F32, 256, 2, 3), "cross_entropy", nil, 3, 4)
	c.compute(p.tensor(3, ggml.F32, 128, 2, 2), labels, losses)
	nan := []byte{0, 0, 0xc0, 0x7f}
	require.Equal(t, slices.Concat(nan, nan), c.get(losses, 24)[:8])
}

// Kernels are refused whose operands, results or parameters do not fit, or share memory.
func TestKernelHoles(t *testing.T) {
	needKernels(t)
	one := int32(0x3f800000)
	refusesAll(t, map[string]func(c *client, p place){
		"an op that there is not": func(c *client, p place) {
			c.compute(p.tensor(1, ggml.F32, 0, 4), native(p.tensor(2, ggml.F32, 64, 1), "nothing", nil, 1))
		},
		"more results than operands": func(c *client, p place) {
			c.compute(p.tensor(1, ggml.F32, 0, 4), native(p.tensor(2, ggml.F32, 64, 400), "sum_squares", nil, 1))
		},
		"no operands": func(c *client, p place) {
			c.compute(p.tensor(1, ggml.F32, 0, 4), native(p.tensor(2, ggml.F32, 64, 1), "sum_squares", nil))
		},
		"an operand of another type": func(c *client, p place) {
			c.compute(p.tensor(1, ggml.F16, 0, 4), native(p.tensor(2, ggml.F32, 64, 1), "sum_squares", nil, 1))
		},
		"userdata": func(c *client, p place) {
			y := native(p.tensor(2, ggml.F32, 64, 1), "sum_squares", nil, 1)
			y.Params[4] = 0x41414141
			c.compute(p.tensor(1, ggml.F32, 0, 4), y)
		},
		"a counter of chunks": func(c *client, p place) {
			y := native(p.tensor(3, ggml.F32, 512, 4, 4), "gemm", nil, 1, 2)
			y.Params[rpcwire.ParamWords-1] = -1 << 31
			c.compute(p.tensor(1, ggml.F32, 0, 4, 4), p.tensor(2, ggml.F32, 128, 4, 4), y)
		},
		"a weight whose index is beyond the operands": func(c *client, p place) {
			c.compute(p.tensor(1, ggml.F32, 0, 4), native(p.tensor(2, ggml.F32, 64, 4), "layer_norm", []int32{0, 7, 0}, 1))
		},
		"an epsilon that is not a number": func(c *client, p place) {
			c.compute(p.tensor(1, ggml.F32, 0, 4), native(p.tensor(2, ggml.F32, 64, 4), "layer_norm", []int32{0x7fc00000, 0, 0}, 1))
		},
		"bounds of fewer queries": func(c *client, p place) {
			y := native(p.tensor(3, ggml.F32, 1024, 4, 1, 8), "causal_attention", []int32{one, 0, 0, 0, 3, 0, 0}, 1, 1, 1, 2)
			c.compute(p.tensor(1, ggml.F32, 0, 4, 1, 8), p.tensor(2, ggml.I32, 512, 2), y)
		},
		"samples that start in fewer tokens": func(c *client, p place) {
			q, row := p.tensor(1, ggml.F32, 0, 4, 1, 8), p.tensor(2, ggml.F32, 512, 1, 8)
			y := native(p.tensor(4, ggml.F32, 1024, 4, 1, 8), "gated_delta_rule", []int32{5, 0}, 1, 1, 1, 2, 2, 3)
			c.compute(q, row, p.tensor(3, ggml.I32, 640, 4), y)
		},
		"experts of fewer tokens": func(c *client, p place) {
			y := native(p.tensor(4, ggml.F32, 1024, 4, 1, 8), "grouped_gemm", nil, 1, 2, 3)
			c.compute(p.tensor(1, ggml.F32, 0, 4, 4, 2), p.tensor(2, ggml.F32, 256, 4, 1, 8), p.tensor(3, ggml.I32, 640, 1, 4), y)
		},
		"a gradient over its labels": func(c *client, p place) {
			logits, labels := p.tensor(1, ggml.F32, 0, 4, 2), p.tensor(2, ggml.I32, 16, 2)
			y := changed(logits, 5, "cross_entropy_grad", 1, 2, 3, 4)
			c.compute(logits, labels, p.tensor(3, ggml.F32, 256, 2), p.tensor(4, ggml.F32, 320, 2, 2), y)
		},
		"an expert's gradient over the numbers of experts": func(c *client, p place) {
			dw, ids := p.tensor(1, ggml.F32, 0, 2, 2, 2), p.tensor(3, ggml.I32, 16, 1, 2)
			c.compute(dw, p.tensor(2, ggml.F32, 64, 2, 1, 2), ids, changed(dw, 4, "accumulate_grouped_grad_weight", 1, 2, 2, 3))
		},
		"a result over its operand": func(c *client, p place) {
			c.compute(p.tensor(1, ggml.F32, 0, 16), native(p.tensor(2, ggml.F32, 0, 16), "layer_norm", []int32{one, 0, 0}, 1))
		},
		"row numbers in a moment that the optimizer writes": func(c *client, p place) {
			param, grad, m, v := p.tensor(1, ggml.F32, 0, 2), p.tensor(2, ggml.F32, 64, 2), p.tensor(3, ggml.F32, 128, 2), p.tensor(4, ggml.F32, 192, 2)
			settings := p.tensor(5, ggml.F32, 256, 8)
			c.set(grad, []byte{0, 0, 0x80, 0x3f, 0, 0, 0x80, 0x3f})
			c.set(settings, numbers(one, 0, 0, one, 0, one, one, one))
			step := changed(param, 6, "adamw_step", 1, 2, 3, 4, 5)
			ids, rows := p.tensor(7, ggml.I32, 128, 2), p.tensor(8, ggml.F32, 512, 4, 4) // row 0 until the moment changes
			y := node(p.tensor(9, ggml.F32, 1024, 4, 2), "get_rows", 8, 7)
			g := rpcwire.Graph{Nodes: []uint64{6, 9}, Tensors: []rpcwire.Tensor{param, grad, m, v, settings, step, ids, rows, y}}
			c.send(rpcwire.GraphCompute, g.Append(nil))
		},
	})
}
