package rpc

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/rpcwire"
	"github.com/goggml/ggml/internal/test/llmtest"
	"github.com/goggml/ggml/internal/test/loopback"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/llm/data"
	"github.com/goggml/ggml/llm/device"
	"github.com/goggml/ggml/llm/infer"
	"github.com/goggml/ggml/llm/layout"
	"github.com/goggml/ggml/llm/lora"
	"github.com/goggml/ggml/llm/model"
	"github.com/goggml/ggml/llm/train"
)

// A message is a request.
type message struct {
	command rpcwire.Command
	body    []byte
}

func (m message) bytes() []byte {
	return append(binary.LittleEndian.AppendUint64([]byte{byte(m.command)}, uint64(len(m.body))), m.body...)
}

// A session is the messages that a client has sent. The server gives the buffers of each client the same
// addresses in order of allocation, so after the same allocations a message means the same for another client.
type session []message

// allocations lists the messages that allocate.
func (s session) allocations() (list []message) {
	for _, m := range s {
		if m.command == rpcwire.AllocBuffer {
			list = append(list, m)
		}
	}
	return list
}

// graphs returns the messages that have a graph.
func (s session) graphs() (list []message) {
	for _, m := range s {
		if m.command == rpcwire.GraphCompute {
			list = append(list, m)
		}
	}
	return list
}

// A recorder is a proxy that records what clients send.
type recorder struct {
	listener net.Listener
	mu       sync.Mutex
	sent     []*[]byte // by connection
}

func record(t *testing.T, s *server) *recorder {
	r := &recorder{}
	r.listener = loopback.Serve(t, func(c net.Conn) { r.forward(c, s.endpoint) })
	return r
}

func (r *recorder) forward(client net.Conn, endpoint string) {
	server, err := net.Dial("tcp4", endpoint)
	if err != nil {
		return
	}
	defer server.Close()
	sent := &[]byte{}
	r.mu.Lock()
	r.sent = append(r.sent, sent)
	r.mu.Unlock()
	go io.Copy(client, server)
	buffer := make([]byte, 64<<10)
	for {
		n, err := client.Read(buffer)
		r.mu.Lock()
		*sent = append(*sent, buffer[:n]...)
		r.mu.Unlock()
		if _, failed := server.Write(buffer[:n]); err != nil || failed != nil {
			return
		}
	}
}

// sessions returns the sessions with graphs, or nil while a client is in the middle of a message.
func (r *recorder) sessions() (list []session) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, sent := range r.sent {
		var s session
		graphs := 0
		for p := *sent; len(p) > 0; {
			if len(p) < rpcwire.HeaderSize {
				return nil
			}
			m := message{command: rpcwire.Command(p[0])}
			n := binary.LittleEndian.Uint64(p[1:])
			if n > uint64(len(p)-rpcwire.HeaderSize) {
				return nil
			}
			m.body, p = p[rpcwire.HeaderSize:rpcwire.HeaderSize+n], p[rpcwire.HeaderSize+n:]
			s = append(s, m)
			if m.command == rpcwire.GraphCompute {
				graphs++
			}
		}
		if graphs > 0 {
			list = append(list, s[1:]) // without the handshake
		}
	}
	return list
}

// corpus records a client that computes each op, and clients that train a model and generate with it.
func corpus(t *testing.T, s *server) []session {
	r := record(t, s)
	remote := need.Value(ggml.AddRPCServer(r.listener.Addr().String()))(t)
	d := remote.Devices()[0]
	require.NoError(t, remote.Unload())
	manyOps(t, d)
	eachOp(t, d)
	for _, name := range []string{"llama", "qwen3moe"} {
		trainAndGenerate(t, d, name)
	}
	var list []session
	require.Eventually(t, func() bool { list = r.sessions(); return len(list) >= 3 }, 2*time.Minute, 50*time.Millisecond)
	return list
}

// manyOps computes a separate graph for each op, some with quantised operands, and makes all other kinds of
// requests.
func manyOps(t *testing.T, d *ggml.Device) {
	leaves, c := ggml.NewContext(), ggml.NewContext()
	defer leaves.Close()
	defer c.Close()
	x, y := leaves.NewTensor(ggml.F32, 16, 8, 2), leaves.NewTensor(ggml.F32, 16, 8, 2)
	m, half, q := leaves.NewTensor(ggml.F32, 16, 16), leaves.NewTensor(ggml.F16, 16, 16), leaves.NewTensor(ggml.Q8_0, 32, 16)
	ids, long, pos := leaves.NewTensor(ggml.I32, 3), leaves.NewTensor(ggml.I64, 3), leaves.NewTensor(ggml.I32, 2)
	experts, chosen := leaves.NewTensor(ggml.F32, 16, 8, 3), leaves.NewTensor(ggml.I32, 2, 8)
	column, vectors := leaves.NewTensor(ggml.F32, 32, 4), leaves.NewTensor(ggml.F32, 16, 2, 8)
	param, settings := leaves.NewTensor(ggml.F32, 16, 4).SetParam(), leaves.NewTensor(ggml.F32, 7)
	mask, kernel := leaves.NewTensor(ggml.F16, 8, 8), leaves.NewTensor(ggml.F16, 3, 3, 2, 4)
	image := leaves.NewTensor(ggml.F32, 9, 9, 2, 1)
	buffers := need.Value(leaves.Allocate(d.BufferType()))(t)
	defer buffers.Close()
	require.NoError(t, buffers.Clear(0))
	b := need.Value(d.NewBackend())(t)
	defer b.Close()
	a := need.Value(ggml.NewGraphAllocator(d.BufferType()))(t)
	defer a.Close()
	conv := ggml.ConvDim{Stride: 1, Padding: 1, Dilation: 1}
	pool := [2]ggml.PoolDim{{Size: 2}, {Size: 2}}
	rope := ggml.RoPE{Dims: 16, Mode: ggml.RoPENeoX, FreqBase: 1e4, FreqScale: 1, AttnFactor: 1, BetaFast: 32, BetaSlow: 1}
	for _, z := range []*ggml.Tensor{
		c.Add(x, y), c.AddInPlace(x, y), c.Mul(x, y), c.Div(x, y), c.Sub(x, y), c.ScaleBias(x, 2, 1), c.Clamp(x, -1, 1), c.Sqr(x),
		c.Silu(x), c.GeluErf(x), c.Unary(ggml.UnaryFloor, x), c.LeakyRelu(x, 0.1), c.GLUSplit(ggml.SwiGLU, x, y), c.GLU(ggml.GeGLU, x, false), c.SiluBack(x, y),
		c.Sum(x), c.SumRows(x), c.CumSum(x), c.Mean(x), c.ArgMax(m), c.ArgSort(x, ggml.Ascending), c.TopK(x, 3), c.ArgSortTopK(x, 3),
		c.Norm(x, 1e-5), c.RMSNorm(x, 1e-5), c.RMSNormBack(x, y, 1e-5), c.L2Norm(x, 1e-5), c.GroupNorm(x, 2, 1e-5),
		c.MulMat(m, x), c.MulMat(half, x), c.MulMat(q, column), c.MulMatID(experts, vectors, chosen), c.OutProd(m, m), c.Tri(m, ggml.Lower), c.SolveTri(m, m),
		c.Cast(x, ggml.F16), c.Copy(x, y), c.Cont(c.Transpose(m)), c.Repeat(x, 16, 16, 2), c.Concat(x, y, 1), c.Set(x, c.View(y, []int64{4, 2}, nil, 0), [3]int64{}, 64),
		c.Acc(x, c.View(y, []int64{4, 2}, nil, 0), [3]int64{}, 64), c.GetRows(m, ids), c.GetRows(q, ids), c.SetRows(m, c.View(x, []int64{16, 3}, nil, 0), long),
		c.GetRowsBack(c.View(x, []int64{16, 3}, nil, 0), ids, m), c.GetRows(m, c.ArgMax(m)), c.Pad(x, [4]int{1, 2}), c.PadReflect1D(x, 1, 2), c.Roll(x, [4]int{1}),
		c.SoftMax(x), c.SoftMaxBack(x, y, 1), c.RoPE(x, pos, nil, rope), c.RoPEBack(x, pos, nil, rope), c.FlashAttention(x, x, y, ggml.AttentionOptions{Mask: mask}),
		c.Im2Col(kernel, image, ggml.F16, conv, conv), c.Conv2DDirect(kernel, image, [2]ggml.ConvDim{conv, conv}), c.Pool2D(image, ggml.PoolMax, pool), c.Interpolate(image, ggml.ScaleBilinear, 5, 5, 2, 1),
		c.Arange(0, 9, 1), c.TimestepEmbedding(c.View(m, []int64{4}, nil, 0), 8, 100), c.WinPart(m, 3), c.SSMConv(c.View(m, []int64{16, 4}, nil, 0), c.View(x, []int64{4, 4}, nil, 0)),
		c.CrossEntropyLoss(x, y), c.OptStepAdamW(ggml.AdamWOperands{Param: param, Grad: c.View(x, []int64{16, 4}, nil, 0), M: c.View(y, []int64{16, 4}, nil, 0), V: c.View(m, []int64{16, 4}, nil, 0), Settings: settings}),
	} {
		require.NoError(t, c.Err())
		g := c.NewGraph(z)
		require.NoError(t, a.Allocate(g))
		require.NoError(t, b.Compute(t.Context(), g), z.Op())
	}
	require.NoError(t, ggml.CopyTensor(y, x))
	require.NoError(t, x.Memset(0))
	require.NoError(t, m.WriteRegion(make([]byte, 32), ggml.Region2D{Width: 8, Rows: 4, Stride: 64}))
	require.NoError(t, m.ReadRegion(make([]byte, 32), ggml.Region2D{Width: 8, Rows: 4, Stride: 64}))
}

func trainAndGenerate(t *testing.T, d *ggml.Device, name string) {
	path := llmtest.ArchModel(t, name, ggml.F32).Path
	m := need.Value(model.Load(path, model.LoadOptions{Layout: layout.On(d)}))(t)
	defer m.Close()
	e := need.Value(device.New(device.Options{Layout: layout.On(d), Threads: 1}))(t)
	defer e.Close()
	s := need.Value(infer.NewSession(m, infer.SessionOptions{Engine: e}))(t)
	q := need.Value(s.NewSequence())(t)
	for range 3 {
		_, err := q.Decode(context.Background(), llmtest.RandomTokens(1, 2, m.Config().Vocab))
		require.NoError(t, err)
	}
	require.NoError(t, s.Close())

	a := need.Value(lora.New(m, lora.Options{Rank: 2, Alpha: 4, Init: lora.InitKaiming, Seed: 1}))(t)
	defer a.Close()
	var samples []data.Sample
	for i := range 4 {
		samples = append(samples, data.Sample{Tokens: llmtest.RandomTokens(uint64(i), 9, m.Config().Vocab)})
	}
	tr := need.Value(train.New(m, train.Trainables{Adapters: a.WithScale(1)}, data.New(8, samples), train.Options{
		Schedule: train.Schedule{Peak: 0.003, Steps: 2}, AdamW: train.DefaultAdamW(), Batch: 2, Accumulate: 1, Engine: e,
	}))(t)
	defer tr.Close()
	require.NoError(t, tr.Run(context.Background(), train.RunOptions{}))
}
