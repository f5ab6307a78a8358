package device_test

import (
	"context"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/llmtest"
	"github.com/goggml/ggml/internal/test/loopback"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/optest"
	"github.com/goggml/ggml/internal/testhook"
	"github.com/goggml/ggml/llm/device"
	"github.com/goggml/ggml/llm/infer"
	"github.com/goggml/ggml/llm/layout"
	"github.com/goggml/ggml/llm/model"
	"github.com/goggml/ggml/llm/train"
)

// On servers, with and without the CPU, a hundred steps have the losses of stock ops on the CPU, and the same tokens
// afterwards, whether the CPU's part uses stock ops or kernels. One architecture takes a hundred, the others a quarter;
// in make fuzz all take a hundred.
func TestHundredSteps(t *testing.T) {
	need.Time(t, "trains many times")
	a, b := remote(t), remote(t)
	names := append([]string{"phi3"}, planned...)
	var steps int
	trainer := func(m *model.Model, e *device.Engine) *train.Trainer {
		o := trainOptions(e, train.CheckpointingOff)
		o.Schedule.Steps, o.Accumulate = steps, 1 // TestSplitTrains accumulates
		tr := need.Value(train.New(m, train.Trainables{Adapters: newAdapter(t, m).WithScale(1)}, samples(m.Config().Vocab), o))(t)
		t.Cleanup(func() { tr.Close() })
		require.NoError(t, tr.Run(context.Background(), train.RunOptions{}))
		return tr
	}
	for _, name := range names {
		if steps = 25; llmtest.TakesAll() || name == "llama" {
			steps = 100
		}
		m := llmtest.ArchModel(t, name, ggml.F32)
		one := newEngine(t, device.Options{OpSet: device.Stock})
		single := trainer(m, one)
		text := greedy(t, m, one)
		needs := trainingEstimate(t, m, train.CheckpointingOff)
		all := need.Value(needs.In(layout.On(a)))(t)
		half := m.Config().Layers / 2
		tolerance := 1e-6
		if name == "gemma3" {
			tolerance = 1e-4 // the CPU's GELU table has inputs of 11 bits: a difference in the last bit selects another entry
		}
		for what, p := range map[string]layout.Planner{
			"the CPU and a device":     {Devices: []*ggml.Device{a}, DeviceLayers: &half},
			"two devices":              {Devices: []*ggml.Device{a, b}},
			"a device with too little": {Devices: []*ggml.Device{small(t, all[0]*3/4)}},
		} {
			t.Run(name+" "+what, func(t *testing.T) {
				p.Layers, p.Tied, p.Need = m.Config().Layers, m.Config().Tied, needs.In
				plan := need.Value(p.Plan())(t)
				on := loadOn(t, m, plan.Layout)
				for ops, tolerance := range map[device.OpSet]float64{device.Stock: tolerance, "": 1e-4} {
					e := newEngine(t, device.Options{Layout: plan.Layout, OpSet: ops})
					tr := trainer(on, e)
					requireSameLosses(t, single.History, tr.History, tolerance)
					require.NoError(t, tr.Close()) // frees memory for the session
					require.Equal(t, text, greedy(t, on, e))
					require.NoError(t, e.Close())
				}
			})
		}
	}
}

// ending maps names to ways in which a server ends: killed, or stopped so that it no longer answers. stall is the time
// limit for an answer, if shorter than usual.
var ending = map[string]struct {
	signal syscall.Signal
	stall  time.Duration
	says   string
}{
	"killed":  {syscall.SIGKILL, 0, "it has closed the connection"},
	"stopped": {syscall.SIGSTOP, time.Second, "it has not answered for 1s"},
}

// requireGone checks for the error of a lost server, with its name.
func requireGone(t *testing.T, err error, endpoint, says string, begin time.Time) {
	t.Helper()
	require.ErrorIs(t, err, ggml.ErrDisconnected)
	require.ErrorContains(t, err, "RPC server "+endpoint)
	require.ErrorContains(t, err, says)
	require.Less(t, time.Since(begin), time.Minute)
}

// onComputation calls f once, when the n-th computation from now begins, unless undone.
func onComputation(n int64, f func()) (undo func()) {
	var count atomic.Int64
	testhook.Submitting = func(...any) {
		if count.Add(1) == n {
			f()
		}
	}
	return func() { testhook.Submitting = nil }
}

// A server that ends during a run causes an error that names it, within a time limit; resumed elsewhere from the last
// checkpoint, the run ends with the same adapter.
func TestServerEndsInTraining(t *testing.T) {
	need.Time(t, "waits for seconds")
	m := llmtest.ArchModel(t, "llama", ggml.F32)
	far := remoteOf(t, optest.ServerOptions{})
	whole := newTrainer(t, loadOn(t, m, layout.On(far)), newEngine(t, device.Options{Layout: layout.On(far)}), train.CheckpointingOff)
	require.NoError(t, whole.Run(context.Background(), train.RunOptions{}))
	for what, c := range ending {
		t.Run(what, func(t *testing.T) {
			d, s := frail(t, c.stall)
			on, e := loadOn(t, m, layout.On(d)), newEngine(t, device.Options{Layout: layout.On(d)})
			tr := newTrainer(t, on, e, train.CheckpointingOff)
			for range 5 {
				_, err := tr.Step(t.Context())
				require.NoError(t, err)
			}
			checkpoint := filepath.Join(t.TempDir(), "checkpoint.gguf")
			require.NoError(t, tr.SaveCheckpoint(checkpoint))
			before, err := os.ReadFile(checkpoint)
			require.NoError(t, err)
			begin := time.Now()
			undo := onComputation(3, func() { s.Signal(t, c.signal); begin = time.Now() })
			for err == nil {
				_, err = tr.Step(t.Context())
			}
			undo()
			requireGone(t, err, s.Endpoint, c.says, begin)
			require.ErrorIs(t, tr.SaveCheckpoint(checkpoint), ggml.ErrDisconnected)
			after := need.Value(os.ReadFile(checkpoint))(t)
			require.Equal(t, before, after, "the last checkpoint is intact")

			near := newTrainer(t, loadOn(t, m, layout.On(far)), newEngine(t, device.Options{Layout: layout.On(far)}), train.CheckpointingOff)
			require.NoError(t, near.LoadCheckpoint(checkpoint))
			require.NoError(t, near.Run(context.Background(), train.RunOptions{}))
			require.Equal(t, whole.History[len(whole.History)-1].Loss, near.History[len(near.History)-1].Loss)
		})
	}
}

func TestServerEndsInGeneration(t *testing.T) {
	need.Time(t, "waits for seconds")
	m := llmtest.ArchModel(t, "llama", ggml.F32)
	for what, c := range ending {
		t.Run(what, func(t *testing.T) {
			d, s := frail(t, c.stall)
			on, e := loadOn(t, m, layout.On(d)), newEngine(t, device.Options{Layout: layout.On(d)})
			session, err := infer.NewSession(on, infer.SessionOptions{Engine: e})
			require.NoError(t, err)
			defer session.Close()
			q := need.Value(session.NewSequence())(t)
			begin := time.Now()
			defer onComputation(3, func() { s.Signal(t, c.signal); begin = time.Now() })()
			for err == nil {
				_, err = q.Decode(t.Context(), llmtest.RandomTokens(1, 1, m.Config().Vocab))
			}
			requireGone(t, err, s.Endpoint, c.says, begin)
		})
	}
}

func TestServerEndsInLoading(t *testing.T) {
	need.Time(t, "waits for seconds")
	m := llmtest.ArchModel(t, "llama", ggml.F32)
	for what, c := range ending {
		t.Run(what, func(t *testing.T) {
			testhook.RPCStall = c.stall
			defer func() { testhook.RPCStall = 0 }()
			s := optest.StartRPCServer(t)
			var ended atomic.Int64
			endpoint := through(t, s.Endpoint, 20_000, func() { s.Signal(t, c.signal); ended.Store(time.Now().UnixNano()) })
			r := need.Value(ggml.AddRPCServer(endpoint))(t)
			defer r.Unload()
			layout := layout.On(r.Devices()[0])
			on, err := model.Load(m.Path, model.LoadOptions{Layout: layout})
			if err == nil { // the last weights are still being sent, without an answer
				defer on.Close()
				err = decodeOnce(t, on, layout)
			}
			require.NotZero(t, ended.Load())
			requireGone(t, err, endpoint, c.says, time.Unix(0, ended.Load()))
		})
	}
}

// decodeOnce decodes a token in a session of its own.
func decodeOnce(t *testing.T, m *model.Model, l layout.Layout) error {
	e, err := device.New(device.Options{Layout: l})
	if err != nil {
		return err
	}
	defer e.Close()
	session, err := infer.NewSession(m, infer.SessionOptions{Engine: e})
	if err != nil {
		return err
	}
	defer session.Close()
	q, err := session.NewSequence()
	if err == nil {
		_, err = q.Decode(t.Context(), llmtest.RandomTokens(1, 1, m.Config().Vocab))
	}
	return err
}

// frail returns a device on a server that the test ends. stall is the time limit for its answers.
func frail(t *testing.T, stall time.Duration) (*ggml.Device, *optest.RPCServer) {
	t.Helper()
	testhook.RPCStall = stall
	defer func() { testhook.RPCStall = 0 }()
	s := optest.StartRPCServer(t)
	r := need.Value(ggml.AddRPCServer(s.Endpoint))(t)
	t.Cleanup(func() { require.NoError(t, r.Unload()) })
	return r.Devices()[0], s
}

// through forwards connections to an endpoint, and calls f once one of them has sent n bytes.
func through(t *testing.T, endpoint string, n int64, f func()) string {
	var called atomic.Bool
	return loopback.Serve(t, func(client net.Conn) {
		server, err := net.Dial("tcp4", endpoint)
		if err != nil {
			return
		}
		defer server.Close()
		go func() {
			io.Copy(client, server)
			client.Close()
		}()
		if sent, _ := io.CopyN(server, client, n); sent == n && called.CompareAndSwap(false, true) {
			f()
		}
		io.Copy(server, client)
	}).Addr().String()
}
