package llmtest

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/nn"
	"github.com/goggml/ggml/internal/oracle"
	"github.com/goggml/ggml/llm/arch"
	"github.com/goggml/ggml/llm/model"
)

// ExactLogits are the logits [len(tokens)][vocab] at all positions of a sequence, which the graph of the stock lowering
// has in float64; GELU is rounded as ggml's CPU backend does. The context decides which factors RoPE has.
func ExactLogits(t testing.TB, m *model.Model, adapters model.Adapters, tokens []int32, context int) [][]float64 {
	t.Helper()
	c := ggml.NewContext()
	defer c.Close()
	lowering, err := nn.StockTraining(ggml.F32)
	require.NoError(t, err)
	n := int64(len(tokens))
	inputs := oracle.Inputs{}
	input := func(name string, typ ggml.Type, value func(i int) float64, shape ...int64) *ggml.Tensor {
		for i := range tokens {
			inputs[name] = append(inputs[name], value(i))
		}
		return c.NewTensor(typ, shape...).SetName(name)
	}
	b := &arch.Builder{
		Config: m.Config(), Source: m.Source, Adapters: adapters, Products: nn.Linears{Adapters: adapters}, Context: context,
		Tokens:    input("tokens", ggml.I32, func(i int) float64 { return float64(tokens[i]) }, n),
		Positions: input("positions", ggml.I32, func(i int) float64 { return float64(i) }, n),
		AttnTemp:  input("temperature", ggml.F32, func(i int) float64 { return float64(m.Config().AttnTemp(i)) }, 1, 1, n),
		Attention: nn.SelfAttention{Batch: 1, FirstVisible: func(window int) *ggml.Tensor {
			if window == 0 {
				return nil
			}
			inputs["first visible"] = nil // of the only window that there is
			return input("first visible", ggml.F32, func(i int) float64 { return float64(max(0, i-window+1)) }, n, 1)
		}},
	}
	tape := &nn.Tape{C: c, Graph: c.NewGraph(), Lowering: lowering}
	z := b.Logits(tape, b.Hidden(tape, false)).T
	tape.Graph.Expand(z)
	require.NoError(t, c.Err())
	p, err := oracle.Compile(tape.Graph, inputs)
	require.NoError(t, err)
	p.RoundGELU = true
	logits, err := p.Run().Of(z)
	require.NoError(t, err)
	return slices.Collect(slices.Chunk(logits.Data, m.Config().Vocab))
}
