package training

import (
	"context"
	"errors"
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
	"github.com/goggml/ggml/internal/testutil"
	"github.com/goggml/ggml/llm/data"
	"github.com/goggml/ggml/llm/model"
	"github.com/goggml/ggml/llm/tokenizer"
	"github.com/goggml/ggml/llm/train"
)

func TestMain(m *testing.M) { testutil.Main(m) }

// Without a limit the data is seen once.
func TestEpochs(t *testing.T) {
	for _, c := range []struct{ epochs, iter, wantEpochs, wantSteps int }{
		{0, 0, 1, 0},
		{2, 0, 2, 0},
		{0, 7, 0, 7},
		{2, 7, 2, 7},
		{-1, -1, 1, 0},
	} {
		o := (&Flags{Epochs: c.epochs, AdamIter: c.iter}).Options()
		require.Equal(t, []int{c.wantEpochs, c.wantSteps}, []int{o.Epochs, o.Schedule.Steps}, "%+v", c)
	}
}

func TestEscape(t *testing.T) {
	c, err := tokenizer.TrainBPE(slices.Values([]string{"text"}), tokenizer.TrainOptions{VocabSize: 257})
	require.NoError(t, err)
	tok, err := tokenizer.New(c)
	require.NoError(t, err)
	samples := func(start string, escape bool) int {
		f := Flags{Ctx: 64, SampleStart: start, Escape: escape}
		d, err := f.Dataset(tok, "one\n\ttwo\n\tthree\\four\\five\\six")
		require.NoError(t, err)
		return d.Len()
	}
	require.Equal(t, 2, samples(`\n\t`, true))
	require.Equal(t, 3, samples(`\\`, true))
	require.Equal(t, 3, samples(`\`, false))
	require.Equal(t, 2, samples("\n\t", false))
}

func TestCheckOutputs(t *testing.T) {
	folder := t.TempDir()
	in := func(name string) string { return filepath.Join(folder, name) }
	require.NoError(t, os.WriteFile(in("text"), nil, 0o600))
	require.NoError(t, os.Symlink(in("text"), in("link")))
	require.NoError(t, os.WriteFile(in("old"), nil, 0o600))
	check := func(f Flags, outputs ...cli.File) error {
		f.TrainData = []string{in("text")}
		return f.CheckOutputs([]cli.File{{Flag: "--base", Path: in("base")}}, outputs)
	}
	require.NoError(t, check(Flags{CheckpointOut: in("run"), CheckpointIn: in("run"), LossCurve: in("loss")}, cli.File{Flag: "--out", Path: in("out")}))
	require.NoError(t, check(Flags{}, cli.File{Flag: "--out", Path: in("old")}))
	require.NoError(t, check(Flags{CheckpointOut: os.DevNull}, cli.File{Flag: "--out", Path: os.DevNull}))
	require.NoError(t, check(Flags{CheckpointIn: in("old"), CheckpointOut: in("./old")}))
	entries, err := os.ReadDir(folder)
	require.NoError(t, err)
	require.Len(t, entries, 3, "the check leaves nothing behind")

	require.EqualError(t, check(Flags{}, cli.File{Flag: "--out", Path: in("link")}), "--out "+in("link")+" is the file of --train-data too; give it another name")
	require.ErrorContains(t, check(Flags{}, cli.File{Flag: "--out", Path: in("base")}), "is the file of --base too")
	require.ErrorContains(t, check(Flags{CheckpointOut: in("./out")}, cli.File{Flag: "--out", Path: in("out")}), "is the file of --out too")
	require.ErrorContains(t, check(Flags{LossCurve: in("out")}, cli.File{Flag: "--out", Path: in("out.png")}), "--loss-curve "+in("out.png")+" is the file of --out too")
	require.ErrorContains(t, check(Flags{}, cli.File{Flag: "--out", Path: in("none/out")}), "cannot be written: folder "+in("none")+": no such file or directory")
	require.ErrorContains(t, check(Flags{}, cli.File{Flag: "--out", Path: folder}), "it is a folder")
	require.ErrorContains(t, check(Flags{}, cli.File{Flag: "--out", Path: in("text/out")}), "cannot be written: folder "+in("text")+": not a directory")
}

// Nothing replaces what --checkpoint-in continues but its own continuation.
func TestCheckpointIsKept(t *testing.T) {
	folder := t.TempDir()
	old := filepath.Join(folder, "old")
	require.NoError(t, os.WriteFile(old, nil, 0o600))
	none := filepath.Join(folder, "none")
	for _, f := range []Flags{{CheckpointOut: old}, {CheckpointIn: none, CheckpointOut: old}} {
		require.EqualError(t, f.CheckOutputs(nil, nil), "--checkpoint-out "+old+" would replace another run, which --checkpoint-in "+old+" continues; if you do not need it, delete the file")
	}
	require.NoError(t, (&Flags{CheckpointIn: old, CheckpointOut: none}).CheckOutputs(nil, nil))
	require.ErrorContains(t, (&Flags{CheckpointIn: old}).CheckOutputs(nil, []cli.File{{Flag: "--out", Path: old}}), "--out "+old+" is the file of --checkpoint-in too")
}

// Files are one text, byte for byte: nothing comes between two.
func TestTrainDataOfSeveralFiles(t *testing.T) {
	folder := t.TempDir()
	f := Flags{Ctx: 64}
	for i, text := range []string{"one", "two\n", "", "three"} {
		path := filepath.Join(folder, string(rune('a'+i)))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		f.TrainData = append(f.TrainData, path)
	}
	c, err := tokenizer.TrainBPE(slices.Values([]string{"text"}), tokenizer.TrainOptions{VocabSize: 257})
	require.NoError(t, err)
	tok, err := tokenizer.New(c)
	require.NoError(t, err)
	data, valid, err := f.Load(tok)
	require.NoError(t, err)
	require.Nil(t, valid)
	require.Equal(t, 1, data.Len())
	row, err := data.Row(0)
	require.NoError(t, err)
	require.Equal(t, "onetwo\nthree", tok.Decode(row[0].Tokens, tokenizer.DecodeOptions{}))
}

func oneSample() *data.Dataset {
	return data.New(4, []data.Sample{{Tokens: []int32{1, 2, 3, 4}}})
}

// onLine calls a function when a line with a text is written.
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

// newTrainer makes one of a run of some steps.
func newTrainer(t *testing.T, f *Flags, steps int) *train.Trainer {
	t.Helper()
	config := model.Config{
		Arch: "llama", Vocab: 16, Context: 8, Embd: 8, FF: 8, Layers: 1, Heads: 1, KVHeads: 1, HeadSize: 8, RMSEps: 1e-5, Tied: true,
		RoPE: ggml.RoPE{Dims: 8, FreqBase: 10000, FreqScale: 1, TrainedCtx: 8, AttnFactor: 1},
	}
	m, err := model.New(config, nil, 1)
	require.NoError(t, err)
	t.Cleanup(func() { m.Close() })
	f.AdamAlpha, f.AdamIter, f.Batch, f.GradAcc, f.AdamBeta1, f.AdamBeta2, f.Threads = 0.01, steps, 1, 1, 0.9, 0.999, 1
	trainer, err := train.New(m, train.Trainables{Weights: []*ggml.Tensor{m.Weight("token_embd.weight")}}, oneSample(), f.Options())
	require.NoError(t, err)
	t.Cleanup(func() { trainer.Close() })
	return trainer
}

// What cannot be shown of a run does not cost its result.
func TestResultIsSavedFirst(t *testing.T) {
	f := Flags{LossCurve: filepath.Join(t.TempDir(), "none", "curve")}
	trainer := newTrainer(t, &f, 2)
	saved := ""
	result := Result{cli.File{Flag: "--out", Path: "result"}, func(path string) error { saved = path; return nil }}
	err := f.Run(context.Background(), full{}, trainer, nil, 2, result)
	require.Equal(t, "result", saved)
	require.ErrorContains(t, err, "the run is complete and its result saved, but: ")
	require.ErrorIs(t, err, syscall.ENOSPC)
	require.ErrorIs(t, err, fs.ErrNotExist)

	broken := errors.New("broken")
	result.Save = func(string) error { return broken }
	err = f.Run(context.Background(), io.Discard, trainer, nil, 2, result)
	require.Equal(t, "--out: broken", err.Error())
}

// The result is saved every few steps, and when the run is stopped; to a device only
// when it is complete.
func TestResultIsSavedOnTheWay(t *testing.T) {
	for path, want := range map[string]string{
		"result":   "interrupted; result is the result of step 7; without --checkpoint-out the run cannot be continued",
		os.DevNull: "interrupted; nothing was saved; without --checkpoint-out the run cannot be continued",
	} {
		f := Flags{SaveEvery: 3, ValidEvery: 7}
		trainer := newTrainer(t, &f, 9)
		var at []int
		result := Result{cli.File{Flag: "--out", Path: path}, func(string) error { at = append(at, trainer.Steps()); return nil }}
		ctx, cancel := context.WithCancel(context.Background())
		err := f.Run(ctx, onLine{"step 7: validation", cancel}, trainer, oneSample(), 9, result)
		require.EqualError(t, err, want)
		require.ErrorIs(t, err, cli.ErrInterrupted)
		err = f.Run(context.Background(), io.Discard, trainer, nil, 9, result)
		require.NoError(t, err)
		if path == os.DevNull {
			require.Equal(t, []int{9}, at)
		} else {
			require.Equal(t, []int{3, 6, 7, 9}, at)
		}
	}
}

// A failure on the way says what is left.
func TestFailureSaysWhatIsLeft(t *testing.T) {
	f := Flags{SaveEvery: 2}
	trainer := newTrainer(t, &f, 9)
	result := Result{cli.File{Flag: "--out", Path: "result"}, func(string) error {
		if trainer.Steps() > 2 {
			return syscall.ENOSPC
		}
		return nil
	}}
	err := f.Run(context.Background(), io.Discard, trainer, nil, 9, result)
	require.EqualError(t, err, "--out: no space left on device; result is the result of step 2")
}

// A full disk.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, syscall.ENOSPC }
