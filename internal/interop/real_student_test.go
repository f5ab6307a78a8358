//go:build interop

package interop

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml/internal/test/need"
)

// A student that never sees the answers in the data learns them from a teacher: the same model, fine-tuned on them. It
// answers at least 90 % as many held-out questions as the teacher, in chat and in stock llama.cpp. From a student that knows most
// answers, on-policy steps by reverse KL, as in docs/recipes/distil.yaml, end no further from the teacher than off-policy steps.
func TestInteropRealStudent(t *testing.T) {
	p, folder := newRealProgram(t), t.TempDir()
	trained, heldOut := readQuestions(t, "train.jsonl"), readQuestions(t, "held-out.jsonl")
	run := func(name string, args ...string) string {
		at := filepath.Join(folder, name)
		p.run(t, nil, append([]string{"--model-base", p.model, "--run-dir", at, "--batch", "8", "--grad-acc", "1", "--epochs", "4"}, args...)...)
		return at
	}
	teacher := run("teacher", "--train-data", filepath.Join(demo, "train.jsonl"), "--learning-rate", "2e-3")
	words, held := filepath.Join(folder, "words.jsonl"), filepath.Join(folder, "held.jsonl") // of the teacher
	trained.write(t, words, p.answers(t, trained.questions, teacher, "--temp", "0"))
	taught := p.answers(t, heldOut.questions, teacher, "--temp", "0")
	heldOut.write(t, held, taught)
	known := heldOut.right(taught)
	t.Logf("the teacher answers %d of %d held-out questions", known, len(taught))
	require.Greater(t, known, len(taught)/2)

	distil := func(name string, args ...string) (adapter string, divergence float64) {
		at := run(name, append([]string{"--train-data", words, "--valid-data", held, "--teacher", p.model, "--teacher-lora", teacher}, args...)...)
		return filepath.Join(at, "adapter.gguf"), lastDivergence(t, at)
	}
	first, _ := distil("first", "--learning-rate", "2e-3")
	divergences := map[string]float64{}
	for name, args := range map[string][]string{"off-policy": nil, "on-policy": {"--on-policy", "0.5", "--on-policy-tokens", "32"}} {
		var adapter string
		adapter, divergences[name] = distil(name, append(args, "--lora-in", first, "--learning-rate", "5e-4", "--teacher-beta", "1")...)
		right := heldOut.right(p.answers(t, heldOut.questions, "--model", p.model, "--lora", adapter, "--temp", "0"))
		server := startServer(t, p.model, "--lora", adapter, "-c", "256")
		var answers []answer
		for _, question := range heldOut.questions {
			answers = append(answers, server.answer(t, question))
		}
		server.stop(t)
		theirs := heldOut.right(answers)
		t.Logf("the %s student answers %d, in stock %d; divergence %.4f", name, right, theirs, divergences[name])
		require.GreaterOrEqual(t, float64(right), 0.9*float64(known))
		require.GreaterOrEqual(t, float64(theirs), 0.9*float64(known), "in stock")
	}
	require.LessOrEqual(t, divergences["on-policy"], divergences["off-policy"])
}

// lastDivergence returns the divergence from the teacher on held-out data at the end of a run.
func lastDivergence(t *testing.T, run string) float64 {
	var last struct{ Divergence *float64 }
	for line := range strings.Lines(string(need.Value(os.ReadFile(filepath.Join(run, "metrics.jsonl")))(t))) {
		if strings.Contains(line, "eval_loss") {
			require.NoError(t, json.Unmarshal([]byte(line), &last))
		}
	}
	require.NotNil(t, last.Divergence)
	return *last.Divergence
}

const demo = "../../scripts/demo"

// Questions have an answer each.
type questions struct{ questions, answers []string }

// readQuestions reads conversations of one question and its answer.
func readQuestions(t *testing.T, name string) (q questions) {
	for line := range strings.Lines(string(need.Value(os.ReadFile(filepath.Join(demo, name)))(t))) {
		var record struct{ Messages []struct{ Content string } }
		require.NoError(t, json.Unmarshal([]byte(line), &record))
		require.Len(t, record.Messages, 2)
		q.questions = append(q.questions, record.Messages[0].Content)
		q.answers = append(q.answers, record.Messages[1].Content)
	}
	return q
}

// right counts the answers that agree with the questions' answers word for word.
func (q questions) right(answers []answer) (n int) {
	for i, a := range answers {
		if strings.TrimSpace(a.Content) == q.answers[i] {
			n++
		}
	}
	return n
}

// write writes conversations of the questions with other answers.
func (q questions) write(t *testing.T, path string, answers []answer) {
	file := need.Value(os.Create(path))(t)
	defer file.Close()
	for i, a := range answers {
		require.NoError(t, json.NewEncoder(file).Encode(arguments{"messages": []arguments{
			{"role": "user", "content": q.questions[i]}, {"role": "assistant", "content": strings.TrimSpace(a.Content)},
		}}))
	}
}
