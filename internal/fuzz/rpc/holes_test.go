package rpc

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/rpcwire"
)

// The server refuses the requests that are known to end ggml's own server or to reveal its memory to a client
// (llama.cpp's threads of these numbers), and still serves other clients.
func TestKnownHoles(t *testing.T) {
	const size = placeSize
	refusesAll(t, map[string]func(c *client, p place){
		"25289: the address of a function as a parameter": func(c *client, p place) {
			y := node(p.tensor(2, ggml.F32, 64, 4), "custom")
			y.Params = [rpcwire.ParamWords]int32{0x41414141, 0x4141, 1}
			c.compute(p.tensor(1, ggml.F32, 0, 4), y)
		},
		"25289: and of map_custom": func(c *client, p place) {
			y := node(p.tensor(2, ggml.F32, 64, 4), "map_custom1", 1)
			y.Params = [rpcwire.ParamWords]int32{0x41414141, 0x4141, 1}
			c.compute(p.tensor(1, ggml.F32, 0, 4), y)
		},
		"25542: get_rows beyond its result": func(c *client, p place) {
			c.compute(p.tensor(1, ggml.F32, 0, 4, 4), p.tensor(2, ggml.I32, 128, 2), node(p.tensor(3, ggml.F32, size-16, 4, 1), "get_rows", 1, 2))
		},
		"26825: get_rows of more matrices than there are": func(c *client, p place) {
			c.compute(p.tensor(1, ggml.F32, 0, 4, 4), p.tensor(2, ggml.I32, 128, 1, 8), node(p.tensor(3, ggml.F32, 1024, 4, 1, 8), "get_rows", 1, 2))
		},
		"26912: set_rows into fewer matrices than there are": func(c *client, p place) {
			a, y := p.tensor(1, ggml.F32, 0, 4, 4), p.tensor(4, ggml.F32, 0, 4, 4)
			y.ViewSource = 1
			c.compute(a, p.tensor(2, ggml.F32, 512, 4, 1, 8), p.tensor(3, ggml.I32, 256, 1), node(y, "set_rows", 2, 3, 1))
		},
		"27283: get_rows_back of a row out of range": func(c *client, p place) {
			ids := p.tensor(2, ggml.I32, 128, 1)
			c.set(ids, numbers(999999))
			c.compute(p.tensor(1, ggml.F32, 0, 4, 1), ids, node(p.tensor(3, ggml.F32, 1024, 4, 8), "get_rows_back", 1, 2))
		},
		"gated_delta_net of queries whose elements are not adjacent": func(c *client, p place) {
			q, row := p.tensor(1, ggml.F32, 0, 4, 2), p.tensor(3, ggml.F32, 256, 1, 2)
			q.Nb[0], q.Nb[1], q.Nb[2], q.Nb[3] = 8, 4, 32, 32
			c.compute(q, p.tensor(2, ggml.F32, 128, 4, 2), row, p.tensor(4, ggml.F32, 512, 4, 4, 2), node(p.tensor(5, ggml.F32, 1024, 8, 5), "gated_delta_net", 1, 2, 2, 3, 3, 4))
		},
		"a row number out of range": func(c *client, p place) {
			ids := p.tensor(2, ggml.I32, 128, 1)
			c.set(ids, numbers(4))
			c.compute(p.tensor(1, ggml.F32, 0, 4, 4), ids, node(p.tensor(3, ggml.F32, 1024, 4, 1), "get_rows", 1, 2))
		},
		"a row number that the graph computes": func(c *client, p place) {
			x := p.tensor(1, ggml.F32, 0, 4)
			c.set(x, []byte{0, 0, 0x80, 0x4f, 0, 0, 0x80, 0x4f, 0, 0, 0x80, 0x4f, 0, 0, 0x80, 0x4f}) // 2³²
			ids := node(p.tensor(2, ggml.I32, 128, 4), "cpy", 1, 2)
			y := node(p.tensor(4, ggml.F32, 1024, 4, 4), "get_rows", 3, 2)
			g := rpcwire.Graph{Nodes: []uint64{2, 4}, Tensors: []rpcwire.Tensor{x, ids, p.tensor(3, ggml.F32, 256, 4, 4), y}}
			c.send(rpcwire.GraphCompute, g.Append(nil))
		},
		"row numbers in a moment that the optimizer writes": func(c *client, p place) {
			ones := []byte{0, 0, 0x80, 0x3f, 0, 0, 0x80, 0x3f}
			param, grad, m, v := p.tensor(1, ggml.F32, 0, 2), p.tensor(2, ggml.F32, 64, 2), p.tensor(3, ggml.F32, 128, 2), p.tensor(4, ggml.F32, 192, 2)
			settings := p.tensor(5, ggml.F32, 256, 7)
			const parameter = 4 // GGML_TENSOR_FLAG_PARAM
			param.Flags = parameter
			c.set(grad, ones)
			step := node(p.tensor(6, ggml.F32, 0, 2), "opt_step_adamw", 1, 2, 3, 4, 5)
			step.ViewSource = 1
			ids, rows := p.tensor(7, ggml.I32, 128, 2), p.tensor(8, ggml.F32, 512, 4, 4) // row 0 until the moment changes
			y := node(p.tensor(9, ggml.F32, 1024, 4, 2), "get_rows", 8, 7)
			g := rpcwire.Graph{Nodes: []uint64{6, 9}, Tensors: []rpcwire.Tensor{param, grad, m, v, settings, step, ids, rows, y}}
			c.send(rpcwire.GraphCompute, g.Append(nil))
		},
		"25703: a graph again whose buffer is gone": func(c *client, p place) {
			other := c.alloc(64)
			g := rpcwire.Graph{UID: 7, Nodes: []uint64{2}, Tensors: []rpcwire.Tensor{other.tensor(1, ggml.F32, 0, 4), node(p.tensor(2, ggml.F32, 0, 4), "sqr", 1)}}
			c.send(rpcwire.GraphCompute, g.Append(nil))
			c.served()
			c.send(rpcwire.FreeBuffer, binary.LittleEndian.AppendUint64(nil, other.number))
			c.send(rpcwire.GraphRecompute, binary.LittleEndian.AppendUint64([]byte{0, 0, 0, 0}, 7))
		},
		"and one whose row numbers are gone": func(c *client, p place) {
			other := c.alloc(64)
			y := node(p.tensor(3, ggml.F32, 1024, 4, 2), "get_rows", 1, 2)
			g := rpcwire.Graph{UID: 7, Nodes: []uint64{3}, Tensors: []rpcwire.Tensor{p.tensor(1, ggml.F32, 0, 4, 4), other.tensor(2, ggml.I32, 0, 2), y}}
			c.set(g.Tensors[1], numbers(0, 3))
			c.send(rpcwire.GraphCompute, g.Append(nil))
			c.served()
			c.send(rpcwire.FreeBuffer, binary.LittleEndian.AppendUint64(nil, other.number))
			c.send(rpcwire.GraphRecompute, binary.LittleEndian.AppendUint64([]byte{0, 0, 0, 0}, 7))
		},
		"25764: a negative stride of acc": func(c *client, p place) {
			y := node(p.tensor(3, ggml.F32, 1024, 16, 4), "acc", 1, 2)
			y.Params = [rpcwire.ParamWords]int32{-64, 128, 128, 64}
			c.compute(p.tensor(1, ggml.F32, 0, 16, 4), p.tensor(2, ggml.F32, 512, 4, 3, 2), y)
		},
		"20908: a tensor of no buffer": func(c *client, p place) {
			x := p.tensor(1, ggml.F32, 0, 4)
			x.Buffer, x.Data = 0, 0x41414141
			c.compute(x, node(p.tensor(2, ggml.F32, 0, 4), "sqr", 1))
		},
		"another client's buffer": func(c *client, p place) {
			x := place{p.number + 1, p.base + 1<<40}.tensor(1, ggml.F32, 0, 4)
			c.compute(x, node(p.tensor(2, ggml.F32, 0, 4), "sqr", 1))
		},
		"a graph that does not end": func(c *client, p place) {
			x, y := node(p.tensor(1, ggml.F32, 0, 4), "sqr", 2), node(p.tensor(2, ggml.F32, 64, 4), "sqr", 1)
			g := rpcwire.Graph{Nodes: []uint64{1, 2}, Tensors: []rpcwire.Tensor{x, y}}
			c.send(rpcwire.GraphCompute, g.Append(nil))
		},
		"a view of itself": func(c *client, p place) {
			x := p.tensor(1, ggml.F32, 0, 4)
			x.ViewSource = 1
			c.compute(x, node(p.tensor(2, ggml.F32, 0, 4), "sqr", 1))
		},
		"a view beyond a tensor that lies nowhere":          func(c *client, p place) { stepView(c, p, 0) },
		"and one at an offset without an end":               func(c *client, p place) { stepView(c, p, 1<<63-4) },
		"and one at an offset that is not of whole numbers": func(c *client, p place) { stepView(c, p, 2) },
		"a tensor beyond its buffer":                        func(c *client, p place) { c.set(p.tensor(1, ggml.F32, size-4, 4), make([]byte, 16)) },
		"data beyond its tensor":                            func(c *client, p place) { c.set(p.tensor(1, ggml.F32, 0, 4), make([]byte, 20)) },
		"a read beyond its tensor": func(c *client, p place) {
			c.get(p.tensor(1, ggml.F32, 0, 4), 0)
			get(c, p.tensor(1, ggml.F32, 0, 4), 20)
		},
		"sizes whose product overflows": func(c *client, p place) {
			x := p.tensor(1, ggml.F32, 0, 1<<31, 1<<31, 2, 2)
			x.Nb = [4]uint32{4, 0, 0, 0}
			get(c, x, 4)
		},
		"a type that there is not": func(c *client, p place) { get(c, withType(p.tensor(1, ggml.F32, 0, 4), 1<<30), 4) },
		"a type that was removed":  func(c *client, p place) { get(c, withType(p.tensor(1, ggml.F32, 0, 4), 4), 4) },
		"rows upon each other": func(c *client, p place) {
			body := p.tensor(1, ggml.F32, 0, 4).Append(nil)
			for _, n := range []uint64{0, 4, 1 << 60, 0} {
				body = binary.LittleEndian.AppendUint64(body, n)
			}
			c.send(rpcwire.GetTensor2D, body)
		},
		"more memory than there is, and then its address": func(c *client, _ place) {
			c.send(rpcwire.AllocBuffer, binary.LittleEndian.AppendUint64([]byte{0, 0, 0, 0}, 1<<62))
			require.Equal(c.t, make([]byte, 16), c.reply())
			c.send(rpcwire.BufferGetBase, make([]byte, 8))
		},
		"a device that there is not": func(c *client, _ place) { c.send(rpcwire.GetAlignment, []byte{1, 0, 0, 0}) },
		"a buffer that is freed twice": func(c *client, p place) {
			for range 2 {
				c.send(rpcwire.FreeBuffer, binary.LittleEndian.AppendUint64(nil, p.number))
			}
		},
		"a group of servers": func(c *client, _ place) {
			c.send(rpcwire.CommInit, make([]byte, 80))
			require.Equal(c.t, []byte{0}, c.reply())
			c.send(rpcwire.CommAllReduce, make([]byte, 4+rpcwire.TensorSize))
		},
		"a result over an operand that the op sorts": func(c *client, p place) {
			c.compute(p.tensor(1, ggml.F32, 0, 16), node(p.tensor(2, ggml.I32, 0, 16), "argsort", 1))
		},
		"a pooling of windows without end": func(c *client, p place) {
			y := node(p.tensor(2, ggml.F32, 1024, 1, 1), "pool_2d", 1)
			y.Params = [rpcwire.ParamWords]int32{0, 1 << 20, 1 << 20, 1, 1, 1<<19 - 1, 1<<19 - 1}
			c.compute(p.tensor(1, ggml.F32, 0, 2, 2), y)
		},
	})
}

// placeSize is the size of the buffer of a client of refusesAll.
const placeSize = 4096

// refusesAll requires that a server refuses what each client sends, and still serves others.
func refusesAll(t *testing.T, clients map[string]func(c *client, p place)) {
	t.Helper()
	s := start(t, usual)
	for name, send := range clients {
		t.Run(name, func(t *testing.T) {
			c := s.dial(t)
			send(c, c.alloc(placeSize))
			c.send(rpcwire.DeviceCount, nil)
			c.refused()
			s.dial(t).served()
		})
	}
}

// stepView steps a view of 16 numbers at an offset in a tensor of four numbers; neither is allocated.
func stepView(c *client, p place, offset uint64) {
	root, a := p.tensor(1, ggml.F32, 0, 4), p.tensor(2, ggml.F32, 0, 16)
	root.Buffer, root.Data, a.Buffer, a.Data = 0, 0, 0, 0
	const parameter = 4 // GGML_TENSOR_FLAG_PARAM
	a.ViewSource, a.ViewOffset, a.Flags = 1, offset, parameter
	y := node(p.tensor(5, ggml.F32, 0, 16), "opt_step_sgd", 2, 3, 4)
	y.ViewSource, y.ViewOffset = 1, offset
	c.compute(root, a, p.tensor(3, ggml.F32, 1024, 16), p.tensor(4, ggml.F32, 2048, 2), y)
}

func get(c *client, t rpcwire.Tensor, n uint64) {
	body := binary.LittleEndian.AppendUint64(t.Append(nil), 0)
	c.send(rpcwire.GetTensor, binary.LittleEndian.AppendUint64(body, n))
}

func withType(t rpcwire.Tensor, typ uint32) rpcwire.Tensor {
	t.Type = typ
	return t
}

// Row indices that a graph computes are checked before use; valid ones are used.
func TestComputedRows(t *testing.T) {
	s := start(t, usual)
	c := s.dial(t)
	p := c.alloc(4096)
	x, rows := p.tensor(1, ggml.F32, 0, 2), p.tensor(3, ggml.F32, 256, 1, 3)
	c.set(x, []byte{0, 0, 0, 0x40, 0, 0, 0, 0}) // 2, 0
	c.set(rows, numbers(7, 8, 9))
	ids, y := node(p.tensor(2, ggml.I32, 128, 2), "cpy", 1, 2), node(p.tensor(4, ggml.F32, 1024, 1, 2), "get_rows", 3, 2)
	g := rpcwire.Graph{UID: 1, Nodes: []uint64{2, 4}, Tensors: []rpcwire.Tensor{x, ids, rows, y}}
	c.send(rpcwire.GraphCompute, g.Append(nil))
	require.Equal(t, numbers(9, 7), c.get(y, 8))
	c.set(x, []byte{0, 0, 0x80, 0x3f, 0, 0, 0, 0x40}) // 1, 2
	again := binary.LittleEndian.AppendUint64([]byte{0, 0, 0, 0}, 1)
	c.send(rpcwire.GraphRecompute, again)
	require.Equal(t, numbers(8, 9), c.get(y, 8))
	c.set(x, []byte{0, 0, 0x40, 0x40, 0, 0, 0, 0x40}) // 3, 2
	c.send(rpcwire.GraphRecompute, again)
	c.refused()
}
