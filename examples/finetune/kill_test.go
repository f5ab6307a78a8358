package main

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml/internal/test/need"
)

// folderRun returns a run in a folder that saves every few steps.
func folderRun(files, folder string, more ...string) *exec.Cmd {
	c := exec.Command("finetune", append([]string{
		"--model-base", "base.gguf", "--train-data", "text.txt", "--valid-data", "held.txt", "--valid-samples", "3", "--valid-every", "4",
		"--run-dir", folder, "--ctx", "16", "--batch", "2", "--grad-acc", "1", "--lora-r", "4", "--adam-iter", "36", "--adam-alpha", "0.02",
		"--save-every", "3", "--keep-last", "2", "--threads", "1", "--compute-type", "f32", "--lora-dropout", "0.1",
		"--sample-prompt", "the hen", "--sample-predict", "3",
	}, more...)...)
	c.Dir = files
	return c
}

// A moment is when a process is killed: after a time, or when it writes a file for the nth time, while the file
// still has a temporary name.
type moment struct {
	after time.Duration
	write int
}

// kill kills a process at a moment, and reports whether it was still running.
func (m moment) kill(t *testing.T, c *exec.Cmd, folder string) bool {
	t.Helper()
	began, writes, last := time.Now(), 0, ""
	return killWhen(t, c, func() bool {
		if m.write == 0 {
			return time.Since(began) >= m.after
		}
		if name := temporaryIn(folder); name != "" && name != last {
			writes, last = writes+1, name
		}
		return writes == m.write
	})
}

// killWhen starts a process and kills it as soon as isNow holds, and reports whether it was still running.
func killWhen(t *testing.T, c *exec.Cmd, isNow func() bool) bool {
	t.Helper()
	require.NoError(t, c.Start())
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	for !isNow() {
		select {
		case err := <-ended:
			require.NoError(t, err)
			return false
		case <-time.After(50 * time.Microsecond):
		}
	}
	_ = c.Process.Signal(syscall.SIGKILL) // it may have ended already
	return (<-ended) != nil
}

// temporaryIn returns a file that is being written.
func temporaryIn(folder string) string {
	entries, _ := os.ReadDir(folder)
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".tmp") || strings.HasSuffix(e.Name(), ".new") || strings.HasSuffix(e.Name(), ".link") {
			return e.Name()
		}
	}
	return ""
}

// clockFields matches the fields of metrics.jsonl that depend on the clock or the process.
var clockFields = regexp.MustCompile(`,"time":"[^"]+"|,"tokens_per_second":[^,}]+|,"peak_share":[^,}]+|,"memory":\d+`)

// contents returns the files of a folder, except files with the command line, the end of the run, or the time.
// It removes clockFields from metrics.jsonl.
func contents(t *testing.T, folder string) map[string]string {
	t.Helper()
	entries := need.Value(os.ReadDir(folder))(t)
	files := map[string]string{}
	for _, e := range entries {
		if e.IsDir() || slices.Contains([]string{"commands.txt", "config.yaml", "README.md"}, e.Name()) || strings.Contains(e.Name(), "tfevents") {
			continue
		}
		text := need.Value(os.ReadFile(filepath.Join(folder, e.Name())))(t)
		files[e.Name()] = string(text)
		if e.Name() == "metrics.jsonl" {
			files[e.Name()] = clockFields.ReplaceAllString(string(text), "")
		}
	}
	return files
}

// A run that is killed at any moment, even during a save, and continued by the same command ends with the files
// of an undisturbed run: adapters, the best one, checkpoints, metrics, samples and loss curve. They are equal
// byte for byte, apart from the clock, and there are no others.
func TestKilledRunEndsAsAnother(t *testing.T) {
	need.Time(t, "kills many processes")
	files := t.TempDir()
	require.NoError(t, writeFiles(files))
	began := time.Now()
	need.Output(t, folderRun(files, "whole"))
	took := time.Since(began)
	want := contents(t, filepath.Join(files, "whole"))
	for _, name := range []string{"adapter.gguf", "adapter-best.gguf", "adapter-36.gguf", "adapter-33.gguf", "checkpoint.gguf", "metrics.jsonl", "loss.svg"} {
		require.Contains(t, want, name)
	}
	require.Equal(t, 36+10, strings.Count(want["metrics.jsonl"], "\n"), "a line for each step and evaluation")
	require.Equal(t, 10, strings.Count(want["samples.jsonl"], "\n"), "a sample for each evaluation")

	kills := 20
	rng := rand.New(rand.NewPCG(uint64(began.UnixNano()), 1))
	for try := 0; kills > 0; try++ {
		require.Less(t, try, 200, "most runs end before they are killed")
		name := fmt.Sprint("killed", try)
		folder := filepath.Join(files, name)
		var moments []moment
		for range min(3, kills) {
			m := moment{after: time.Duration(rng.Float64() * float64(took))}
			if rng.IntN(2) == 0 {
				m = moment{write: 1 + rng.IntN(30)}
			}
			moments = append(moments, m)
			if !m.kill(t, folderRun(files, name), folder) {
				break
			}
			kills--
		}
		out, err := folderRun(files, name).CombinedOutput()
		require.NoError(t, err, "%+v\n%s", moments, out)
		got := contents(t, folder)
		require.Equal(t, slices.Sorted(maps.Keys(want)), slices.Sorted(maps.Keys(got)), "%+v", moments)
		for file := range want {
			require.True(t, want[file] == got[file], "%+v: %s differs\n%s", moments, file, out)
		}
	}
}

// A run of preferences that is killed while it computes the log-probabilities of its reference, several times, and
// continued by the same command has the log-probabilities and ends with the files of an undisturbed run, byte for byte.
func TestKilledReferenceEndsAsAnother(t *testing.T) {
	need.Time(t, "kills many processes")
	files := t.TempDir()
	require.NoError(t, writeFiles(files))
	var pairs strings.Builder
	for i := range 900 { // several parts, each of which is written as a whole
		fmt.Fprintf(&pairs, `{"prompt": "case %d", "chosen": ": return %d + 1", "rejected": " := nil %d"}`+"\n", i, i, 7*i)
	}
	require.NoError(t, os.WriteFile(filepath.Join(files, "pairs.jsonl"), []byte(pairs.String()), 0o600))
	run := func(folder string) *exec.Cmd {
		c := exec.Command("finetune", "--model-base", "base.gguf", "--train-data", "pairs.jsonl", "--raw-prompts", "--valid-split", "0.3", "--run-dir", folder,
			"--loss", "dpo", "--ctx", "32", "--batch", "2", "--adam-iter", "3", "--threads", "1", "--compute-type", "f32", "--lora-r", "4")
		c.Dir = files
		return c
	}
	references := func(folder, pattern string) (list []string) {
		return need.Value(filepath.Glob(filepath.Join(files, folder, "cache", pattern)))(t)
	}
	need.Output(t, run("whole"))
	want, total := contents(t, filepath.Join(files, "whole")), int64(0)
	whole := references("whole", "*.logprobs")
	require.Len(t, whole, 2, "of the data and of what is held out")
	for _, path := range whole {
		total += need.Value(os.Stat(path))(t).Size()
	}

	kills := 6
	rng := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 2))
	for try := 0; kills > 0; try++ {
		require.Less(t, try, 100, "most runs end before they are killed")
		name := fmt.Sprint("killed", try)
		for range min(2, kills) {
			at := rng.Int64N(total)
			size := func() (n int64) {
				for _, path := range references(name, "*.logprobs*") {
					if info, err := os.Stat(path); err == nil { // not renamed meanwhile
						n += info.Size()
					}
				}
				return n
			}
			if !killWhen(t, run(name), func() bool { return size() > at }) {
				break
			}
			if len(references(name, "*.pending")) > 0 { // otherwise it was done with them
				kills--
			}
		}
		out, err := run(name).CombinedOutput()
		require.NoError(t, err, "%s", out)
		require.Empty(t, references(name, "*.pending"))
		require.Equal(t, want, contents(t, filepath.Join(files, name)))
		for _, path := range whole {
			was, is := need.Value(os.ReadFile(path))(t), need.Value(os.ReadFile(filepath.Join(files, name, "cache", filepath.Base(path))))(t)
			require.True(t, string(was) == string(is), "%s differs", path)
		}
	}
}
