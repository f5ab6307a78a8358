package lossgraph_test

import (
	"context"
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/llmtest"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/kernels"
	"github.com/goggml/ggml/llm/lossgraph"
	"github.com/goggml/ggml/llm/model"
)

// The gradients of A and B of every matrix of every layer, and of the token
// embedding, agree with the graph's in float64, which TestExactGradients holds to central
// differences.
func TestLoRAGradients(t *testing.T) {
	for _, typ := range []ggml.Type{ggml.F32, ggml.F16, ggml.BF16, ggml.Q8_0, ggml.Q4_0} {
		for _, checkpoint := range []bool{false, true} {
			name := typ.String()
			if checkpoint {
				name += " checkpoint"
			}
			t.Run(name, func(t *testing.T) { testLoRAGradients(t, typ, checkpoint) })
		}
	}
}

func testLoRAGradients(t *testing.T, typ ggml.Type, checkpoint bool) {
	const length = 12
	s := llmtest.NewLoRASetup(t, llmtest.TinyModel(t, llmtest.TinyConfig(false), typ), 4, 0.75)
	require.Len(t, s.Adapters, 2*7+2)
	batch := llmtest.NewBatch(s.Model.Config().Vocab, length)
	loss, grads := llmtest.ExactGradients(t, s.Model, batch,
		lossgraph.Options{Length: length, Adapters: s.Adapters, Grads: s.Trained()}, llmtest.SmoothGELU)
	got := s.Compute(t, llmtest.NewEngine(t), batch, lossgraph.Options{Length: length, Batch: 2, LogitsChunk: 7, Checkpoint: checkpoint, FeedForwardChunk: 5})
	require.InEpsilon(t, loss, got, 1e-5)
	requireGradients(t, grads, s.Trained(), 1e-4)
}

// The same for the weights themselves, as pretraining changes them.
func TestWeightGradients(t *testing.T) {
	for _, tied := range []bool{false, true} {
		requireWeightGradients(t, llmtest.TinyModel(t, llmtest.TinyConfig(tied), ggml.F32), 12, false)
	}
}

// requireWeightGradients compares the loss of two sequences, and the gradients of all
// weights, with the graph's in float64.
func requireWeightGradients(t *testing.T, m *model.Model, length int, checkpoint bool) {
	t.Helper()
	batch, trained := llmtest.NewBatch(m.Config().Vocab, length), llmtest.ZeroGrads(t, m)
	require.Len(t, trained, len(llmtest.Declared(m)))
	loss, grads := llmtest.ExactGradients(t, m, batch, lossgraph.Options{Length: length, Grads: trained}, llmtest.SmoothGELU)
	l := need.Value(lossgraph.New(m, llmtest.NewEngine(t), lossgraph.Options{Length: length, Batch: 2, Grads: trained, Checkpoint: checkpoint}))(t)
	defer l.Close()
	losses := need.Value(l.Compute(context.Background(), batch))(t)
	require.InEpsilon(t, loss, llmtest.WeightedLoss(batch, losses), 1e-5)
	requireGradients(t, grads, trained, 1e-4)
}

// The gradients are the same, but slower, on a machine without a BLAS library.
func TestGradientsWithoutBLAS(t *testing.T) {
	c := exec.Command(os.Args[0], "-test.run", "^(TestLoRAGradients|TestWeightGradients|TestLongSequences|TestGEMMLibrary)$", "-test.v")
	c.Env = append(os.Environ(), "GOGGML_BLAS=none")
	out, err := c.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), `the GEMM library is ""`)
	require.Contains(t, string(out), "--- PASS: TestLoRAGradients")
}

func TestGEMMLibrary(t *testing.T) {
	library := need.Value(kernels.GEMMLibrary())(t)
	t.Logf("the GEMM library is %q", library)
}
