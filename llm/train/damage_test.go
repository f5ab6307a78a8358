package train

import (
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/llmtest"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/optest"
	"github.com/goggml/ggml/internal/testhook"
	"github.com/goggml/ggml/llm/data"
	"github.com/goggml/ggml/llm/infer"
	"github.com/goggml/ggml/llm/layout"
	"github.com/goggml/ggml/llm/lora"
	"github.com/goggml/ggml/llm/model"
)

// A non-finite value is found in any matrix of the model, of any type, and little of the model is read
// back.
func TestDamageIsFoundByDevices(t *testing.T) {
	need.Time(t, "trains many times")
	server := need.Value(ggml.AddRPCServer(optest.StartRPCServer(t).Endpoint))(t)
	t.Cleanup(func() { server.Unload() })
	for typ, nan := range map[ggml.Type][]byte{ // a value, or the scale of a block
		ggml.F32: {0, 0, 0xc0, 0x7f}, ggml.F16: {0, 0x7e}, ggml.BF16: {0xc0, 0x7f}, ggml.Q8_0: {0, 0x7e}, ggml.Q4_K: {0, 0x7e}, ggml.Q6_K: nil,
	} {
		path := llmtest.WideArchFile(t, "qwen3moe", typ)
		for name, place := range map[string]layout.Layout{"kernels": {}, "far": layout.On(server.Devices()[0])} {
			t.Run(typ.String()+" "+name, func(t *testing.T) {
				m := need.Value(model.Load(path, model.LoadOptions{Layout: place}))(t)
				defer m.Close()
				r := newLoRARun(t, m, data.New(6, []data.Sample{{Tokens: llmtest.RandomTokens(1, 7, m.Config().Vocab)}}), runOptions(), lora.Options{Rank: 2, Alpha: 4})
				find := func() (*ggml.Tensor, int64) {
					before := testhook.BytesRead.Load()
					w, _, err := r.damaged(t.Context(), r.frozen())
					require.NoError(t, err)
					return w, testhook.BytesRead.Load() - before
				}
				found, read := find()
				require.Nil(t, found)
				require.Less(t, read, m.Sizes().Total()/20)
				for _, weight := range []string{"token_embd.weight", "blk.0.attn_norm.weight", "blk.1.attn_output.weight", "blk.1.ffn_down_exps.weight"} {
					w, value := m.Weight(weight), nan
					if w.Type() == ggml.F32 {
						value = []byte{0, 0, 0xc0, 0x7f}
					}
					at := w.NumBytes() - w.Type().RowSize(w.Dim(0)) // beginning of the last row
					if w.Type() == ggml.Q6_K {
						at, value = w.NumBytes()-2, []byte{0, 0x7e} // the block's scale is last
					}
					good := make([]byte, len(value))
					_, err := w.ReadAt(good, at)
					require.NoError(t, err)
					_, err = w.WriteAt(value, at)
					require.NoError(t, err)
					found, read := find()
					require.NotNil(t, found, weight)
					require.Equal(t, weight, found.Name())
					require.Less(t, read, m.Sizes().Total()/20)
					_, err = w.WriteAt(good, at)
					require.NoError(t, err)
				}
			})
		}
	}
}

// A NaN from a server is not blamed on the model's file alone.
func TestServerIsBlamed(t *testing.T) {
	server := need.Value(ggml.AddRPCServer(optest.StartRPCServer(t).Endpoint))(t)
	t.Cleanup(func() { server.Unload() })
	far := layout.On(server.Devices()[0])
	m := need.Value(model.Load(llmtest.ArchFile(t, "llama", ggml.F32), model.LoadOptions{Layout: far}))(t)
	t.Cleanup(func() { m.Close() })
	_, err := m.Weight("blk.0.attn_v.weight").WriteAt([]byte{0, 0, 0xc0, 0x7f}, 0) // wrong data from a server
	require.NoError(t, err)
	r := newLoRARun(t, m, data.New(6, []data.Sample{{Tokens: llmtest.RandomTokens(1, 7, m.Config().Vocab)}}), runOptions(), lora.Options{Rank: 2, Alpha: 4})
	_, err = r.Step(t.Context())
	name := server.Devices()[0].Name()
	require.ErrorContains(t, err, ": the server of "+name+" reports that the model's weight blk.0.attn_v.weight holds NaN; train without the server, to find out whether the server or the file of the model is damaged")

	s := need.Value(infer.NewSession(m, infer.SessionOptions{}))(t)
	defer s.Close()
	_, err = s.Embed(t.Context(), [][]int32{{1, 2}}, infer.EmbedOptions{})
	require.EqualError(t, err, "text 1: its embedding contains NaN: the weights or adapters of the model may be damaged, or the server of "+name+" computes wrong results")
	require.Empty(t, layout.Layout{}.Servers())
	require.EqualError(t, layout.Layout{}.BlameServers(io.EOF), "EOF")
}
