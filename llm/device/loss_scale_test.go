package device_test

import (
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/nn"
	"github.com/goggml/ggml/internal/test/llmtest"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/refmath"
	"github.com/goggml/ggml/llm/data"
	"github.com/goggml/ggml/llm/device"
	"github.com/goggml/ggml/llm/layout"
	"github.com/goggml/ggml/llm/lora"
	"github.com/goggml/ggml/llm/model"
	"github.com/goggml/ggml/llm/train"
)

func inF16(c *ggml.Context, x *ggml.Tensor) *ggml.Tensor {
	return c.Cast(c.Cast(x, ggml.F16), ggml.F32)
}

// narrow limits operands of products to the range of F16, as Vulkan does.
func narrow(of *nn.Lowering) *nn.Lowering {
	narrowed := func(op *nn.Op[nn.Products, *ggml.Tensor]) nn.Row {
		return op.By(func(t *nn.Tape, products nn.Products) *ggml.Tensor {
			list := slices.Clone(products.List)
			for i, p := range list {
				list[i] = nn.Product{W: p.W, X: inF16(t.C, p.X)}
			}
			return op.Build(t.By(of), nn.Products{F32Sums: products.F32Sums, List: list})
		})
	}
	return of.With(narrowed(nn.MatMul), narrowed(nn.MatMulGradInput), nn.AccumulateGradWeight.By(func(t *nn.Tape, g nn.GradOperands) *ggml.Tensor {
		return nn.AccumulateGradWeight.Build(t.By(of), nn.GradOperands{Acc: g.Acc, X: inF16(t.C, g.X), Dy: inF16(t.C, g.Dy)})
	}))
}

// firstGradients returns the gradients of an adapter in a step of many tokens: with β₁ = 0 they are the first moments.
func firstGradients(t *testing.T, m *model.Model, e *device.Engine) map[string][]float32 {
	t.Helper()
	a := need.Value(lora.New(m, lora.Options{Rank: 4, Alpha: 8, Init: lora.InitKaiming, Seed: 1}))(t)
	t.Cleanup(func() { a.Close() })
	rng := rand.New(rand.NewPCG(1, 2))
	for _, p := range a.Pairs() { // small, as in the first steps
		require.NoError(t, ggml.Write(p.B, refmath.Normal(rng, 1e-4, p.B.Shape()...).Float32()))
	}
	const length, rows = 24, 64
	var list []data.Sample
	for range rows {
		s := data.Sample{Tokens: make([]int32, length+1)}
		for i := range s.Tokens {
			s.Tokens[i] = int32(rng.IntN(m.Config().Vocab))
		}
		list = append(list, s)
	}
	o := trainOptions(e, train.CheckpointingOff)
	o.AdamW, o.Batch, o.Accumulate = train.AdamW{Beta2: 0.9, Epsilon: 1e-8}, rows/2, 2
	tr := need.Value(train.New(m, train.Trainables{Adapters: a.WithScale(1)}, data.New(length, list), o))(t)
	t.Cleanup(func() { tr.Close() })
	_, err := tr.Step(t.Context())
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "checkpoint.gguf")
	require.NoError(t, tr.SaveCheckpoint(path))
	var moments []*ggml.Tensor
	store := llmtest.NewArena(t)
	for _, p := range a.Pairs() {
		for _, x := range []*ggml.Tensor{p.A, p.B} {
			moments = append(moments, store.Tensor(x.Name()+".m", make([]float32, x.NumElements()), x.Shape()...))
		}
	}
	require.NoError(t, train.LoadParameters(path, moments))
	grads := map[string][]float32{}
	for _, x := range moments {
		grads[x.Name()] = need.Value(ggml.Read[float32](x))(t)
	}
	return grads
}

func requireDirections(t *testing.T, want, got map[string][]float32) {
	t.Helper()
	require.NotEmpty(t, want)
	worst := 1.0
	for name, w := range want {
		cosine := refmath.Cosine(got[name], refmath.From(w).Data)
		require.GreaterOrEqual(t, cosine, 0.9999, name)
		worst = min(worst, cosine)
	}
	t.Logf("cosines are at least 1 - %.1e", 1-worst)
}

// Products limited to the range of F16 keep the gradients of a step of many tokens.
func TestSmallGradientsInF16(t *testing.T) {
	m := llmtest.ArchModel(t, "llama", ggml.F32)
	want := firstGradients(t, m, newEngine(t, device.Options{}))
	requireDirections(t, want, firstGradients(t, m, newEngine(t, device.Options{
		OpSet: device.Stock, Layers: func(_ int, _ device.Use, of *nn.Lowering) *nn.Lowering { return narrow(of) },
	})))
}

// So does Vulkan.
func TestVulkanSmallGradients(t *testing.T) {
	d := vulkan(t)
	m := llmtest.ArchModel(t, "llama", ggml.F32)
	want := firstGradients(t, m, newEngine(t, device.Options{}))
	on := loadOn(t, m, layout.On(d))
	requireDirections(t, want, firstGradients(t, on, newEngine(t, device.Options{Layout: layout.On(d)})))
}
