package device_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/benchmodel"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/testhook"
	"github.com/goggml/ggml/llm/arch"
	"github.com/goggml/ggml/llm/device"
	"github.com/goggml/ggml/llm/infer"
	"github.com/goggml/ggml/llm/layout"
	"github.com/goggml/ggml/llm/model"
)

// ofAn8B is an 8B model with only some of its 32 layers: the others need the same.
func ofAn8B(layers int) arch.Config {
	c := benchmodel.Large()
	c.Name, c.Vocab, c.Embd, c.FF, c.Layers = fmt.Sprintf("8B, %d layers", layers), 128256, 4096, 14336, layers
	c.Heads, c.KVHeads, c.HeadSize, c.RoPE.Dims = 32, 8, 128, 128
	return c
}

// Decoding a token on CUDA is one submission, as is a prefill: a few bytes go to the device, and only the logits come
// back. A shared prefix is copied on the device.
func TestCUDASession(t *testing.T) {
	s := newStandIn(t)
	for _, typ := range []ggml.Type{ggml.BF16, ggml.Q4_K} {
		for _, c := range []arch.Config{benchmodel.Large(), ofAn8B(2), ofAn8B(4)} {
			if typ == ggml.BF16 && c.Layers == 4 {
				continue
			}
			t.Run(fmt.Sprintf("%s/%v", c.Name, typ), func(t *testing.T) {
				e := newEngine(t, device.Options{Layout: layout.On(s.Device)})
				m := need.Value(model.Load(hollowModel(t, c, typ), model.LoadOptions{Layout: e.Layout()}))(t)
				defer m.Close()
				for _, cache := range []ggml.Type{ggml.F16, ggml.Q8_0} {
					session := need.Value(infer.NewSession(m, infer.SessionOptions{Engine: e, Context: 4096, CacheType: cache, Sequences: 4}))(t)
					defer session.Close()
					q := need.Value(session.NewSequence())(t)
					s.session(t, fmt.Sprint("a prompt of 512 tokens, cache ", cache), 1, int64(4*c.Vocab), func() error {
						_, err := q.Decode(t.Context(), make([]int32, 512))
						return err
					})
					_, err := q.Decode(t.Context(), []int32{1}) // clears what later tokens attend to
					require.NoError(t, err)
					s.session(t, fmt.Sprint("a token, cache ", cache), 1, int64(4*c.Vocab), func() error {
						_, err := q.Decode(t.Context(), []int32{1})
						return err
					})
					next := []infer.StepInput{{Sequence: q, Token: 1}}
					for range 3 {
						other := need.Value(session.NewSequence())(t)
						s.session(t, fmt.Sprint("a token after a prompt of another, cache ", cache), 1, int64(4*c.Vocab), func() error {
							_, _, err := other.Prefill(t.Context(), append(make([]int32, 512), 5))
							return err
						})
						next = append(next, infer.StepInput{Sequence: other, Token: 1})
					}
					s.session(t, fmt.Sprint("a token of each of four, cache ", cache), 1, int64(4*4*c.Vocab), func() error { return session.Step(t.Context(), next) })
					require.NoError(t, session.Close())
				}
			})
		}
	}
}

// session checks the number of submissions, that only inputs go to the device, and how many bytes come back.
func (s *standIn) session(t *testing.T, what string, submissions, back int64, do func() error) {
	t.Helper()
	s.calls(t)
	before := testhook.Submissions.Load()
	require.NoError(t, do())
	of := s.calls(t)
	t.Logf("%s: %d kernels, %d products %v, copied %v bytes in %v, %d waits", what, of.kernels, of.products, of.byCompute, of.copied, of.copies, of.waits)
	require.EqualValues(t, submissions, testhook.Submissions.Load()-before, what)
	require.Equal(t, back, of.copied["device-to-host"], what)
	require.Less(t, of.copied["host-to-device"], int64(8<<20), what)
	require.LessOrEqual(t, of.copies["host-to-device"], 8, what)
}
