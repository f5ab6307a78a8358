package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml/internal/test/need"
)

func readFile(t *testing.T, path string) []pair {
	t.Helper()
	file := need.Value(os.Open(path))(t)
	defer file.Close()
	return need.Value(readPairs(file))(t)
}

// The questions were not trained; the expected answers were.
func TestHeldOutQuestions(t *testing.T) {
	questions, answers := map[string]bool{}, map[string]bool{}
	for _, p := range readFile(t, "train.jsonl") {
		require.False(t, questions[p.question], "%q is there twice", p.question)
		questions[p.question], answers[p.answer] = true, true
	}
	require.Len(t, questions, 282)
	held := readFile(t, "held-out.jsonl")
	require.Len(t, held, 47)
	for _, p := range held {
		require.False(t, questions[p.question], "%q is trained", p.question)
		require.True(t, answers[p.answer], "%q is trained nowhere", p.answer)
	}
}

func TestJudge(t *testing.T) {
	pairs := []pair{{"Where?", "Here."}, {"When?", "Now."}}
	var out bytes.Buffer
	require.NoError(t, judge(&out, pairs, []string{" Here.\n", "Later."}, 0.5))
	require.Contains(t, out.String(), "1 of 2 questions")
	require.EqualError(t, judge(&out, pairs, []string{"There.", "Later."}, 0.5),
		"only 0 of 2 answers are right, and 50 % have to be")
}

func TestReadPairs(t *testing.T) {
	for text, want := range map[string]string{
		"":                "there is no conversation",
		`{"messages":[]}`: "conversation 1 is not one question and one answer",
		`{"messages":`:    "unexpected EOF",
	} {
		_, err := readPairs(strings.NewReader(text))
		require.EqualError(t, err, want)
	}
}

func TestEvenly(t *testing.T) {
	require.Equal(t, []int{4, 14, 23, 32, 42}, evenly(5, 47))
	require.Equal(t, []int{0, 1}, evenly(3, 2))
	require.Empty(t, evenly(0, 2))
}

// If the model cannot be fetched, the demonstration says why and uses the generated one.
func TestWithoutModel(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "scripts")
	require.NoError(t, os.Mkdir(folder, 0o700))
	for _, name := range []string{"lib.sh", "realmodel", "finetune"} {
		script := need.Value(os.ReadFile(filepath.Join("..", name)))(t)
		require.NoError(t, os.WriteFile(filepath.Join(folder, name), script, 0o700))
	}
	generated := "#!/bin/sh\necho the generated model\n"
	require.NoError(t, os.WriteFile(filepath.Join(folder, "finetune-generated"), []byte(generated), 0o700))
	noPip := "#!/bin/sh\nexit 1\n"
	require.NoError(t, os.WriteFile(filepath.Join(folder, "python3"), []byte(noPip), 0o700))

	c := exec.Command(filepath.Join(folder, "finetune"))
	c.Env = append(os.Environ(), "PATH="+folder+":"+os.Getenv("PATH"))
	out := need.Output(t, c)
	require.Equal(t, `realmodel: there is no pip, which fetches the model
realmodel:   install it: apt-get install python3-pip
finetune: warning: the model could not be fetched (see above): what follows is done with a small generated model instead
the generated model
`, out)
}
