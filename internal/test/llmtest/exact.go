package llmtest

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/nn"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/oracle"
	"github.com/goggml/ggml/llm/arch"
	"github.com/goggml/ggml/llm/model"
)

// ExactLogits returns the logits [len(tokens)][vocab] at all positions, computed in float64 from the
// graph of the stock lowering; GELU is rounded as in ggml's CPU backend. The context selects the RoPE
// factors.
func ExactLogits(t testing.TB, m *model.Model, adapters model.Adapters, tokens []int32, context int) [][]float64 {
	t.Helper()
	return exact(t, m, adapters, tokens, context, (*arch.Builder).Logits)
}

// ExactHidden returns the hidden states [len(tokens)][embd] before the output matrix.
func ExactHidden(t testing.TB, m *model.Model, adapters model.Adapters, tokens []int32, context int) [][]float64 {
	t.Helper()
	return exact(t, m, adapters, tokens, context, func(_ *arch.Builder, _ *nn.Tape, x *nn.Value) *nn.Value { return x })
}

// exact computes in float64 what `output` builds from the hidden states.
func exact(t testing.TB, m *model.Model, adapters model.Adapters, tokens []int32, context int, output func(*arch.Builder, *nn.Tape, *nn.Value) *nn.Value) [][]float64 {
	t.Helper()
	c := ggml.NewContext()
	defer c.Close()
	lowering := need.Value(nn.StockTraining(ggml.F32, nil))(t)
	b := &arch.Builder{
		Architecture: m.Architecture(), Source: m.Weight,
		NumTokens: int64(len(tokens)), Rows: 1, Context: context,
	}
	tape := &nn.Tape{C: c, Graph: c.NewGraph(), Lowering: lowering, Inputs: nn.NewInputs(c), Adapters: nn.AdaptersOf(adapters)}
	z := output(b, tape, b.Hidden(tape)).T
	tape.Graph.Expand(z)
	require.NoError(t, c.Err())
	feed := &nn.Feed{Rows: 1, Tokens: tokens, Starts: make([]int32, len(tokens))}
	for i := range tokens {
		feed.Positions = append(feed.Positions, int32(i))
	}
	p := need.Value(oracle.Compile(tape.Graph, oracle.InputsOf(tape.Inputs, feed)))(t)
	p.RoundGELU = true
	rows := need.Value(p.Run().Of(z))(t)
	return slices.Collect(slices.Chunk(rows.Data, int(z.Dim(0))))
}
