package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/examples/internal/cli"
	"github.com/goggml/ggml/examples/internal/clitest"
	"github.com/goggml/ggml/examples/internal/training"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/testhook"
	"github.com/goggml/ggml/llm/arch"
	"github.com/goggml/ggml/llm/data"
	"github.com/goggml/ggml/llm/device"
	"github.com/goggml/ggml/llm/infer"
	"github.com/goggml/ggml/llm/lora"
	"github.com/goggml/ggml/llm/model"
	"github.com/goggml/ggml/llm/tokenizer"
	"github.com/goggml/ggml/llm/train"
)

// stallEnv overrides how long a server may not answer the program; the default is a minute.
const stallEnv = "GOGGML_TEST_RPC_STALL"

// joinEnv overrides the time between checks for processes that have not joined (default ten seconds). graceEnv
// overrides how long a stopping process is waited for (default a minute). lateEnv names a file that gets the ID
// of a process, which then stops as if it got no processor time. muteEnv makes the device of a process never
// end a computation.
const (
	joinEnv  = "GOGGML_TEST_MPI_JOIN"
	graceEnv = "GOGGML_TEST_MPI_GRACE"
	lateEnv  = "GOGGML_TEST_MPI_LATE"
	muteEnv  = "GOGGML_TEST_MPI_MUTE"
)

func TestMain(m *testing.M) {
	clitest.Main(m, map[string]func(){"finetune": func() {
		testhook.SaveWaits = []time.Duration{time.Millisecond, time.Millisecond}
		testhook.RPCStall, _ = time.ParseDuration(os.Getenv(stallEnv))
		testhook.MPIJoin, _ = time.ParseDuration(os.Getenv(joinEnv))
		testhook.MPIGrace, _ = time.ParseDuration(os.Getenv(graceEnv))
		if os.Getenv(muteEnv) != "" {
			testhook.Submitting = func(...any) { select {} }
		}
		beLate(os.Getenv(lateEnv))
		main()
	}})
}

// beLate writes the ID of this process to file and stops the process; if file is empty it does nothing.
func beLate(file string) {
	if file == "" || os.WriteFile(file, []byte(strconv.Itoa(os.Getpid())), 0o600) != nil {
		return
	}
	_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
}

func TestScripts(t *testing.T) { clitest.RunScripts(t, scripts(t)) }

func scripts(t *testing.T) testscript.Params {
	return testscript.Params{
		Dir:             "testdata/script",
		Condition:       clitest.Condition,
		ContinueOnError: true,
		Setup: func(e *testscript.Env) error {
			return errors.Join(writeFiles(e.WorkDir), writeChatFiles(t, e.WorkDir))
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"pairs": pairs,
			"cut":   cut,

			"same-losses":  sameLosses,
			"same-tensors": sameTensors,
			"parquet":      writeParquet,
			"same-metrics": sameMetrics,
		},
	}
}

// story builds sentences from words.
func story(seed uint64, sentences int, words string) string {
	rng := rand.New(rand.NewPCG(seed, 1))
	list := strings.Fields(words)
	var b strings.Builder
	for range sentences {
		for i := range 4 + rng.IntN(5) {
			if i > 0 {
				b.WriteByte(' ')
			}
			b.WriteString(list[rng.IntN(len(list))])
		}
		b.WriteString(".\n")
	}
	return b.String()
}

const (
	farm = "the old red hen and a small goat eat corn near warm barn while rain falls on hills"
	code = "x := y + 1 if err != nil { return } for i range n func main ( ) var s string"
)

// writeFiles writes texts of two domains, and random models for them, to a folder.
func writeFiles(folder string) error {
	files, err := madeFiles()
	return errors.Join(err, writeAll(folder, files))
}

func writeAll(folder string, files map[string][]byte) error {
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(folder, name), content, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// madeFiles caches the files of writeFiles for all tests.
var madeFiles = sync.OnceValues(func() (map[string][]byte, error) { return contentsOf(makeFiles) })

// contentsOf returns the files that a function writes to a folder.
func contentsOf(makeIn func(folder string) error) (map[string][]byte, error) {
	folder, err := os.MkdirTemp("", "finetune")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(folder)
	if err := makeIn(folder); err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(folder)
	files := map[string][]byte{}
	for _, e := range entries {
		content, readErr := os.ReadFile(filepath.Join(folder, e.Name()))
		files[e.Name()], err = content, errors.Join(err, readErr)
	}
	return files, err
}

func makeFiles(folder string) error {
	texts := map[string]string{
		"text.txt": story(1, 150, code), "held.txt": story(2, 25, code), "other.txt": story(3, 25, farm),
		"empty.txt": "", "broken.gguf": "GGUF, but not for long",
	}
	for name, text := range texts {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	c, err := tokenizer.TrainBPE(slices.Values([]string{texts["text.txt"], texts["other.txt"]}), tokenizer.TrainOptions{VocabSize: 288})
	if err != nil {
		return err
	}
	vocabulary, err := tokenizer.New(c)
	if err != nil {
		return err
	}
	if err := writeModel(filepath.Join(folder, "base.gguf"), vocabulary, 288, 1, true); err != nil {
		return err
	}
	if err := writeModel(filepath.Join(folder, "other-base.gguf"), vocabulary, 288, 2, true); err != nil {
		return err
	}
	if err := writeModel(filepath.Join(folder, "untied.gguf"), vocabulary, 288, 1, false); err != nil {
		return err
	}
	if err := writeModelOf("llada", 2, filepath.Join(folder, "diffusion.gguf"), vocabulary, 288, 1, true); err != nil {
		return err
	}
	if err := writeModelOf("llama", 7, filepath.Join(folder, "deep.gguf"), vocabulary, 288, 1, true); err != nil {
		return err
	}
	return writeModel(filepath.Join(folder, "no-words.gguf"), nil, 288, 1, true)
}

func writeModel(path string, t *tokenizer.Tokenizer, vocab int, seed uint64, tied bool) error {
	return writeModelOf("llama", 2, path, t, vocab, seed, tied)
}

func writeModelOf(name string, layers int, path string, t *tokenizer.Tokenizer, vocab int, seed uint64, tied bool) error {
	m, err := model.New(arch.Config{
		Arch: name, Name: "Tiny", Vocab: vocab, Context: 48, Embd: 32, FF: 64, Layers: layers, Heads: 4, KVHeads: 2, HeadSize: 8,
		RMSEps: 1e-5, Tied: tied,
		RoPE: ggml.RoPE{Dims: 8, Mode: ggml.RoPENorm, FreqBase: 10000, FreqScale: 1, TrainedCtx: 48, AttnFactor: 1, BetaFast: 32, BetaSlow: 1},
	}, t, seed)
	if err != nil {
		return err
	}
	defer m.Close()
	return m.Save(path, model.SaveOptions{})
}

// pairs: base.gguf adapter.gguf n requires an adapter with n pairs for the base.
func pairs(ts *testscript.TestScript, neg bool, args []string) {
	m, err := model.Load(ts.MkAbs(args[0]), model.LoadOptions{})
	ts.Check(err)
	defer m.Close()
	a, err := lora.Load(ts.MkAbs(args[1]), m)
	ts.Check(err)
	defer a.Close()
	if n := strconv.Itoa(len(a.Pairs())); (n != args[2]) != neg {
		ts.Fatalf("%s has %s pairs", args[1], n)
	}
	for _, p := range a.Pairs() {
		values, err := ggml.Read[float32](p.B)
		ts.Check(err)
		if !slices.ContainsFunc(values, func(v float32) bool { return v != 0 }) {
			ts.Fatalf("%s of %s was not trained", p.B, args[1])
		}
	}
}

// sameLosses: file… requires that the last lines of eval --json in the files have equal losses, except for
// rounding. With one file it compares the file's two lines.
func sameLosses(ts *testscript.TestScript, neg bool, args []string) {
	var losses []float64
	for _, name := range args {
		lines := strings.Split(strings.TrimSpace(ts.ReadFile(name)), "\n")
		if len(args) > 1 {
			lines = lines[len(lines)-1:]
		}
		for _, line := range lines {
			var r result
			ts.Check(json.Unmarshal([]byte(line), &r))
			losses = append(losses, r.Loss)
		}
	}
	if len(losses) != 2 {
		ts.Fatalf("%d losses", len(losses))
	}
	if (math.Abs(losses[0]-losses[1]) < 1e-4) == neg {
		ts.Fatalf("the losses are %v", losses)
	}
}

// sameTensors: a.gguf b.gguf requires tensors with equal names and bytes.
func sameTensors(ts *testscript.TestScript, neg bool, args []string) {
	a, err := readTensors(ts.MkAbs(args[0]))
	ts.Check(err)
	b, err := readTensors(ts.MkAbs(args[1]))
	ts.Check(err)
	if (len(a) > 0 && maps.EqualFunc(a, b, bytes.Equal)) == neg {
		ts.Fatalf("%s and %s: %d and %d tensors", args[0], args[1], len(a), len(b))
	}
}

// cut: file removes the last bytes.
func cut(ts *testscript.TestScript, _ bool, args []string) {
	path := ts.MkAbs(args[0])
	info, err := os.Stat(path)
	ts.Check(err)
	ts.Check(os.Truncate(path, info.Size()-100))
}

// finetune changes a model made by pretrain: the loss on the new domain falls.
func TestPretrainedBase(t *testing.T) {
	need.Time(t, "pretrains a model")
	folder := t.TempDir()
	require.NoError(t, writeFiles(folder))
	pretrain := filepath.Join(folder, "pretrain")
	need.Output(t, exec.Command("go", "build", "-o", pretrain, "../pretrain"))
	run := func(name string, args ...string) string {
		c := exec.Command(name, args...)
		c.Dir = folder
		out := need.Output(t, c)
		return out
	}
	run(pretrain, "--train-data", "other.txt", "--model-out", "prose.gguf", "--vocab", "300", "--embd", "32", "--ff", "64", "--layers", "2",
		"--heads", "4", "--kv-heads", "2", "--ctx", "24", "--model-ctx", "48", "--threads", "1", "--adam-iter", "60", "--adam-alpha", "0.01")
	report := run("finetune", "--model-base", "prose.gguf", "--train-data", "text.txt", "--valid-data", "held.txt", "--lora-out", "adapter.gguf",
		"--ctx", "24", "--threads", "1", "--adam-iter", "60", "--adam-alpha", "0.02", "--sample-prompt", "if err", "--sample-predict", "8")
	row := regexp.MustCompile(`held\.txt +([0-9.]+) +([0-9.]+) +(-[0-9.]+) %`).FindStringSubmatch(report)
	require.NotNil(t, row, report)
	change := need.Value(strconv.ParseFloat(row[3], 64))(t)
	require.Less(t, change, -25.0, report)
}

const steps = 240

// longRun returns a run with enough steps for a signal to arrive in the middle.
func longRun(folder, adapter string, more ...string) *exec.Cmd {
	c := exec.Command("finetune", append([]string{
		"--model-base", "base.gguf", "--train-data", "text.txt", "--valid-data", "held.txt", "--valid-samples", "4", "--valid-every", "5",
		"--lora-out", adapter, "--ctx", "24", "--batch", "4", "--adam-iter", strconv.Itoa(steps), "--threads", "1",
	}, more...)...)
	c.Dir = folder
	return c
}

// An interrupted run leaves the adapter of its last step, a killed run the adapter of its last checkpoint. When
// continued, it writes the same bytes as an undisturbed run.
func TestStoppedRunContinues(t *testing.T) {
	need.Time(t, "many processes")
	folder := t.TempDir()
	require.NoError(t, writeFiles(folder))
	need.Output(t, longRun(folder, "whole.gguf"))
	want := need.Value(os.ReadFile(filepath.Join(folder, "whole.gguf")))(t)

	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGKILL} {
		t.Run(sig.String(), func(t *testing.T) {
			adapter, checkpoint := sig.String()+".gguf", sig.String()+".checkpoint"
			args := []string{"--checkpoint-in", checkpoint, "--checkpoint-out", checkpoint, "--save-every", "7"}
			log := clitest.Stop(t, longRun(folder, adapter, args...), sig, "step 20: validation loss")
			values := tensors(t, filepath.Join(folder, adapter))
			require.Len(t, values, 2*14)
			if sig == syscall.SIGINT {
				require.Regexp(t, `finetune: interrupted; interrupt\.gguf has the result of step \d+; the same command continues the run`, log)
				state := tensors(t, filepath.Join(folder, checkpoint))
				for name, x := range values {
					require.True(t, bytes.Equal(x, state[name]), "%s is not that of the checkpoint", name)
				}
			}

			out := need.Output(t, longRun(folder, adapter, args...))
			from := regexp.MustCompile(`continuing from \w+\.checkpoint at step (\d+)`).FindStringSubmatch(out)
			require.NotNil(t, from, out)
			step := need.Value(strconv.Atoi(from[1]))(t)
			require.Greater(t, step, 10)
			require.Less(t, step, steps, "the run had ended before the signal came")
			got := need.Value(os.ReadFile(filepath.Join(folder, adapter)))(t)
			require.True(t, bytes.Equal(want, got), "continued at step %d", step)
		})
	}
}

// tensors reads the data of a file's tensors.
func tensors(t *testing.T, path string) map[string][]byte {
	t.Helper()
	return need.Value(readTensors(path))(t)
}

func readTensors(path string) (map[string][]byte, error) {
	g, err := ggml.OpenGGUF(path)
	if err != nil {
		return nil, err
	}
	defer g.Close()
	file, err := os.ReadFile(path)
	values := map[string][]byte{}
	for info := range g.Tensors() {
		values[info.Name] = file[g.DataOffset()+info.Offset:][:info.Size]
	}
	return values, err
}

// If the reader of the output goes away, as head does, the result is still written.
func TestBrokenPipeKeepsTheResult(t *testing.T) {
	folder := t.TempDir()
	require.NoError(t, writeFiles(folder))
	c := longRun(folder, "adapter.gguf", "--adam-iter", "3")
	reader, writer, err := os.Pipe()
	require.NoError(t, err)
	require.NoError(t, reader.Close())
	c.Stdout, c.Stderr = writer, writer
	err = c.Run()
	require.NoError(t, writer.Close())
	require.EqualError(t, err, "exit status 141")
	require.FileExists(t, filepath.Join(folder, "adapter.gguf"))
}

// Whatever stops the program, it frees everything and says what was saved.
func TestRunFreesAll(t *testing.T) {
	folder := t.TempDir()
	require.NoError(t, writeFiles(folder))
	in := func(name string) string { return filepath.Join(folder, name) }
	p := &trainCommand{ModelBase: in("base.gguf"), LoRAOut: in("adapter.gguf"), adapterFlags: noRanks}
	p.R, p.WK, p.WO, p.FFNDown = 4, 0, 2, -1
	p.DataFlags = training.DataFlags{TrainData: []string{in("text.txt")}, ValidData: in("held.txt"), ValidMax: 4, Ctx: 16}
	p.OptimizerFlags = training.OptimizerFlags{Batch: 2, GradAcc: 1, Iter: 3, Rate: 0.01, Beta1: 0.9, Beta2: 0.999, Epsilon: 1e-8, Schedule: "cosine"}
	p.Threads = 1
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	err := p.Run(ctx, io.Discard)
	require.ErrorIs(t, err, cli.ErrInterrupted)
	require.EqualError(t, err, "interrupted; nothing was trained yet, and nothing is lost")
	require.Empty(t, ggml.OpenObjects())
	require.NoFileExists(t, p.LoRAOut)

	p.Rate = 1e30
	err = p.Run(context.Background(), io.Discard)
	require.ErrorIs(t, err, train.ErrDiverged)
	require.Empty(t, ggml.OpenObjects())
	require.NoFileExists(t, p.LoRAOut)

	p.Rate, p.EvalData = 0.01, []string{in("empty.txt")}
	require.ErrorContains(t, p.Run(context.Background(), io.Discard), "--eval-data: ")
	require.Empty(t, ggml.OpenObjects())
}

// The report has the trainer's figures. If sessions round nothing, the program that writes the samples computes
// the same.
func TestReportMeasuresAsTheRun(t *testing.T) {
	folder := t.TempDir()
	require.NoError(t, writeFiles(folder))
	f32 := need.Value(model.Load(filepath.Join(folder, "base.gguf"), model.LoadOptions{}))(t)
	defer f32.Close()
	q8 := filepath.Join(folder, "q8_0.gguf")
	require.NoError(t, f32.Save(q8, model.SaveOptions{Type: func(name string, old ggml.Type) ggml.Type {
		if f32.Weight(name).NumDims() < 2 {
			return old
		}
		return ggml.Q8_0
	}}))
	rounded := need.Value(model.Load(q8, model.LoadOptions{}))(t)
	defer rounded.Close()

	p := &trainCommand{Prompt: "if", Predict: 3, adapterFlags: noRanks}
	p.ValidMax, p.Batch = -1, 2
	p.ValidData, p.Ctx, p.Threads = filepath.Join(folder, "held.txt"), 16, 1
	for _, m := range []*model.Model{f32, rounded} {
		adapter := need.Value(p.adapter(m, 1))(t)
		defer adapter.Close()
		for _, pair := range adapter.Pairs() {
			values := make([]float32, pair.B.NumElements())
			for i := range values {
				values[i] = float32(i%7-3) / 50
			}
			require.NoError(t, ggml.Write(pair.B, values))
		}
		valid := need.Value(p.LoadHeldOut(t.Context(), source(m), "--valid-data", p.ValidData))(t)
		row := need.Value(valid.Row(0))(t)
		weights := make([]float32, row.Predicted())
		weights[3] = 2.5 // and for no other token of this sample
		samples := []data.Sample{{Tokens: row[0].Tokens, LossWeights: weights}}
		for i := 1; i < valid.Len(); i++ {
			row := need.Value(valid.Row(i))(t)
			samples = append(samples, row...)
		}
		valid = data.New(valid.Length, samples)
		e := need.Value(device.New(device.Options{Threads: 1}))(t)
		defer e.Close()
		r := need.Value(p.newReport(t.Context(), e, m, adapter, &training.Sets{Valid: valid}))(t)
		require.NoError(t, r.measure(t.Context(), 0))
		require.NoError(t, r.measure(t.Context(), 1))

		trainer := need.Value(train.New(m, train.Trainables{Adapters: adapter.WithScale(1)}, valid, train.Options{
			Schedule: train.Schedule{Peak: 1, Steps: 1}, AdamW: train.AdamW{Epsilon: 1e-8}, Batch: 2, Accumulate: 1, Threads: 1,
		}))(t)
		defer trainer.Close()
		for i, adapters := range []model.Adapters{nil, adapter.WithScale(1)} {
			s := need.Value(infer.NewSession(m, infer.SessionOptions{Context: 16, Adapters: adapters, Threads: 1}))(t)
			defer s.Close()
			q := need.Value(s.NewSequence())(t)
			want := need.Value(trainer.EvaluateWith(t.Context(), adapters, valid))(t)
			require.Equal(t, want, []train.Evaluation{r.texts[0].before, r.texts[0].after}[i])
			if m == f32 { // sessions do not round its products
				require.InDelta(t, sequenceLoss(t, q, valid), want.Loss, 1e-5)
			}
		}
	}
}

// sequenceLoss sums the losses of all next tokens, by the definition of softmax.
func sequenceLoss(t *testing.T, q *infer.Sequence, d *data.Dataset) float64 {
	t.Helper()
	var sum, total float64
	for i := range d.Len() {
		row := need.Value(d.Row(i))(t)
		require.Len(t, row, 1)
		sample := row[0]
		_, err := q.Rewind(0)
		require.NoError(t, err)
		logits := need.Value(q.DecodeAll(t.Context(), sample.Tokens[:len(sample.Tokens)-1]))(t)
		for i, l := range logits {
			weight, all := 1.0, 0.0
			if sample.LossWeights != nil {
				weight = float64(sample.LossWeights[i])
			}
			for _, x := range l {
				all += math.Exp(float64(x))
			}
			sum -= weight * math.Log(math.Exp(float64(l[sample.Tokens[i+1]]))/all)
			total += weight
		}
	}
	return sum / total
}
