package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml/examples/internal/clitest"
	"github.com/goggml/ggml/internal/test/need"
)

// finetune runs a command of finetune in a folder.
func finetune(t *testing.T, folder string, args ...string) (stdout, stderr string) {
	t.Helper()
	c := exec.Command("finetune", args...)
	c.Dir = folder
	var out, log strings.Builder
	c.Stdout, c.Stderr = &out, &log
	require.NoError(t, c.Run(), log.String())
	return out.String(), log.String()
}

// A process locks the folder of its run as long as it lives, however it ends.
func TestTwoProcessesInOneFolder(t *testing.T) {
	files := t.TempDir()
	require.NoError(t, writeFiles(files))
	second := func() (string, error) {
		out, err := folderRun(files, "run", "--adam-iter", "5000").CombinedOutput()
		return string(out), err
	}
	first := folderRun(files, "run", "--adam-iter", "5000", "--max-time", "1m")
	log := need.Value(first.StderrPipe())(t)
	require.NoError(t, first.Start())
	lines := bufio.NewScanner(log)
	for lines.Scan() && !strings.Contains(lines.Text(), "step 8: validation") {
	}
	out, err := second()
	require.EqualError(t, err, "exit status 1")
	require.Equal(t, "finetune: --run-dir: another process is writing the run in run; wait for it to end, or name another folder\n", out)
	require.NoError(t, first.Process.Kill())
	for lines.Scan() {
	}
	require.Error(t, first.Wait())
	after, err := folderRun(files, "run", "--adam-iter", "12").CombinedOutput()
	require.NoError(t, err, string(after))
	require.Contains(t, string(after), "the run continues with other settings: steps was 5000, is 12")
}

// Without a folder a process locks each of its outputs, under any of their names.
func TestTwoProcessesWithOneOutput(t *testing.T) {
	files := t.TempDir()
	require.NoError(t, writeFiles(files))
	require.NoError(t, os.Symlink(files, filepath.Join(files, "here")))
	run := func(adapter, checkpoint string, more ...string) *exec.Cmd {
		c := exec.Command("finetune", append([]string{
			"--model-base", "base.gguf", "--train-data", "text.txt", "--ctx", "16", "--batch", "2", "--grad-acc", "1", "--lora-r", "4", "--save-every", "3",
			"--threads", "1", "--compute-type", "f32", "--lora-out", adapter, "--checkpoint-out", checkpoint, "--checkpoint-in", checkpoint,
		}, more...)...)
		c.Dir = files
		return c
	}
	first := run("a.gguf", "c-ITERATION.gguf", "--checkpoint-in", "c-LATEST.gguf", "--keep-last", "0", "--adam-iter", "5000", "--max-time", "1m")
	require.NoError(t, first.Start())
	require.Eventually(t, func() bool {
		_, err := os.Stat(filepath.Join(files, "c-LATEST.gguf"))
		return err == nil
	}, time.Minute, time.Millisecond)
	for _, c := range []struct{ adapter, checkpoint, want string }{
		{"a.gguf", "other.gguf", "--lora-out a.gguf"},
		{"here/a.gguf", "other.gguf", "--lora-out here/a.gguf"},
		{"other.gguf", "c-LATEST.gguf", "--checkpoint-out c-LATEST.gguf"},
	} {
		out, err := run(c.adapter, c.checkpoint, "--adam-iter", "5000").CombinedOutput()
		require.EqualError(t, err, "exit status 1")
		require.Equal(t, "finetune: "+c.want+": another process is writing this file; wait for it to end, or give another name\n", string(out))
	}
	locks := func() []string {
		return need.Value(filepath.Glob(filepath.Join(files, ".*")))(t)
	}
	require.Len(t, locks(), 2, "of the first process")
	require.NoError(t, first.Process.Kill())
	require.Error(t, first.Wait())
	out := need.Output(t, run("a.gguf", "c-LATEST.gguf", "--adam-iter", "12"))
	require.Contains(t, out, "the run continues with other settings: steps was 5000, is 12")
	require.Empty(t, locks(), "the next one removes what a killed one left")
}

// A figure is a line of metrics.jsonl or of finetune eval --json.
type figure struct {
	Step     int
	EvalLoss *float64 `json:"eval_loss"`
	Adapters bool
	Loss     float64
}

func figures(t *testing.T, lines string) (list []figure) {
	t.Helper()
	for line := range strings.Lines(lines) {
		var f figure
		require.NoError(t, json.Unmarshal([]byte(line), &f), line)
		list = append(list, f)
	}
	return list
}

// A run that memorises its few samples gets worse on others: it ends early, and the best adapter is from the
// step with the lowest validation loss, however it is measured.
func TestOverfittingEndsEarlyWithTheBest(t *testing.T) {
	need.Time(t, "trains many epochs")
	folder := t.TempDir()
	require.NoError(t, writeFiles(folder))
	require.NoError(t, os.WriteFile(filepath.Join(folder, "few.txt"), []byte(story(7, 4, code)), 0o600))
	const every, patience = 3, 3
	out, log := finetune(t, folder, "--model-base", "base.gguf", "--train-data", "few.txt", "--valid-data", "held.txt", "--valid-samples", "-1",
		"--valid-every", fmt.Sprint(every), "--patience", fmt.Sprint(patience), "--lora-out", "a-ITERATION.gguf", "--metrics", "metrics.jsonl",
		"--checkpoint-out", "c.gguf", "--save-every", fmt.Sprint(every), "--ctx", "16", "--batch", "4", "--grad-acc", "1", "--adam-iter", "600",
		"--adam-alpha", "0.03", "--schedule", "constant", "--warmup", "0", "--threads", "1", "--compute-type", "f32")

	text := need.Value(os.ReadFile(filepath.Join(folder, "metrics.jsonl")))(t)
	best, last := figure{}, 0
	for _, f := range figures(t, string(text)) {
		last = f.Step
		if f.EvalLoss != nil && (best.EvalLoss == nil || *f.EvalLoss < *best.EvalLoss) {
			best = f
		}
	}
	require.Positive(t, best.Step)
	require.Equal(t, best.Step+patience*every, last, "the evaluations after the best ended the run")
	require.Regexp(t, fmt.Sprintf(`\nstep %d/600  loss \S+  peak RSS \d+ MiB  mean \S+  grad \S+  lr \S+ 100%%  \(\d+ tok/s\) \[\d+s\]\nended after`, last), log)
	require.Contains(t, log, fmt.Sprintf("ended after step %d of 600: the validation loss has not improved for %d evaluations", last, patience))
	require.Contains(t, out, fmt.Sprintf("best on validation: a-best.gguf, of step %d with loss %.4f\n", best.Step, *best.EvalLoss))
	require.Contains(t, out, "--lora a-best.gguf ", "what is advised to use")

	same := func(name string) []byte {
		return need.Value(os.ReadFile(filepath.Join(folder, name)))(t)
	}
	require.Equal(t, same(fmt.Sprintf("a-%d.gguf", best.Step)), same("a-best.gguf"))
	require.Equal(t, same(fmt.Sprintf("a-%d.gguf", last)), same("a-LATEST.gguf"))
	measure := func(adapter string) float64 {
		out, _ := finetune(t, folder, "eval", "--model", "base.gguf", "--lora", adapter, "--data", "held.txt", "--ctx", "16", "--json", "--threads", "1")
		list := figures(t, out)
		require.Len(t, list, 2)
		require.True(t, list[1].Adapters)
		return list[1].Loss
	}
	lowest := measure("a-best.gguf")
	require.InDelta(t, *best.EvalLoss, lowest, 2e-7)
	for _, step := range []int{best.Step - every, best.Step + every, last} {
		if step > 0 {
			require.Greater(t, measure(fmt.Sprintf("a-%d.gguf", step)), lowest)
		}
	}

	// Continued with the same flags, the run has nothing to do; with more patience it goes on.
	again := []string{"--model-base", "base.gguf", "--train-data", "few.txt", "--valid-data", "held.txt", "--valid-samples", "-1",
		"--valid-every", fmt.Sprint(every), "--lora-out", "b.gguf", "--checkpoint-in", "c.gguf", "--ctx", "16", "--batch", "4", "--grad-acc", "1",
		"--adam-alpha", "0.03", "--schedule", "constant", "--warmup", "0", "--threads", "1", "--compute-type", "f32"}
	_, log = finetune(t, folder, append(again, "--patience", fmt.Sprint(patience), "--adam-iter", "600")...)
	require.Contains(t, log, fmt.Sprintf("already complete (%d of 600 steps): the validation loss has not improved for %d evaluations, and nothing is left to do; without --patience the run continues\n", last, patience))
	require.NotContains(t, log, "continuing")
	_, log = finetune(t, folder, append(again, "--patience", fmt.Sprint(patience+1), "--adam-iter", "600")...)
	require.Regexp(t, regexp.MustCompile(`the run continues with other settings: --patience was 3, is 4\n`), log)
	require.Contains(t, log, fmt.Sprintf("ended after step %d of 600: ", last+every))
}

// Flags that change the model in training change it in use, too: with them the loss equals the run's last
// evaluation, without them it differs.
func TestOverridesOfTrainingAreThoseOfUse(t *testing.T) {
	need.Time(t, "compares the flags of many runs")
	folder := t.TempDir()
	require.NoError(t, writeFiles(folder))
	for _, flags := range [][]string{{"--norm-rms-eps", "0.1"}, {"--rope-freq-base", "5"}, {"--rope-freq-scale", "0.1"}} {
		out, _ := finetune(t, folder, append(flags, "--model-base", "base.gguf", "--train-data", "text.txt", "--valid-data", "held.txt", "--valid-samples", "-1",
			"--lora-out", "a.gguf", "--metrics", "metrics.jsonl", "--ctx", "16", "--adam-iter", "20", "--adam-alpha", "0.02", "--threads", "1", "--compute-type", "f32")...)
		require.Contains(t, out, " --lora a.gguf "+strings.Join(flags, " ")+" --prompt ")
		text := need.Value(os.ReadFile(filepath.Join(folder, "metrics.jsonl")))(t)
		lines := figures(t, string(text))
		trained := lines[len(lines)-1]
		require.NotNil(t, trained.EvalLoss)
		measure := func(flags ...string) float64 {
			out, _ := finetune(t, folder, append([]string{"eval", "--model", "base.gguf", "--lora", "a.gguf", "--data", "held.txt", "--ctx", "16", "--json", "--threads", "1"}, flags...)...)
			return figures(t, out)[1].Loss
		}
		// The losses of two models may be close by chance; two losses of one model are closer.
		require.InDelta(t, *trained.EvalLoss, measure(flags...), 2e-7, flags)
		require.Greater(t, math.Abs(*trained.EvalLoss-measure()), 1e-6, flags)
		require.NoError(t, os.Remove(filepath.Join(folder, "metrics.jsonl")))
	}
}

// Each signal that stops the program leaves the result of the last step.
func TestSignalsEndOrderly(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGHUP} {
		if signal.Ignored(sig) { // nohup started the tests
			continue
		}
		folder := t.TempDir()
		require.NoError(t, writeFiles(folder))
		log := clitest.Stop(t, folderRun(folder, "run", "--adam-iter", "5000"), sig, "step 4: validation loss")
		require.Regexp(t, `finetune: interrupted; run/adapter\.gguf has the result of step \d+; the same command continues the run`, log)
		adapter, state := tensors(t, filepath.Join(folder, "run/adapter.gguf")), tensors(t, filepath.Join(folder, "run/checkpoint.gguf"))
		for name, x := range adapter {
			require.Equal(t, x, state[name], "%s is not that of the checkpoint", name)
		}
	}
}
