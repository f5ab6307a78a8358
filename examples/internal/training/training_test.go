package training

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/examples/internal/cli"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/testutil"
	"github.com/goggml/ggml/llm/arch"
	"github.com/goggml/ggml/llm/data"
	"github.com/goggml/ggml/llm/model"
	"github.com/goggml/ggml/llm/run"
	"github.com/goggml/ggml/llm/tokenizer"
	"github.com/goggml/ggml/llm/train"
)

func TestMain(m *testing.M) { testutil.Main(m) }

// By default a run sees the data once.
func TestEpochs(t *testing.T) {
	for _, c := range []struct{ epochs, iter, wantEpochs, wantSteps int }{
		{0, 0, 1, 0},
		{2, 0, 2, 0},
		{0, 7, 0, 7},
		{2, 7, 2, 7},
		{-1, -1, 1, 0},
	} {
		f := Flags{OptimizerFlags: OptimizerFlags{Epochs: c.epochs, Iter: c.iter, Schedule: "cosine"}}
		o := need.Value(f.Options(8))(t)
		require.Equal(t, []int{c.wantEpochs, c.wantSteps}, []int{o.Epochs, o.Schedule.Steps}, "%+v", c)
	}
}

func TestEscape(t *testing.T) {
	c := need.Value(tokenizer.TrainBPE(slices.Values([]string{"text"}), tokenizer.TrainOptions{VocabSize: 257}))(t)
	tok := need.Value(tokenizer.New(c))(t)
	path := filepath.Join(t.TempDir(), "text")
	require.NoError(t, os.WriteFile(path, []byte("one\n\ttwo\n\tthree\\four\\five\\six"), 0o600))
	samples := func(start string, escape bool) int {
		f := DataFlags{Ctx: 64, ValidMax: -1, TextFlags: TextFlags{SampleStart: start, Escape: escape}}
		d := need.Value(f.LoadHeldOut(t.Context(), Source{Tokenizer: tok}, "--data", path))(t)
		defer d.Close()
		return d.Len()
	}
	require.Equal(t, 2, samples(`\n\t`, true))
	require.Equal(t, 3, samples(`\\`, true))
	require.Equal(t, 3, samples(`\`, false))
	require.Equal(t, 2, samples("\n\t", false))
}

// out returns a result at a path.
func out(path string) run.SavedFile {
	return run.SavedFile{File: run.File{Name: "--out", Path: path}, Keep: -1}
}

func TestCheckOutputs(t *testing.T) {
	folder := t.TempDir()
	in := func(name string) string { return filepath.Join(folder, name) }
	require.NoError(t, os.WriteFile(in("text"), nil, 0o600))
	require.NoError(t, os.Symlink(in("text"), in("link")))
	require.NoError(t, os.WriteFile(in("old"), nil, 0o600))
	check := func(r RunFlags, result run.SavedFile) error {
		f := Flags{RunFlags: r}
		f.TrainData = []string{in("text")}
		locks, err := f.TakeOutputs([]cli.File{{Flag: "--base", Path: in("base")}}, result)
		if err == nil {
			err = locks.Close()
		}
		return err
	}
	require.NoError(t, check(RunFlags{CheckpointOut: in("run"), CheckpointIn: in("run"), LossCurve: in("loss")}, out(in("out"))))
	require.NoError(t, check(RunFlags{}, out(in("old"))))
	require.NoError(t, check(RunFlags{CheckpointOut: os.DevNull}, out(os.DevNull)))
	require.NoError(t, check(RunFlags{CheckpointIn: in("old"), CheckpointOut: in("./old")}, out("")))
	entries := need.Value(os.ReadDir(folder))(t)
	require.Len(t, entries, 3, "the check leaves nothing behind")

	require.EqualError(t, check(RunFlags{}, out(in("link"))), "--out "+in("link")+" is also the file of --train-data; give it another name")
	require.ErrorContains(t, check(RunFlags{}, out(in("base"))), "is also the file of --base")
	require.ErrorContains(t, check(RunFlags{CheckpointOut: in("./out")}, out(in("out"))), "is also the file of --out")
	require.ErrorContains(t, check(RunFlags{LossCurve: in("out")}, out(in("out.png"))), "--loss-curve "+in("out.png")+" is also the file of --out")
	require.ErrorContains(t, check(RunFlags{}, out(in("none/out"))), "cannot be written: folder "+in("none")+": no such file or directory")
	require.ErrorContains(t, check(RunFlags{}, out(folder)), "it is a folder")
	require.ErrorContains(t, check(RunFlags{}, out(in("text/out"))), "cannot be written: folder "+in("text")+": not a directory")
}

// Only its own continuation may replace the checkpoint of --checkpoint-in.
func TestCheckpointIsKept(t *testing.T) {
	folder := t.TempDir()
	old := filepath.Join(folder, "old")
	require.NoError(t, os.WriteFile(old, nil, 0o600))
	none := filepath.Join(folder, "none")
	check := func(r RunFlags, result run.SavedFile) error {
		locks, err := (&Flags{RunFlags: r}).TakeOutputs(nil, result)
		if err == nil {
			err = locks.Close()
		}
		return err
	}
	for _, r := range []RunFlags{{CheckpointOut: old}, {CheckpointIn: none, CheckpointOut: old}} {
		require.EqualError(t, check(r, out("")), "--checkpoint-out "+old+" would replace the checkpoint of another run; --checkpoint-in "+old+" continues that run; if you do not need it, delete the file")
	}
	require.NoError(t, check(RunFlags{CheckpointIn: old, CheckpointOut: none}, out("")))
	require.ErrorContains(t, check(RunFlags{CheckpointIn: old}, out(old)), "--out "+old+" is also the file of --checkpoint-in")
}

// Several files are one text, byte for byte, with nothing between them.
func TestTrainDataOfSeveralFiles(t *testing.T) {
	folder := t.TempDir()
	f := DataFlags{Ctx: 64}
	for i, text := range []string{"one", "two\n", "", "three"} {
		path := filepath.Join(folder, string(rune('a'+i)))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		f.TrainData = append(f.TrainData, path)
	}
	c := need.Value(tokenizer.TrainBPE(slices.Values([]string{"text"}), tokenizer.TrainOptions{VocabSize: 257}))(t)
	tok := need.Value(tokenizer.New(c))(t)
	sets := need.Value(f.Load(t.Context(), Source{Tokenizer: tok}))(t)
	defer sets.Close()
	require.Nil(t, sets.Valid)
	data := sets.Train
	require.Equal(t, 1, data.Len())
	row := need.Value(data.Row(0))(t)
	require.Equal(t, "onetwo\nthree", tok.Decode(row[0].Tokens, tokenizer.DecodeOptions{}))
}

func oneSample() *data.Dataset {
	return data.New(4, []data.Sample{{Tokens: []int32{1, 2, 3, 4}}})
}

// onLine calls a function when a line that contains a text is written.
type onLine struct {
	text string
	do   func()
}

func (o onLine) Write(p []byte) (int, error) {
	if strings.Contains(string(p), o.text) {
		o.do()
	}
	return len(p), nil
}

// newTrainer returns the trainer of a run of some steps.
func newTrainer(t *testing.T, f *Flags, steps int) *train.Trainer {
	t.Helper()
	config := arch.Config{
		Arch: "llama", Vocab: 16, Context: 8, Embd: 8, FF: 8, Layers: 1, Heads: 1, KVHeads: 1, HeadSize: 8, RMSEps: 1e-5, Tied: true,
		RoPE: ggml.RoPE{Dims: 8, FreqBase: 10000, FreqScale: 1, TrainedCtx: 8, AttnFactor: 1},
	}
	m := need.Value(model.New(config, nil, 1))(t)
	t.Cleanup(func() { m.Close() })
	f.OptimizerFlags = OptimizerFlags{Rate: 0.01, Schedule: "cosine", Iter: steps, Batch: 1, GradAcc: 1, Beta1: 0.9, Beta2: 0.999, Epsilon: 1e-8}
	f.Threads = 1
	o := need.Value(f.Options(1))(t)
	trainer := need.Value(train.New(m, train.Trainables{ModelWeights: []*ggml.Tensor{m.Weight("token_embd.weight")}}, oneSample(), o))(t)
	t.Cleanup(func() { trainer.Close() })
	return trainer
}

// A failure to show progress does not cost the run's result.
func TestResultIsSavedFirst(t *testing.T) {
	f := Flags{RunFlags: RunFlags{LossCurve: filepath.Join(t.TempDir(), "none", "curve")}}
	trainer := newTrainer(t, &f, 2)
	saved := ""
	result := Result{SavedFile: f.Result("--out", "result"), Write: func(path string) error { saved = path; return nil }}
	err := f.Run(context.Background(), full{}, trainer, nil, result)
	require.Equal(t, "result", saved)
	require.ErrorContains(t, err, "the run is complete and its result is saved, but: ")
	require.ErrorIs(t, err, syscall.ENOSPC)
	require.ErrorIs(t, err, fs.ErrNotExist)

	broken := errors.New("broken")
	result.Write = func(string) error { return broken }
	err = f.Run(context.Background(), io.Discard, trainer, nil, result)
	require.Equal(t, "--out: broken", err.Error())
}

// The result is saved every few steps, and when the run is stopped. A device gets only the complete result.
func TestResultIsSavedOnTheWay(t *testing.T) {
	for path, want := range map[string]string{
		"result":   "interrupted; result has the result of step 7; without --checkpoint-out the run cannot be continued",
		os.DevNull: "interrupted; nothing was saved; without --checkpoint-out the run cannot be continued",
	} {
		f := Flags{RunFlags: RunFlags{SaveEvery: 3, ValidEvery: 7}}
		trainer := newTrainer(t, &f, 9)
		var at []string
		result := Result{SavedFile: f.Result("--out", path), Write: func(path string) error {
			at = append(at, fmt.Sprintf("%s %d", path, trainer.Steps()))
			return nil
		}}
		ctx, cancel := context.WithCancel(context.Background())
		err := f.Run(ctx, onLine{"step 7: validation", cancel}, trainer, oneSample(), result)
		require.EqualError(t, err, want)
		require.ErrorIs(t, err, cli.ErrInterrupted)
		err = f.Run(context.Background(), io.Discard, trainer, nil, result)
		require.NoError(t, err)
		if path == os.DevNull {
			require.Equal(t, []string{os.DevNull + " 9"}, at)
		} else {
			require.Equal(t, []string{"result 3", "result 6", "result-best 7", "result 7", "result 9"}, at)
		}
	}
}

// A progress line shows the share of the peak if it is known. Evaluations show the extra remark, except the one
// before the first step.
func TestProgressOfSteps(t *testing.T) {
	var log bytes.Buffer
	f := Flags{RunFlags: RunFlags{ValidEvery: 2}}
	trainer, at := newTrainer(t, &f, 4), []int(nil)
	result := Result{SavedFile: f.Result("--out", os.DevNull), Write: func(string) error { return nil }, Peak: func(float64) float64 { return 1e9 }}
	result.Evaluated = func(step int) string { at = append(at, step); return "made" }
	require.NoError(t, f.Run(t.Context(), &log, trainer, oneSample(), result))
	require.Equal(t, []int{2, 4}, at)
	require.Contains(t, log.String(), "\nstep 2: made\n")
	require.Regexp(t, `step 4/4  loss [0-9.]+  peak RSS \d+ MiB  mean [0-9.]+  grad [0-9.e-]+  lr [0-9.e+-]+  0 % of peak 100%  \(\d+ tok/s\)`, log.String())

	log.Reset()
	peaks := []float64{1e9, 1e9, 0, 0}
	result.Peak = func(float64) float64 {
		peak := peaks[0]
		peaks = peaks[1:]
		return peak
	}
	require.NoError(t, f.Run(t.Context(), &log, newTrainer(t, &f, 4), nil, result))
	require.Contains(t, log.String(), "steps are faster than the measured peak, so the machine was busy when it was measured: shares of the peak are no longer shown\n")
	require.NotContains(t, log.String(), "peak 100%")

	log.Reset()
	result.Peak, result.Evaluated = nil, func(int) string { return "" }
	require.NoError(t, f.Run(t.Context(), &log, newTrainer(t, &f, 4), oneSample(), result))
	require.NotContains(t, log.String(), "peak 100%")
	require.NotContains(t, log.String(), "made")
}

// A complete run says how to continue it.
func TestFlagsThatGoOn(t *testing.T) {
	for want, f := range map[string]OptimizerFlags{
		"--epochs 2":                      {},
		"--epochs 4":                      {Epochs: 3},
		"--adam-iter 224":                 {Iter: 112},
		"--epochs 4 with --adam-iter 224": {Epochs: 3, Iter: 112},
		"--epochs 5":                      {Epochs: 4, Iter: 500},
	} {
		require.Equal(t, want, f.longer(112))
	}
	require.Equal(t, "--patience, --opt-past", (&OptimizerFlags{Patience: 1, OptPast: 2, OptDelta: 1}).endFlags())
	require.Equal(t, "--opt-max-no-improvement, --adam-epsf", (&OptimizerFlags{OptNoImprovement: 1, OptPast: 2, EpsF: 1}).endFlags())
}

// A failure during the run says what was saved.
func TestFailureSaysWhatIsLeft(t *testing.T) {
	need.Time(t, "fails at each write of a run")
	f := Flags{RunFlags: RunFlags{SaveEvery: 2}}
	trainer := newTrainer(t, &f, 9)
	result := Result{SavedFile: f.Result("--out", "result"), Write: func(string) error {
		if trainer.Steps() > 2 {
			return syscall.ENOSPC
		}
		return nil
	}}
	err := f.Run(context.Background(), io.Discard, trainer, nil, result)
	require.EqualError(t, err, "--out: no space left on device; result has the result of step 2")
}

// full is a full disk.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

// The seed of a run decides where its samples start.
func TestOffsetsFollowTheSeed(t *testing.T) {
	f := Flags{DataFlags: DataFlags{TextFlags: TextFlags{RandomOffsets: true}}, RunFlags: RunFlags{Seed: 7}, OptimizerFlags: OptimizerFlags{Batch: 1, GradAcc: 1}}
	require.NoError(t, f.Prepare(io.Discard))
	require.Equal(t, uint64(7), f.textOptions().Seed)
	f.Seed = -1
	require.NoError(t, f.Prepare(io.Discard))
	require.Equal(t, f.RandomSeed(), f.textOptions().Seed)
}
