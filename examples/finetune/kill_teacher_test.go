package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml/internal/test/need"
)

// taughtRun returns a run whose teacher scores many samples, and which takes few steps.
func taughtRun(files, folder string) *exec.Cmd {
	c := exec.Command("finetune",
		"--model-base", "base.gguf", "--train-data", "long.txt", "--valid-data", "held.txt", "--run-dir", folder, "--teacher", "base.gguf", "--teacher-top-k", "8",
		"--ctx", "16", "--batch", "2", "--grad-acc", "1", "--lora-r", "4", "--adam-iter", "3", "--threads", "1", "--compute-type", "f32")
	c.Dir = files
	return c
}

// scored returns the file of a run's scores, and whether it is complete.
func scored(folder string) (path string, size int64, isComplete bool) {
	list, _ := filepath.Glob(filepath.Join(folder, "cache", "*.taught*"))
	for _, path := range list {
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
			return path, info.Size(), strings.HasSuffix(path, ".taught")
		}
	}
	return "", 0, false
}

// A run that is killed again and again while its teacher's scores are computed continues them, and ends with the scores
// and the files of an undisturbed run, byte for byte.
func TestKilledTeacherEndsAsAnother(t *testing.T) {
	need.Time(t, "trains several times")
	files := t.TempDir()
	require.NoError(t, writeFiles(files))
	rng := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 2))
	var text strings.Builder
	for range 6000 {
		fmt.Fprintf(&text, "the %d hens of %d\n", rng.IntN(1000), rng.IntN(1000))
	}
	require.NoError(t, os.WriteFile(filepath.Join(files, "long.txt"), []byte(text.String()), 0o666))
	need.Output(t, taughtRun(files, "whole"))
	whole := filepath.Join(files, "whole")
	path, size, isComplete := scored(whole)
	require.True(t, isComplete)
	want := need.Value(os.ReadFile(path))(t)

	kills, folder := 0, filepath.Join(files, "killed")
	for i := range 4 {
		c, least := taughtRun(files, "killed"), size*int64(1+i)/6+rng.Int64N(size/8)
		require.NoError(t, c.Start())
		ended := make(chan error, 1)
		go func() { ended <- c.Wait() }()
		for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
			_, now, isComplete := scored(folder)
			if now >= least && !isComplete {
				require.NoError(t, c.Process.Kill())
			} else if !isComplete && time.Now().Before(deadline) {
				continue
			}
			break
		}
		if err := <-ended; err != nil {
			kills++
		}
	}
	require.NotZero(t, kills, "no run was killed while the teacher's scores were computed")
	out := need.Output(t, taughtRun(files, "killed"))
	again, _, isComplete := scored(folder)
	require.True(t, isComplete)
	require.Equal(t, filepath.Base(path), filepath.Base(again))
	require.True(t, string(want) == string(need.Value(os.ReadFile(again))(t)), "the scores differ\n%s", out)
	wanted, got := contents(t, whole), contents(t, folder)
	for name, text := range wanted {
		require.True(t, text == got[name], "%s differs", name)
	}
	require.Len(t, got, len(wanted))
}
