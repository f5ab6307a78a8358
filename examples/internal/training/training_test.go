package training

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml/internal/testutil"
	"github.com/goggml/ggml/llm/tokenizer"
	"github.com/goggml/ggml/llm/train"
)

func TestMain(m *testing.M) { testutil.Main(m) }

func TestSteps(t *testing.T) {
	for _, c := range []struct{ epochs, iter, batch, acc, samples, want int }{
		{0, 0, 4, 1, 10, 3}, // once, the last step with samples of the next epoch
		{0, 0, 4, 2, 10, 2},
		{2, 0, 4, 1, 10, 5},
		{0, 7, 4, 1, 10, 7},
		{2, 7, 4, 1, 10, 5}, // the smaller of both
		{3, 7, 4, 1, 10, 7},
		{0, 0, 16, 1, 3, 1},
		{-1, -1, 4, 1, 8, 2},
	} {
		f := Flags{Epochs: c.epochs, AdamIter: c.iter, Batch: c.batch, GradAcc: c.acc}
		require.Equal(t, c.want, f.steps(c.samples), "%+v", c)
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
		return len(d.Samples)
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
	check := func(f Flags, outputs ...Path) error {
		f.TrainData = []string{in("text")}
		return f.CheckOutputs([]Path{{"--base", in("base")}}, outputs)
	}
	require.NoError(t, check(Flags{CheckpointOut: in("run"), CheckpointIn: in("run"), LossCurve: in("loss")}, Path{"--out", in("out")}))
	require.NoError(t, check(Flags{}, Path{"--out", in("old")}))
	require.NoError(t, check(Flags{CheckpointOut: os.DevNull}, Path{"--out", os.DevNull}))
	entries, err := os.ReadDir(folder)
	require.NoError(t, err)
	require.Len(t, entries, 3, "the check leaves nothing behind")

	require.EqualError(t, check(Flags{}, Path{"--out", in("link")}), "--out "+in("link")+" is the file of --train-data too; give it another name")
	require.ErrorContains(t, check(Flags{}, Path{"--out", in("base")}), "is the file of --base too")
	require.ErrorContains(t, check(Flags{CheckpointOut: in("./out")}, Path{"--out", in("out")}), "is the file of --out too")
	require.ErrorContains(t, check(Flags{LossCurve: in("out")}, Path{"--out", in("out.png")}), "--loss-curve "+in("out.png")+" is the file of --out too")
	require.ErrorContains(t, check(Flags{}, Path{"--out", in("none/out")}), "cannot be written: folder "+in("none")+": no such file or directory")
	require.ErrorContains(t, check(Flags{}, Path{"--out", folder}), "it is a folder")
	require.ErrorContains(t, check(Flags{}, Path{"--out", in("text/out")}), "cannot be written: folder "+in("text")+": not a directory")
}

func TestExitStatus(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	failure := errors.New("broken")
	require.NoError(t, Stopped(ctx, nil, "hint"))
	require.Equal(t, failure, Stopped(ctx, failure, "hint"))
	cancel()
	require.NoError(t, Stopped(ctx, nil, "hint"))
	stopped := Stopped(ctx, failure, "the work is saved")
	require.EqualError(t, stopped, "interrupted; the work is saved")
	require.Equal(t, 0, status(nil))
	require.Equal(t, 1, status(failure))
	require.Equal(t, 130, status(stopped))
	require.Equal(t, 130, status(train.ErrStopped))
}
