package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
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

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/examples/internal/cli"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/llm/run"
)

// launchers returns the launchers of `make machines`, or else the system's, by MPI library; with -short one of them.
func launchers(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	for _, name := range []string{"openmpi", "mpich"} {
		path := need.Value(filepath.Abs("../../build/machines/" + name + "/mpirun"))(t)
		if cli.IsFile(path) {
			found[name] = path
			if testing.Short() {
				break
			}
		}
	}
	if path, err := exec.LookPath("mpirun"); err == nil && len(found) == 0 {
		found["system"] = path
	}
	if len(found) == 0 {
		t.Skip("there is no mpirun: make machines fetches Open MPI and MPICH")
	}
	return found
}

// mpirun returns a launcher's command in a folder. It may start more processes than processors, and as root, as
// in containers: Open MPI forbids both by default.
//
// Each has a folder of its own for temporary files: two launchers of Open MPI that make a common one at once may fail.
func mpirun(launcher, folder string, args ...string) *exec.Cmd {
	c := exec.Command(launcher, args...)
	c.Dir = folder
	own, err := os.MkdirTemp(folder, "")
	if err != nil {
		c.Err = err
		return c
	}
	c.Env = append(os.Environ(), "OMPI_MCA_orte_tmpdir_base="+own, "PRTE_MCA_prte_tmpdir_base="+own,
		"OMPI_MCA_rmaps_base_oversubscribe=1", "OMPI_MCA_hwloc_base_binding_policy=none",
		"PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe", "PRTE_MCA_hwloc_default_binding_policy=none",
		"OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1", "PRTE_ALLOW_RUN_AS_ROOT=1", "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1")
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	return c
}

// sharedRun returns the arguments of a run that several processes share.
func sharedRun(folder string, more ...string) []string {
	return append([]string{
		"finetune", "--model-base", "base.gguf", "--train-data", "text.txt", "--valid-data", "held.txt", "--valid-samples", "5", "--valid-every", "4",
		"--run-dir", folder, "--ctx", "16", "--batch", "3", "--grad-acc", "1", "--lora-r", "4", "--adam-iter", "12", "--adam-alpha", "0.01",
		"--save-every", "3", "--threads", "1", "--compute-type", "f32", "--lora-dropout", "0.1", "--neftune-alpha", "5", "--adam-gclip", "0.1",
	}, more...)
}

// Several processes train the same as one, except for rounding: with rows that they cannot share evenly, packed
// rows, accumulated batches and all random features, and when a run continues with other numbers of processes.
func TestProcessesAreOne(t *testing.T) {
	files := t.TempDir()
	require.NoError(t, writeFiles(files))
	whole := map[string]string{}
	var once sync.Mutex
	one := func(more ...string) string { // the output of one process; each run runs once
		once.Lock()
		defer once.Unlock()
		name := "one" + strings.Join(more, "")
		if whole[name] == "" {
			words := sharedRun(name, more...)
			c := exec.Command(words[0], words[1:]...)
			c.Dir = files
			need.Output(t, c)
			whole[name] = filepath.Join(files, name)
		}
		return whole[name]
	}
	for name, launcher := range launchers(t) {
		for i, c := range []struct {
			processes []string // one number, or several; each launch continues the previous run
			more      []string
		}{
			{[]string{"2"}, nil},
			{[]string{"3"}, []string{"--grad-acc", "4", "--packing"}},
			{[]string{"3", "1", "4"}, []string{"--grad-acc", "4"}},
			{[]string{"2"}, []string{"--packing"}},
		} {
			if i > 0 && testing.Short() {
				break
			}
			t.Run(fmt.Sprint(name, c.processes, c.more), func(t *testing.T) {
				folder := fmt.Sprint(name, i)
				for part, n := range c.processes {
					more := c.more
					if part < len(c.processes)-1 {
						more = append(append([]string{}, more...), "--max-tokens", strconv.Itoa(700*(part+1)))
					}
					out := need.Output(t, mpirun(launcher, files, append([]string{"-np", n}, sharedRun(folder, more...)...)...))
					if n != "1" {
						require.Contains(t, out, n+" processes, started by ")
						require.Regexp(t, `gradients: [0-9.]+ MB per step`, out)
					}
					require.Equal(t, 1, strings.Count(out, "adapter: "+folder), "one process reports\n%s", out)
				}
				requireSameRun(t, one(c.more...), filepath.Join(files, folder), sameAdapter)
			})
		}
	}
}

// sameAdapter bounds the difference of elements between adapters that several processes trained and one
// trained.
const sameAdapter = 1e-5

// requireSameRun requires losses equal to 1e-6, adapters within a tolerance, and the same files.
func requireSameRun(t *testing.T, want, got string, tolerance float64) {
	t.Helper()
	a, b := metricsOf(t, want), metricsOf(t, got)
	require.Len(t, b, len(a))
	for i := range a {
		for key, x := range a[i] {
			x, isNumber := x.(float64)
			y, _ := b[i][key].(float64)
			switch {
			case !isNumber || key == "memory" || key == "tokens_per_second":
			case strings.Contains(key, "loss"):
				require.InEpsilon(t, x, y, 1e-6, "line %d: %s", i, key)
			default:
				require.InDelta(t, x, y, 1e-3*max(1, math.Abs(x)), "line %d: %s", i, key)
			}
		}
	}
	p, q := tensorsOf(t, filepath.Join(want, "adapter.gguf")), tensorsOf(t, filepath.Join(got, "adapter.gguf"))
	require.Len(t, q, len(p))
	for name, values := range p {
		require.InDeltaSlice(t, values, q[name], tolerance, name)
	}
	require.Equal(t, namesIn(t, want), namesIn(t, got))
}

// varying matches the part of file names that depends on the step, or on when a run started or continued.
var varying = regexp.MustCompile(`-\d+\.gguf$|\.tfevents\..*$`)

func metricsOf(t *testing.T, folder string) (lines []map[string]any) {
	t.Helper()
	text := need.Value(os.ReadFile(filepath.Join(folder, "metrics.jsonl")))(t)
	for line := range bytes.Lines(text) {
		var l map[string]any
		require.NoError(t, json.Unmarshal(line, &l))
		lines = append(lines, l)
	}
	return lines
}

func tensorsOf(t *testing.T, path string) map[string][]float32 {
	t.Helper()
	g := need.Value(ggml.OpenGGUF(path))(t)
	defer g.Close()
	all := map[string][]float32{}
	for info := range g.Tensors() {
		r := need.Value(g.TensorData(info.Name))(t)
		raw := need.Value(io.ReadAll(r))(t)
		values := make([]float32, len(raw)/4)
		require.NoError(t, ggml.Dequantize(values, info.Type, raw))
		all[info.Name] = values
	}
	return all
}

func namesIn(t *testing.T, folder string) (names []string) {
	t.Helper()
	entries := need.Value(os.ReadDir(folder))(t)
	for _, e := range entries {
		if !e.IsDir() {
			names = append(names, varying.ReplaceAllString(e.Name(), ""))
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// A lostRun is a run that loses a process, with its output so far.
type lostRun struct {
	*exec.Cmd
	mu    sync.Mutex
	text  strings.Builder
	ended chan error
}

func startRun(t *testing.T, c *exec.Cmd) *lostRun {
	t.Helper()
	r := &lostRun{Cmd: c, ended: make(chan error, 1)}
	out := need.Value(c.StdoutPipe())(t)
	c.Stderr = c.Stdout
	require.NoError(t, c.Start())
	go func() {
		for lines := bufio.NewScanner(out); lines.Scan(); {
			r.mu.Lock()
			fmt.Fprintln(&r.text, lines.Text())
			r.mu.Unlock()
		}
		r.ended <- c.Wait()
	}()
	return r
}

// requireFailure waits for the run to end with an error.
func (r *lostRun) requireFailure(t *testing.T) {
	t.Helper()
	select {
	case err := <-r.ended:
		require.Error(t, err, r.output())
	case <-time.After(time.Minute):
		_ = r.Process.Kill()
		t.Fatalf("it goes on\n%s", r.output())
	}
}

func (r *lostRun) output() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.String()
}

// process waits until the run has printed its processes, and returns one.
func (r *lostRun) process(t *testing.T, rank int) int {
	t.Helper()
	find := regexp.MustCompile(fmt.Sprintf(`rank %d on \S+ \(process (\d+)\)`, rank))
	var pid int
	require.Eventually(t, func() bool {
		if m := find.FindStringSubmatch(r.output()); m != nil {
			pid, _ = strconv.Atoi(m[1])
		}
		return pid > 0 || len(r.ended) > 0
	}, time.Minute, 5*time.Millisecond)
	require.Positive(t, pid, r.output())
	return pid
}

// endlessRun returns a run that takes longer than the test.
func endlessRun(folder string, more ...string) []string {
	return sharedRun(folder, append([]string{"--adam-iter", "1000000", "--epochs", "1000000", "--save-every", "5", "--valid-every", "0"}, more...)...)
}

// launcherSays matches the launcher's message about a killed process. Open MPI prints its rank. MPICH prints
// the process ID of the first process that it finds ended, possibly one that MPICH itself killed.
const launcherSays = `rank %[1]d with PID|PID (%[2]d|%[3]d) RUNNING`

// A process that dies or stops, at any point, ends all processes within ten seconds with its name and a nonzero
// exit status. The run continues from its checkpoint.
func TestLostProcess(t *testing.T) {
	need.Time(t, "starts many processes")
	files := t.TempDir()
	require.NoError(t, writeFiles(files))
	for name, launcher := range launchers(t) {
		for what, c := range map[string]struct {
			rank   int
			signal syscall.Signal
			saving bool   // kill while the first process saves
			says   string // message of some process or of the launcher, given a rank and its process ID
		}{
			"killed":               {1, syscall.SIGKILL, false, launcherSays},
			"writer killed saving": {0, syscall.SIGKILL, true, launcherSays},
			"stopped":              {1, syscall.SIGSTOP, false, `rank %[1]d on \S+ \(process %[2]d\) has not been heard of for \d+ s: it has died, it was stopped, or the network is cut`},
			"writer stopped":       {0, syscall.SIGSTOP, false, `rank %[1]d on \S+ \(process %[2]d\) has not been heard of for \d+ s`},
		} {
			t.Run(name+" "+what, func(t *testing.T) {
				t.Parallel()
				folder := strings.ReplaceAll(name+" "+what, " ", "-")
				r := startRun(t, mpirun(launcher, files, append([]string{"-np", "2"}, endlessRun(folder)...)...))
				pid, other := r.process(t, c.rank), r.process(t, 1-c.rank)
				require.Eventually(t, func() bool { return cli.IsFile(filepath.Join(files, folder, "checkpoint.gguf")) }, time.Minute, time.Millisecond, r.output())
				for deadline := time.Now().Add(10 * time.Second); c.saving && temporaryIn(filepath.Join(files, folder)) == "" && time.Now().Before(deadline); {
				}
				require.NoError(t, syscall.Kill(pid, c.signal))
				began := time.Now()
				select {
				case err := <-r.ended:
					require.Error(t, err, r.output())
				case <-time.After(30 * time.Second):
					_ = syscall.Kill(pid, syscall.SIGCONT)
					_ = r.Process.Kill()
					t.Fatalf("it goes on\n%s", r.output())
				}
				t.Logf("all ended after %.1f s", time.Since(began).Seconds())
				require.Regexp(t, fmt.Sprintf(c.says, c.rank, pid, other), r.output())
				requireReleased(t, filepath.Join(files, folder))
				out := need.Output(t, exec.Command("sh", "-c", fmt.Sprintf("cd %s && exec \"$@\"", files), "sh", "finetune", "--config", folder+"/config.yaml", "--run-dir", folder, "--max-tokens", "0"))
				require.Contains(t, out, "continuing from")
			})
		}
	}
}

// requireReleased waits until no process writes a run: launchers end before the processes that they kill are
// gone.
func requireReleased(t *testing.T, folder string) {
	t.Helper()
	require.Eventually(t, func() bool {
		f, err := run.Create(folder)
		return err == nil && f.Close() == nil
	}, time.Minute, 10*time.Millisecond, folder)
}

// Processes that would train different things all end, with the difference and its rank.
func TestProcessesDiffer(t *testing.T) {
	files := t.TempDir()
	require.NoError(t, writeFiles(files))
	other := need.Value(os.ReadFile(filepath.Join(files, "text.txt")))(t)
	require.NoError(t, os.WriteFile(filepath.Join(files, "changed.txt"), bytes.Replace(other, []byte("main"), []byte("niam"), 1), 0o600))
	for name, launcher := range launchers(t) {
		for what, c := range map[string]struct {
			more []string // arguments of the second process only
			want string
		}{
			"data":     {[]string{"--train-data", "changed.txt"}, `--train-data is text\.txt \(SHA-256 [0-9a-f]+…\) on rank 0 and changed\.txt \(SHA-256 [0-9a-f]+…\) on rank 1`},
			"model":    {[]string{"--model-base", "other-base.gguf"}, "rank 1 differs from rank 0 in frozen weights"},
			"settings": {[]string{"--adam-beta2", "0.99"}, "β₂ is 0.999 on rank 0 and 0.99 on rank 1"},
			"adapter":  {[]string{"--lora-r", "2"}, `tensor \S+ is f32\[\d+, \d+\] on rank 0 and f32\[\d+, \d+\] on rank 1`},
			"missing":  {[]string{"--model-base", "none.gguf"}, `rank 1 on \S+ \(process \d+\): --model-base: .*none\.gguf`},
		} {
			if testing.Short() && what != "data" {
				continue
			}
			t.Run(name+" "+what, func(t *testing.T) {
				t.Parallel()
				words := append([]string{"-np", "1"}, sharedRun(name+what)...)
				words = append(append(words, ":", "-np", "1"), replaceFlags(sharedRun(name+what), c.more...)...)
				output := requireEnd(t, mpirun(launcher, files, words...))
				require.Regexp(t, c.want, output)
				require.Equal(t, 1, strings.Count(output, "finetune: "), "it is told once\n%s", output)
			})
		}
	}
}

// If a step has fewer samples than there are processes, some are idle; a message says so, with the remedy.
func TestIdleProcesses(t *testing.T) {
	need.Time(t, "starts many processes")
	files := t.TempDir()
	require.NoError(t, writeFiles(files))
	for name, launcher := range launchers(t) {
		out := need.Output(t, mpirun(launcher, files, append([]string{"-np", "4"}, replaceFlags(sharedRun(name), "--batch", "2", "--adam-iter", "1")...)...))
		require.Equal(t, 1, strings.Count(out, "warning: a step has only 2 samples for 4 processes, so some compute nothing: "+
			"make --batch times --grad-acc at least 4, or mpirun's -np at most 2\n"), out)
	}
}

// A process that rejects its flags, does something else, or runs another program ends all processes, with the
// reason.
func TestProcessDoesNotJoin(t *testing.T) {
	need.Time(t, "starts many processes")
	files := t.TempDir()
	require.NoError(t, writeFiles(files))
	missing := func(fault string) string {
		return `finetune: a launcher has started 2 processes \(\w+\), and ` + fault + `: start this program, of one version, in all of them\n`
	}
	for name, launcher := range launchers(t) {
		for what, c := range map[string]struct {
			second []string // arguments of the second process
			join   string
			want   string
		}{
			"refused flag":  {[]string{"finetune", "--batch", "x"}, "", `finetune: --batch: expected a valid 64 bit int but got "x"; it must be at least 1 and at most 65536\n`},
			"missing flag":  {[]string{"finetune", "--batch", "1"}, "", `finetune: error: missing flags: --model-base=FILE`},
			"another task":  {[]string{"finetune", "ls"}, "", `finetune: a launcher has started 2 processes \(\w+\), which would all do the same work: only training is divided among processes; start one process, without mpirun\n`},
			"ended program": {[]string{"true"}, "2s", missing("rank 1 has ended")},
			"program":       {[]string{"sleep", "1000"}, "2s", missing(`rank 1 runs another program \(sleep, process \d+\)`)},
		} {
			t.Run(name+" "+what, func(t *testing.T) {
				t.Parallel()
				run := mpirun(launcher, files, slices.Concat([]string{"-np", "1"}, endlessRun(name+what), []string{":", "-np", "1"}, c.second)...)
				run.Env = append(run.Env, joinEnv+"="+c.join)
				require.Regexp(t, c.want, requireEnd(t, run))
			})
		}
	}
}

// A process that gets no processor time is waited for as long as necessary.
func TestProcessIsLate(t *testing.T) {
	need.Time(t, "waits for seconds")
	files := t.TempDir()
	require.NoError(t, writeFiles(files))
	for name, launcher := range launchers(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			late := filepath.Join(files, name+".pid")
			words := slices.Concat([]string{"-np", "1"}, sharedRun(name), []string{":", "-np", "1", "env", lateEnv + "=" + late}, sharedRun(name))
			run := mpirun(launcher, files, words...)
			run.Env = append(run.Env, joinEnv+"=200ms", graceEnv+"=4s")
			r := startRun(t, run)
			require.Eventually(t, func() bool {
				return len(r.ended) > 0 || strings.Contains(r.output(), "waiting for processes that have not joined: no answer for ")
			}, time.Minute, time.Millisecond)
			require.Empty(t, r.ended, r.output())
			text := need.Value(os.ReadFile(late))(t)
			pid := need.Value(strconv.Atoi(string(text)))(t)
			require.NoError(t, syscall.Kill(pid, syscall.SIGCONT))
			require.NoError(t, <-r.ended, r.output())
			require.Contains(t, r.output(), "2 processes, started by ")
		})
	}
}

// A process that is alive but makes no progress is waited for. An interrupt of any process reports that and
// ends all, with the reason.
func TestProcessIsMute(t *testing.T) {
	need.Time(t, "waits for seconds")
	files := t.TempDir()
	require.NoError(t, writeFiles(files))
	for name, launcher := range launchers(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			words := slices.Concat([]string{"-np", "1"}, endlessRun(name), []string{":", "-np", "1", "env", muteEnv + "=1"}, endlessRun(name),
				[]string{":", "-np", "1"}, endlessRun(name))
			run := mpirun(launcher, files, words...)
			run.Env = append(run.Env, graceEnv+"=4s")
			r := startRun(t, run)
			mute, other := r.process(t, 1), r.process(t, 2)
			// Longer than a process may take to stop.
			require.Eventually(t, func() bool {
				return len(r.ended) > 0 || regexp.MustCompile(fmt.Sprintf(`waiting for rank 1 on \S+ \(process %d\): no answer for [6-9]s; an interrupt ends the run within 4s\n`, mute)).MatchString(r.output())
			}, time.Minute, time.Millisecond)
			require.Empty(t, r.ended, r.output())
			require.NoError(t, syscall.Kill(other, syscall.SIGINT))
			r.requireFailure(t)
			require.Regexp(t, fmt.Sprintf(`interrupted: rank 1 on \S+ \(process %d\) has not answered for \d+s; waiting at most [0-3]s more; a second interrupt ends the program at once\n`, mute), r.output())
			require.Regexp(t, fmt.Sprintf(`finetune: .*the group of processes is broken: rank 1 on \S+ \(process %d\) has not joined the others 4s after all were told to stop: it is alive, but makes no progress; nothing was trained yet`, mute), r.output())
			require.Eventually(t, func() bool { return syscall.Kill(mute, 0) != nil }, time.Minute, time.Millisecond, "it ends, too")
		})
	}
}

// An interrupt of one process stops all; the files are of the last complete step.
func TestInterruptedProcess(t *testing.T) {
	need.Time(t, "starts many processes")
	files := t.TempDir()
	require.NoError(t, writeFiles(files))
	for name, launcher := range launchers(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := startRun(t, mpirun(launcher, files, append([]string{"-np", "2"}, endlessRun(name)...)...))
			pid := r.process(t, 1)
			require.Eventually(t, func() bool { return cli.IsFile(filepath.Join(files, name, "checkpoint.gguf")) }, time.Minute, time.Millisecond, r.output())
			require.NoError(t, syscall.Kill(pid, syscall.SIGINT))
			require.Error(t, <-r.ended)
			require.Equal(t, 1, strings.Count(r.output(), "finetune: interrupted; "), r.output())
		})
	}
}

// requireEnd requires that a command ends by itself with a failure, and returns its output.
func requireEnd(t *testing.T, c *exec.Cmd) string {
	t.Helper()
	r := startRun(t, c)
	r.requireFailure(t)
	return r.output()
}

// replaceFlags changes the values of flags in a command line.
func replaceFlags(words []string, more ...string) []string {
	for i := 0; i < len(more); i += 2 {
		found := false
		for j := range words {
			if words[j] == more[i] {
				words[j+1], found = more[i+1], true
			}
		}
		if !found {
			words = append(words, more[i], more[i+1])
		}
	}
	return words
}
