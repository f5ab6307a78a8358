package generate_test

import (
	"context"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/instructtest"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/testutil"
	"github.com/goggml/ggml/llm/generate"
	"github.com/goggml/ggml/llm/infer"
	"github.com/goggml/ggml/llm/model"
	"github.com/goggml/ggml/llm/sample"
)

// After training on conversations, a model gives the learned answers to unseen prompts and ends
// them. Before training it gives none.
func TestChatAnswersAsTrained(t *testing.T) {
	need.Time(t, "trains a model")
	const trained, held = 1500, 100
	words := instructtest.Words(1, trained+held)
	m := need.Value(model.Load(instructtest.Base(t, 64, 200, ggml.F32)[0], model.LoadOptions{}))(t)
	defer m.Close()
	require.Zero(t, answered(t, m, nil, words[trained:]))
	a := instructtest.Adapter(t, m, words[:trained])
	require.GreaterOrEqual(t, answered(t, m, a.WithScale(1), words[trained:]), held*99/100)
}

// answered counts the words for which a greedy chat gives the right answer.
func answered(t *testing.T, m *model.Model, adapters model.Adapters, words []string) (right int) {
	t.Helper()
	s := need.Value(infer.NewSession(m, infer.SessionOptions{Adapters: adapters, Threads: 1}))(t)
	defer s.Close()
	c := need.Value(generate.NewChat(m, newSequence(t, s), sampler(t, sample.Options{}), generate.ChatOptions{Limit: testutil.Ptr(8)}))(t)
	for _, word := range words {
		reply := need.Value(c.Reply(context.Background(), io.Discard, dialogue(word)))(t)
		if reply.Content == instructtest.Answer(word) && reply.Finish == generate.FinishStop {
			right++
		}
	}
	return right
}
