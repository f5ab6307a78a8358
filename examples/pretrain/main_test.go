package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/examples/internal/cli"
	"github.com/goggml/ggml/examples/internal/clitest"
	"github.com/goggml/ggml/examples/internal/runs"
	"github.com/goggml/ggml/examples/internal/training"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/llm/arch"
	"github.com/goggml/ggml/llm/model"
	"github.com/goggml/ggml/llm/tokenizer"
)

func TestMain(m *testing.M) {
	clitest.Main(m, map[string]func(){"pretrain": main})
}

func TestScripts(t *testing.T) {
	clitest.RunScripts(t, testscript.Params{
		Dir:             "testdata/script",
		ContinueOnError: true,
		Condition:       clitest.Condition,
		Setup:           func(e *testscript.Env) error { return writeTexts(e.WorkDir) },
		Cmds:            map[string]func(*testscript.TestScript, bool, []string){"model": checkModel},
	})
}

func writeTexts(folder string) error {
	rng := rand.New(rand.NewPCG(1, 1))
	words := strings.Fields("the old red hen and a small goat eat corn near warm barn while rain falls on green hills")
	var b strings.Builder
	for range 150 {
		for range 4 + rng.IntN(5) {
			b.WriteString(words[rng.IntN(len(words))] + " ")
		}
		b.WriteString("so it goes.\n")
	}
	text := b.String()
	for name, text := range map[string]string{"text.txt": text, "held.txt": text[:500], "one.txt": "x", "empty.txt": ""} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// checkModel: file type vocabulary context requires a complete model whose matrices have the type, and whose
// vocabulary suits the text.
func checkModel(ts *testscript.TestScript, _ bool, args []string) {
	m, err := model.Load(ts.MkAbs(args[0]), model.LoadOptions{})
	ts.Check(err)
	defer m.Close()
	for w := range m.Weights() {
		want := "f32"
		if w.NumDims() > 1 {
			want = args[1]
		}
		if got := w.Type().String(); got != want {
			ts.Fatalf("%s is %s", w.Name(), got)
		}
	}
	if strconv.Itoa(m.Config().Vocab) != args[2] || strconv.Itoa(m.Config().Context) != args[3] {
		ts.Fatalf("vocabulary %d, context %d", m.Config().Vocab, m.Config().Context)
	}
	const text = "the hen and the goat"
	ids := m.Tokenizer.Encode(text, tokenizer.EncodeOptions{})
	if len(ids) > len(text)/2 || m.Tokenizer.Decode(ids, tokenizer.DecodeOptions{}) != text {
		ts.Fatalf("%q becomes %v", text, ids)
	}
}

// An interrupted and continued run makes the same model.
func TestInterruptedRunContinues(t *testing.T) {
	need.Time(t, "trains twice")
	folder := t.TempDir()
	require.NoError(t, writeTexts(folder))
	command := func(name string) *exec.Cmd {
		c := exec.Command("pretrain", "--train-data", "text.txt", "--valid-data", "held.txt", "--valid-samples", "4", "--valid-every", "5",
			"--model-out", name+".gguf", "--checkpoint-in", name+".run", "--checkpoint-out", name+".run", "--save-every", "9",
			"--vocab", "300", "--embd", "32", "--ff", "64", "--layers", "2", "--heads", "4", "--kv-heads", "2", "--model-ctx", "32",
			"--ctx", "24", "--batch", "4", "--adam-iter", "100", "--threads", "1")
		c.Dir = folder
		return c
	}
	need.Output(t, command("whole"))

	log := clitest.Stop(t, command("parts"), syscall.SIGINT, "step 20:")
	require.Regexp(t, `pretrain: interrupted; parts\.gguf has the result of step \d+; the same command continues the run`, log)
	m := need.Value(model.Load(filepath.Join(folder, "parts.gguf"), model.LoadOptions{}))(t)
	require.NoError(t, m.Close())

	require.Regexp(t, `continuing from parts\.run at step [2-9]\d\n`, need.Output(t, command("parts")))
	want := need.Value(os.ReadFile(filepath.Join(folder, "whole.gguf")))(t)
	got := need.Value(os.ReadFile(filepath.Join(folder, "parts.gguf")))(t)
	require.True(t, string(want) == string(got))
}

// The run's folder shows its state, as finetune's folders do.
func TestRunFolder(t *testing.T) {
	folder := t.TempDir()
	require.NoError(t, writeTexts(folder))
	command := func(more ...string) *exec.Cmd {
		c := exec.Command("pretrain", append([]string{"--train-data", "text.txt", "--valid-data", "held.txt", "--valid-samples", "4", "--valid-every", "5", "--run-dir", "runs/a", "--vocab", "280", "--embd", "32", "--ff", "64",
			"--layers", "1", "--heads", "4", "--kv-heads", "2", "--model-ctx", "32", "--ctx", "24", "--batch", "4", "--threads", "1"}, more...)...)
		c.Dir = folder
		return c
	}
	summary := func() runs.Summary {
		list := need.Value(runs.List(folder))(t)
		require.Len(t, list, 1)
		return list[0].Summary()
	}
	log := clitest.Stop(t, command("--adam-iter", "1000"), syscall.SIGINT, "step 20:")
	require.Regexp(t, `pretrain: interrupted; runs/a/model\.gguf has the result of step \d+; the same command continues the run`, log)
	require.Equal(t, "stopped", summary().State)
	require.Contains(t, need.Output(t, command("--adam-iter", fmt.Sprint(summary().Step+2))), "continuing from runs/a/checkpoint.gguf at step ")
	s := summary()
	require.Equal(t, "done", s.State)
	require.Equal(t, s.Steps, s.Step)
	require.Equal(t, []string{filepath.Join(folder, "text.txt")}, s.Data)
	require.Equal(t, filepath.Join(folder, "runs/a/model-best.gguf"), s.Adapter)

	require.NoError(t, os.RemoveAll(filepath.Join(folder, "runs")))
	out, err := command("--adam-iter", "100", "--adam-alpha", "1e30").CombinedOutput()
	require.Error(t, err, string(out))
	require.Equal(t, "diverged", summary().State)
	out, err = command("--adam-iter", "2", "--model-out", "runs/a/checkpoint.gguf").CombinedOutput()
	require.Error(t, err, string(out))
	require.Contains(t, string(out), "is also the file of ")
}

// Whatever stops the program, it frees everything.
func TestRunFreesAll(t *testing.T) {
	folder := t.TempDir()
	require.NoError(t, writeTexts(folder))
	in := func(name string) string { return filepath.Join(folder, name) }
	p := &program{
		ModelOut: in("model.gguf"), Name: "x", Vocab: 280, Embd: 16, FF: 32, Layers: 1, Heads: 2, KVHeads: 1, Context: 16, Type: "f32", Tied: true,
		Flags: training.Flags{
			DataFlags:      training.DataFlags{TrainData: []string{in("text.txt")}, Ctx: 16},
			OptimizerFlags: training.OptimizerFlags{Batch: 2, GradAcc: 1, Iter: 3, Rate: 0.01, Beta1: 0.9, Beta2: 0.999, Epsilon: 1e-8, Schedule: "cosine"},
			RunFlags:       training.RunFlags{Threads: 1},
		},
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	err := p.run(ctx)
	require.ErrorIs(t, err, cli.ErrInterrupted)
	require.EqualError(t, err, "interrupted; nothing was trained yet, and nothing is lost")
	require.Empty(t, ggml.OpenObjects())
	require.NoFileExists(t, p.ModelOut)
	require.NoError(t, p.run(context.Background()))
	require.Empty(t, ggml.OpenObjects())
	require.FileExists(t, p.ModelOut)
}

// Numeric flags accept or reject 0, -1, the largest number, NaN and infinity; -v prints the results.
func TestNumbers(t *testing.T) {
	require.GreaterOrEqual(t, clitest.Numbers(t, "pretrain", new(program), defaults.Vars()), 40)
}

// Flags of hyper-parameters are named after the model's keys.
func TestFlagsOfHyperParameters(t *testing.T) {
	c := arch.Config{Arch: "llama", KVHeads: 1, RoPE: ggml.RoPE{FreqScale: 1}}
	for _, f := range cli.New("pretrain", new(program), defaults.Vars()).Model.Flags {
		key, isHyperParameter := strings.CutPrefix(f.Tag.Get("setting"), "*.")
		if !isHyperParameter {
			continue
		}
		found := false
		for name := range c.HyperParameters() {
			found = found || name == "llama."+key
		}
		require.True(t, found, "--%s: the model has no %s", f.Name, key)
	}
}
