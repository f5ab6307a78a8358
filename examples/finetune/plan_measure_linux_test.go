package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/examples/internal/cli"
	"github.com/goggml/ggml/examples/internal/clitest"
	"github.com/goggml/ggml/internal/test/benchmodel"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/llm/arch"
)

// A plannedRun is a run whose plan is compared with measurements.
type plannedRun struct {
	config   arch.Config
	base     ggml.Type
	ctx      int
	batch    int
	packed   bool
	keeps    bool // stores the results of all layers
	isRemote bool // on a device with memory of its own
}

func (r plannedRun) String() string {
	words := []string{r.config.Name, r.base.String(), fmt.Sprintf("%d×%d", r.batch, r.ctx)}
	if r.packed {
		words = append(words, "packed")
	}
	words = append(words, map[bool]string{true: "kept", false: "checkpointed"}[r.keeps])
	if r.isRemote {
		words = append(words, "RPC")
	}
	return strings.Join(words, " ")
}

// plannedRuns returns runs of three architectures with up to 1.1 billion parameters.
func plannedRuns() []plannedRun {
	small, medium, large, qwen3, gemma3 := benchmodel.Small(), benchmodel.Medium(), benchmodel.Large(), benchmodel.Qwen3(), benchmodel.Gemma3()
	return []plannedRun{
		{config: small, base: ggml.Q8_0, ctx: 256, batch: 2, keeps: true},
		{config: small, base: ggml.F16, ctx: 512, batch: 4, packed: true},
		{config: small, base: ggml.Q8_0, ctx: 256, batch: 4, packed: true, keeps: true, isRemote: true},
		{config: medium, base: ggml.Q4_K, ctx: 512, batch: 2, packed: true, keeps: true},
		{config: medium, base: ggml.Q8_0, ctx: 512, batch: 2},
		{config: medium, base: ggml.Q8_0, ctx: 256, batch: 2, isRemote: true},
		{config: large, base: ggml.Q4_K, ctx: 256, batch: 1, keeps: true},
		{config: large, base: ggml.Q4_K, ctx: 512, batch: 1, packed: true},
		{config: large, base: ggml.Q4_K, ctx: 512, batch: 2, packed: true},
		{config: qwen3, base: ggml.Q4_K, ctx: 256, batch: 1, keeps: true},
		{config: qwen3, base: ggml.Q4_K, ctx: 256, batch: 2, packed: true},
		{config: gemma3, base: ggml.Q4_0, ctx: 256, batch: 1, packed: true, keeps: true},
		{config: gemma3, base: ggml.Q4_0, ctx: 512, batch: 1},
	}
}

// The planned memory is within 5 % of the run's peak, and the planned time of a step within 15 %, for models of
// up to 1.1 billion parameters. Planning takes at most ten seconds. Times need an idle machine: GOGGML_PLAN
// enables the test, and names a folder for models, of 3 GB; GOGGML_PLAN_TIME=0 checks only memory.
func TestPlanAgainstRuns(t *testing.T) {
	folder := os.Getenv("GOGGML_PLAN")
	if folder == "" {
		t.Skip("it needs an idle machine; GOGGML_PLAN=FOLDER, for models, asks for it")
	}
	looksAtTime, steps, probe := os.Getenv("GOGGML_PLAN_TIME") != "0", 6, defaultProbe.String()
	if !looksAtTime {
		steps, probe = 2, "0s"
	}
	text := filepath.Join(t.TempDir(), "text.txt")
	require.NoError(t, os.WriteFile(text, []byte(benchmodel.Text(2, 40_000)), 0o600))
	for _, r := range plannedRuns() {
		t.Run(r.String(), func(t *testing.T) {
			m := measurePlanned(t, folder, text, r, steps, probe)
			t.Logf("| %s | %.1f | %.1f | %+.1f %% | %.2f | %.2f | %+.0f %% | %d of %d layers, %d of %d rows | %.1f |", r, mib(m.planned), mib(m.peak), 100*(float64(m.planned)/float64(m.peak)-1),
				m.plannedStep, m.step, 100*(m.plannedStep/m.step-1), m.timed.Layers, m.timed.OfLayers, m.timed.Rows, m.timed.OfRows, m.took.Seconds())
			assert.InEpsilon(t, m.peak, m.planned, 0.05, "memory")
			if looksAtTime {
				assert.InEpsilon(t, m.step, m.plannedStep, 0.15, "time of a step")
				assert.Less(t, m.took, 10*time.Second)
			}
		})
	}
}

func mib(n int64) float64 { return float64(n) / (1 << 20) }

// A measuredPlan has a plan and the measurements of its run.
type measuredPlan struct {
	planned, peak     int64 // bytes on the device that has the model
	plannedStep, step float64
	timed             timed
	took              time.Duration // time to plan
}

func measurePlanned(t *testing.T, folder, text string, r plannedRun, steps int, probe string) (m measuredPlan) {
	t.Helper()
	base := filepath.Join(folder, fmt.Sprintf("%s-%v-words.gguf", r.config.Name, r.base))
	if !cli.IsFile(base) {
		require.NoError(t, os.MkdirAll(folder, 0o777))
		words := need.Value(benchmodel.Vocabulary(r.config.Vocab))(t)
		require.NoError(t, benchmodel.Write(base, r.config, r.base, words...))
	}
	where := t.TempDir()
	args := []string{
		"--model-base", base, "--train-data", text, "--ctx", strconv.Itoa(r.ctx), "--batch", strconv.Itoa(r.batch), "--grad-acc", "1", "--lora-r", "8",
		"--adam-iter", strconv.Itoa(steps), "--save-every", "0", map[bool]string{true: "--no-checkpointing", false: "--use-checkpointing"}[r.keeps],
	}
	if r.packed {
		args = append(args, "--packing")
	}
	var far *ggml.Device
	if r.isRemote {
		endpoint, _ := clitest.StartSmallServer(t, "8000000000")
		server := need.Value(ggml.AddRPCServer(endpoint))(t)
		defer server.Unload()
		far = server.Devices()[0]
		args = append(args, "--rpc", endpoint, "--no-repack")
	}
	c := exec.Command("finetune", append([]string{"plan", "--json", "--probe", probe}, args...)...)
	var errors bytes.Buffer
	c.Stderr = &errors
	began := time.Now()
	out, err := c.Output()
	m.took = time.Since(began)
	require.NoError(t, err, errors.String())
	var plan runPlan
	require.NoError(t, json.Unmarshal(out, &plan))
	m.planned, m.plannedStep, m.timed = plan.Devices[0].All, plan.StepSeconds, plan.Timed

	metrics := filepath.Join(where, "metrics.jsonl")
	c = exec.Command("finetune", append([]string{"train", "--lora-out", filepath.Join(where, "a.gguf"), "--metrics", metrics}, args...)...)
	c.Stderr = &errors
	c.Stdout = &errors
	require.NoError(t, c.Start())
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	free := int64(1 << 62)
	for isRunning := true; isRunning; {
		select {
		case err := <-ended:
			require.NoError(t, err, errors.String())
			isRunning = false
		case <-time.After(10 * time.Millisecond):
			if far != nil {
				free = min(free, far.Properties().MemoryFree)
			} else {
				m.peak = max(m.peak, peakOf(c.Process.Pid))
			}
		}
	}
	if far != nil {
		m.peak = far.Properties().MemoryTotal - free
	}
	m.step = medianStep(t, metrics)
	return m
}

// peakOf returns the largest resident memory of a process, or 0 if it has ended.
func peakOf(pid int) int64 {
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	for line := range strings.Lines(string(status)) {
		if kib, is := strings.CutPrefix(line, "VmHWM:"); is {
			n, _ := strconv.ParseInt(strings.Fields(kib)[0], 10, 64)
			return n << 10
		}
	}
	return 0
}

// medianStep returns the median time between steps, in seconds.
func medianStep(t *testing.T, metrics string) float64 {
	t.Helper()
	text := need.Value(os.ReadFile(metrics))(t)
	var times []time.Time
	for line := range strings.Lines(string(text)) {
		var l struct {
			Time time.Time
			Loss *float64
		}
		require.NoError(t, json.Unmarshal([]byte(line), &l))
		if l.Loss != nil {
			times = append(times, l.Time)
		}
	}
	var took []float64
	for i := range times[1:] {
		took = append(took, times[i+1].Sub(times[i]).Seconds())
	}
	require.NotEmpty(t, took)
	slices.Sort(took)
	return took[len(took)/2]
}
