package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/examples/internal/cli"
	"github.com/goggml/ggml/internal/test/benchmodel"
	"github.com/goggml/ggml/internal/test/need"
)

// smallRuns writes a model of 28 M parameters and a text. train returns the command of a run with these flags and more, of
// two steps of 8 samples.
func smallRuns(t *testing.T, flags ...string) (in func(name string) string, train func(name string, more ...string) []string) {
	t.Helper()
	folder := t.TempDir()
	in = func(name string) string { return filepath.Join(folder, name) }
	words := need.Value(benchmodel.Vocabulary(benchmodel.Small().Vocab))(t)
	require.NoError(t, benchmodel.Write(in("base.gguf"), benchmodel.Small(), ggml.Q8_0, words...))
	require.NoError(t, os.WriteFile(in("text.txt"), []byte(benchmodel.Text(2, 3000)), 0o600))
	return in, func(name string, more ...string) []string {
		return slices.Concat([]string{
			"finetune", "train", "--model-base", in("base.gguf"), "--train-data", in("text.txt"), "--run-dir", in(name), "--batch", "8", "--grad-acc", "1",
			"--lora-r", "8", "--adam-iter", "2", "--compute-type", "f32", "--threads", "2",
		}, flags, more)
	}
}

// A run stays within the memory of --fit. It runs with four sizes, each of which computes the same steps in
// another way, in a control group with that limit and without swap, if the system allows one. Losses are
// the same as without --fit, except for rounding. Samples that are too long to fit are cut, with a message.
func TestFitStaysWithin(t *testing.T) {
	need.Time(t, "trains a model of 28 M parameters five times")
	in, train := smallRuns(t, "--valid-split", "0.1", "--valid-samples", "2")
	whole, _ := watch(t, train("whole", "--ctx", "128", "--batch", "1", "--grad-acc", "8"))
	losses, ways := stepLosses(t, in("whole")), map[string]bool{}
	require.NotContains(t, whole, "--fit")
	for _, c := range []struct {
		fit   string
		bytes int64
		more  []string
		want  string // the way, as a regular expression
	}{
		{"520MiB", 520 << 20, []string{"--ctx", "128"}, `--batch 8 --grad-acc 1 --ctx 128 --no-checkpointing`},
		{"260MiB", 260 << 20, []string{"--ctx", "128"}, `--batch [124] --grad-acc [248] --ctx 128 --(no|use)-checkpointing`},
		{"200MiB", 200 << 20, []string{"--ctx", "128"}, `--batch [1248] --grad-acc [1248] --ctx 128 --(no|use)-checkpointing`},
		{"190MiB", 190 << 20, []string{"--batch", "1", "--adam-iter", "1"}, `--batch 1 --grad-acc 1 --ctx \d{2,4} --use-checkpointing`},
	} {
		t.Run("fit="+c.fit, func(t *testing.T) {
			said, peak := watch(t, withinGroup(t, c.bytes, train(c.fit, append(c.more, "--fit", c.fit)...)))
			t.Logf("peak %.1f MiB\n%s", mib(peak), said)
			require.LessOrEqual(t, peak, c.bytes)
			way := regexp.MustCompile(`(?m)^--fit ` + c.fit + `: (` + c.want + `), which takes .* of CPU$`).FindStringSubmatch(said)
			require.NotNil(t, way, "%s, and not %s", said, c.want)
			require.False(t, ways[way[1]], "each size has a way of its own")
			ways[way[1]] = true
			if c.more[0] == "--ctx" {
				require.InDeltaSlice(t, losses, stepLosses(t, in(c.fit)), 1e-3)
			} else {
				require.Regexp(t, `(?m)^--fit 190MiB: samples are cut to \d+ tokens instead of 2048, because one sample of that length does not fit; --ctx 2048 keeps the length, but needs more memory$`, said)
			}
		})
	}
}

// A run stays within --memory, in a control group with that limit if the system allows one, and uses what it is given: the
// losses are the same as if all results were kept, and the peak rises with the limit.
func TestMemoryStaysWithin(t *testing.T) {
	need.Time(t, "trains a model of 28 M parameters four times")
	in, train := smallRuns(t, "--ctx", "128", "--valid-split", "0")
	_, most := watch(t, train("whole", "--no-checkpointing"))
	losses, before := stepLosses(t, in("whole")), int64(0)
	for _, share := range []int64{65, 80, 95} {
		limit := most * share / 100
		memory := fmt.Sprintf("%dKiB", limit>>10)
		t.Run(memory, func(t *testing.T) {
			_, peak := watch(t, withinGroup(t, limit, train(memory, "--memory", memory)))
			t.Logf("peak %.1f of %.1f MiB", mib(peak), mib(limit))
			require.LessOrEqual(t, peak, limit)
			require.Greater(t, peak, before)
			require.Equal(t, losses, stepLosses(t, in(memory)))
			before = peak
		})
	}
}

// stepLosses returns the training losses of a run.
func stepLosses(t *testing.T, folder string) (losses []float64) {
	t.Helper()
	for _, line := range metricsOf(t, folder) {
		if loss, is := line["loss"].(float64); is {
			losses = append(losses, loss)
		}
	}
	require.NotEmpty(t, losses)
	return losses
}

// watch runs a command, and returns its output and the peak memory of its process.
func watch(t *testing.T, args []string) (said string, peak int64) {
	t.Helper()
	var out bytes.Buffer
	c := exec.Command(args[0], args[1:]...)
	c.Stdout, c.Stderr = &out, &out
	require.NoError(t, c.Start())
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	for {
		select {
		case err := <-ended:
			require.NoError(t, err, out.String())
			return out.String(), peak
		case <-time.After(5 * time.Millisecond):
			peak = max(peak, peakOf(c.Process.Pid))
		}
	}
}

// withinGroup returns a command inside a control group with a memory limit, or the command alone if no group
// can be made.
func withinGroup(t *testing.T, most int64, args []string) []string {
	t.Helper()
	for _, group := range []struct{ folder, limit string }{
		{"/sys/fs/cgroup", "memory.max"},                   // version 2
		{"/sys/fs/cgroup/memory", "memory.limit_in_bytes"}, // version 1
	} {
		folder := filepath.Join(group.folder, fmt.Sprintf("goggml-fit-%d", os.Getpid()))
		if os.Mkdir(folder, 0o755) != nil {
			continue
		}
		t.Cleanup(func() { os.Remove(folder) })
		if !cli.IsFile(filepath.Join(folder, "cgroup.procs")) { // the mount point
			continue
		}
		if os.WriteFile(filepath.Join(folder, group.limit), []byte(strconv.FormatInt(most, 10)), 0o644) != nil {
			continue
		}
		swap := filepath.Join(folder, "memory.swap.max")
		if cli.IsFile(swap) {
			require.NoError(t, os.WriteFile(swap, []byte("0"), 0o644))
		}
		t.Logf("limited by %s", filepath.Join(folder, group.limit))
		return append([]string{"sh", "-c", `echo $$ >"$0" && exec "$@"`, filepath.Join(folder, "cgroup.procs")}, args...)
	}
	return args
}
