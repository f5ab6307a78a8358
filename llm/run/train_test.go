package run

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/testhook"
	"github.com/goggml/ggml/llm/train"
)

// A run in a folder is stopped, resumed by the same program and completed; its progress is visible to readers.
func TestTrainInFolder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "runs", "first")
	input := Input{Name: "data", Path: filepath.Join(t.TempDir(), "data.txt")}
	require.NoError(t, os.WriteFile(input.Path, []byte("text"), 0o600))
	folder := need.Value(Create(path))(t)
	defer folder.Close()
	_, err := Create(path)
	require.EqualError(t, err, "another process is writing the run in "+path+"; wait for it to end, or name another folder")

	// again runs the program.
	again := func(stop int) (Outcome, *Run, error) {
		trainer := newTrainer(t, 9)
		o := folder.Options(func(path string) error { return os.WriteFile(path, fmt.Append(nil, trainer.Steps()), 0o600) })
		o.Valid, o.ValidEvery, o.SaveEvery, o.Inputs = oneSample(), 2, 3, []Input{input, {Name: "none", Path: ""}}
		ctx, onStep := stopAfter(t, stop)
		o.OnStep = onStep
		out, err := Train(ctx, trainer, o)
		r, openErr := Open(path)
		require.NoError(t, openErr)
		return out, r, err
	}
	out, err := Train(t.Context(), nil, Options{})
	require.Error(t, err)
	require.Equal(t, "not started; see the error", out.String())
	require.Equal(t, "failed after step 3 of 9; see the error", Outcome{Steps: 3, Total: 9}.String())
	require.Equal(t, "failed after step 9 of 9; see the error", Outcome{Steps: 9, Total: 9, Ended: "all 9 steps are done"}.String())
	out, r, err := again(7)
	require.ErrorIs(t, err, train.ErrStopped)
	require.Equal(t, Outcome{Steps: 7, Total: 9, Saved: 7, Stopped: true}, out)
	require.Equal(t, "stopped after step 7 of 9", out.String())
	require.Equal(t, Manifest{
		Program: r.Manifest.Program, GGML: r.Manifest.GGML, Steps: 9, Adapter: Adapter, Best: Best, Metrics: Metrics, State: Stopped,
		Files: []Input{{"data", input.Path, 4, "982d9e3eb996f559e633f4d194def3761d909f5a3b647d1a851fead67c32c9d1"}},
	}, r.Manifest)
	require.NotEmpty(t, r.Manifest.GGML)
	p := need.Value(r.Progress())(t)
	require.Equal(t, 7, p.Step)
	require.Equal(t, 6, p.BestStep)
	best := need.Value(r.AdapterPath())(t)
	require.Equal(t, filepath.Join(path, Best), best)
	when := need.Value(r.Time())(t)
	require.False(t, when.IsZero())

	out, r, err = again(0)
	require.NoError(t, err)
	require.Equal(t, Outcome{Steps: 9, Total: 9, Saved: 9, Complete: true, Ended: "all 9 steps are done"}, out)
	require.Equal(t, "ended after step 9 of 9: all 9 steps are done", out.String())
	var steps []int
	for line, err := range r.Metrics() {
		require.NoError(t, err)
		if line.Loss != nil {
			steps = append(steps, line.Step)
		}
	}
	require.Equal(t, []int{1, 2, 3, 4, 5, 6, 7, 8, 9}, steps)
	out, _, err = again(0)
	require.NoError(t, err)
	require.Equal(t, "already complete (9 of 9 steps): nothing is left to do", out.String())

	var names []string
	entries := need.Value(os.ReadDir(path))(t)
	for _, e := range entries {
		name, _, _ := strings.Cut(e.Name(), ".tfevents.")
		names = append(names, name)
	}
	require.Equal(t, []string{
		".lock", "adapter-6.gguf", "adapter-7.gguf", "adapter-9.gguf", "adapter-best.gguf", "adapter.gguf",
		"checkpoint-6.gguf", "checkpoint-7.gguf", "checkpoint-9.gguf", "checkpoint.gguf", "commands.txt", "events.out", "manifest.json", "metrics.jsonl",
	}, slices.Compact(names))

	require.NoError(t, os.WriteFile(input.Path, []byte("other"), 0o600))
	_, _, err = again(0)
	var changed *ChangedError
	require.ErrorAs(t, err, &changed)
	require.ErrorContains(t, err, "data "+input.Path+" is not the file that the run in "+path+" began with: its SHA-256 is d9298a10")
}

// The result is saved first, so later errors do not lose it.
func TestResultIsSavedFirst(t *testing.T) {
	trainer := newTrainer(t, 4)
	var at []int
	lost := t.TempDir()
	o := Options{
		Result:    SavedFile{File: File{Name: "--out", Path: filepath.Join(t.TempDir(), "out")}},
		Write:     func(string) error { at = append(at, trainer.Steps()); return os.RemoveAll(lost) },
		SaveEvery: 2, Checkpoint: SavedFile{File: File{Name: "--checkpoint", Path: filepath.Join(lost, "file")}},
	}
	out, err := Train(t.Context(), trainer, o)
	require.ErrorContains(t, err, "--checkpoint: ")
	require.Equal(t, []int{2}, at)
	require.Equal(t, 2, out.Saved)
	require.False(t, out.Complete)

	broken := errors.New("broken")
	o.Write, o.Checkpoint = func(string) error { return broken }, SavedFile{}
	_, err = Train(t.Context(), trainer, o)
	require.EqualError(t, err, "--out: broken")
	o.Write = nil
	_, err = Train(t.Context(), trainer, o)
	require.EqualError(t, err, "the trainer, or the function that writes its result, is nil")
}

// Files that cannot be written are reported before the first step, and so is a folder that another process has
// locked.
func TestFilesOfARunAreChecked(t *testing.T) {
	trainer, folder := newTrainer(t, 2), t.TempDir()
	good := func(name string) SavedFile {
		return SavedFile{File: File{Name: "--" + name, Path: filepath.Join(folder, name)}}
	}
	for want, change := range map[string]func(o *Options){
		"--out: " + folder + " cannot be written: it is a folder": func(o *Options) { o.Result.Path = folder },
		"--state: " + filepath.Join(folder, "none", "state") + " cannot be written: folder " + filepath.Join(folder, "none") + ": no such file or directory": func(o *Options) {
			o.Checkpoint.Path = filepath.Join(folder, "none", "state")
		},
		"--metrics: " + folder + " cannot be written: it is a folder": func(o *Options) { o.Metrics.Path = folder },
	} {
		o := Options{Result: good("out"), Checkpoint: good("state"), Metrics: good("metrics").File, Write: func(string) error { return nil }}
		change(&o)
		_, err := Train(t.Context(), trainer, o)
		require.EqualError(t, err, want)
	}
	closed := need.Value(Create(folder))(t)
	require.NoError(t, closed.Close())
	_, err := Train(t.Context(), trainer, closed.Options(func(string) error { return nil }))
	require.EqualError(t, err, "the folder is closed, or a zero value; Create opens one")
	require.Zero(t, trainer.Steps())
	entries := need.Value(os.ReadDir(folder))(t)
	require.Len(t, entries, 1, "the lock alone")
}

// Metrics that cannot be written are reported at the end, when the result is saved.
func TestMetricsOnAFullDisk(t *testing.T) {
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip("there is no device that is always full")
	}
	trainer, saved := newTrainer(t, 2), 0
	out, err := Train(t.Context(), trainer, Options{
		Result:  SavedFile{File: File{Path: filepath.Join(t.TempDir(), "out")}},
		Write:   func(string) error { saved = trainer.Steps(); return nil },
		Metrics: File{"--metrics", "/dev/full"},
	})
	require.ErrorContains(t, err, "the run is complete and its result is saved, but: --metrics: write /dev/full: no space left on device")
	require.ErrorIs(t, err, syscall.ENOSPC)
	require.ErrorIs(t, out.Lost, syscall.ENOSPC)
	require.True(t, out.Complete)
	require.Equal(t, 2, saved)
}

// A save that fails because files or room ran out is tried again, a few times; another error ends the run.
func TestSaveIsTriedAgain(t *testing.T) {
	waits := testhook.SaveWaits
	testhook.SaveWaits = []time.Duration{time.Millisecond, 2 * time.Millisecond}
	t.Cleanup(func() { testhook.SaveWaits = waits })
	for _, c := range []struct {
		fault   error
		fails   int
		retries []time.Duration
		want    string
	}{
		{syscall.EMFILE, 2, testhook.SaveWaits, ""},
		{syscall.ENOSPC, 1, testhook.SaveWaits[:1], ""},
		{syscall.ENOSPC, 9, testhook.SaveWaits, "write result: no space left on device"},
		{syscall.EIO, 9, nil, "write result: input/output error"},
	} {
		trainer := newTrainer(t, 3)
		var retries []time.Duration
		fails := c.fails
		out, err := Train(t.Context(), trainer, Options{
			Result: SavedFile{File: File{Path: filepath.Join(t.TempDir(), "result")}},
			Write: func(path string) error {
				if fails--; fails >= 0 {
					return &os.PathError{Op: "write", Path: "result", Err: c.fault}
				}
				return os.WriteFile(path, nil, 0o600)
			},
			OnRetry: func(err error, wait time.Duration) {
				require.ErrorIs(t, err, c.fault)
				retries = append(retries, wait)
			},
		})
		require.Equal(t, c.retries, retries)
		require.Equal(t, c.want == "", out.Complete)
		if c.want != "" {
			require.EqualError(t, err, c.want)
		}
	}
}
