package main

import (
	"cmp"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/llm/parallel"
)

// The estimates of docs/machines.md are within 15 % of measurements: on two and three processes of this
// machine, and over a network of 1 Gbit/s and 1 ms. The test needs an idle machine: GOGGML_SCALING enables it,
// and names a folder for models.
func TestScalingModel(t *testing.T) {
	folder := os.Getenv("GOGGML_SCALING")
	if folder == "" {
		t.Skip("it needs an idle machine; GOGGML_SCALING=FOLDER, for models, asks for it")
	}
	const samples, gigabit, milliseconds = 12, 1e9 / 8, float64(time.Millisecond)
	program := filepath.Join(t.TempDir(), "parallel.test")
	need.Output(t, exec.Command("go", "test", "-c", "-o", program, "../../llm/parallel"))
	launcher := launchers(t)["openmpi"]
	measure := func(c *exec.Cmd, units ...string) (values []float64) {
		c.Env = append(c.Env, "GOGGML_BENCH_FOLDER="+folder, "GOGGML_BENCH_SAMPLES="+strconv.Itoa(samples), "GOGGML_BENCH_TOKENS=32")
		out := need.Output(t, c)
		for _, unit := range units {
			m := regexp.MustCompile(`([0-9.]+) ` + unit + `\b`).FindStringSubmatch(out)
			require.NotNil(t, m, out)
			values = append(values, need.Value(strconv.ParseFloat(m[1], 64))(t))
		}
		return values
	}
	least := func(c *exec.Cmd, of string) time.Duration {
		return time.Duration(milliseconds * measure(c, "least-ms/"+of)[0])
	}
	bench := func(name string) []string {
		times := map[string]string{"Sum/28M": "40x", "Step/28M": "10x"}[name] // the system counts their load in ticks
		return []string{program, "-test.run", "-", "-test.bench", name, "-test.benchtime", cmp.Or(times, "5x")}
	}
	locally := func(processes int, words []string) *exec.Cmd {
		return mpirun(launcher, t.TempDir(), append([]string{"-np", strconv.Itoa(processes)}, words...)...)
	}
	over := func(processes int, words []string) *exec.Cmd {
		n := newNetwork(t, processes, 8*gigabit, time.Millisecond)
		return n.on(0, t.TempDir(), append([]string{launcher, "--host", "a,b,c"[:2*processes-1], "-np", strconv.Itoa(processes)}, words...)...)
	}
	cable := parallel.Network{Bandwidth: gigabit, Latency: time.Millisecond}
	compare := func(what string, measured, estimated time.Duration) {
		t.Logf("%s: %v, estimated %v (%+.0f %%)", what, measured.Round(time.Millisecond), estimated.Round(time.Millisecond), 100*(estimated.Seconds()/measured.Seconds()-1))
		assert.InEpsilon(t, measured.Seconds(), estimated.Seconds(), 0.15, what)
	}
	sum := func(c *exec.Cmd) (least time.Duration, load float64) {
		m := measure(c, "least-ms/sum", "load")
		return time.Duration(milliseconds * m[0]), min(1, m[1])
	}
	for processes := 2; processes <= 3; processes++ {
		const bytes = 50_462_720
		took := least(over(processes, bench("Sum/1.1B")), "sum")
		compare("a sum of 50 MB over "+strconv.Itoa(processes)+" machines", took, cable.AllReduce(bytes, processes))
	}
	const bytes = 4_784_128
	copying, busy := sum(locally(2, bench("Sum/28M")))
	memory := parallel.Network{Bandwidth: bytes / copying.Seconds(), Load: busy}
	t.Logf("a sum of two processes takes %v and %.0f %% of the processors", copying, 100*busy)
	for processes := 2; processes <= 3; processes++ {
		// The time of one process depends on the others on the same processors, and on which ends last.
		alone := locally(processes, bench("Step/28M"))
		alone.Env = append(alone.Env, "GOGGML_BENCH_ALONE=1")
		one := least(alone, "step")
		t.Logf("a step of each of %d processes that share nothing takes %v", processes, one)
		load := parallel.Workload{Step: one, Samples: samples, Batch: 1, Gradients: bytes}
		took := least(locally(processes, bench("Step/28M")), "step")
		compare("a step of "+strconv.Itoa(processes)+" processes", took, load.Data(processes, memory))
		// All machines, and the network between them, share the same processors.
		took, cable.Load = sum(over(processes, bench("Sum/28M")))
		t.Logf("a sum of %d machines takes %v and %.0f %% of the processors", processes, took, 100*cable.Load)
		took = least(over(processes, bench("Step/28M")), "step")
		compare("a step of "+strconv.Itoa(processes)+" machines", took, load.Data(processes, cable))
	}
	for where, c := range map[string]*exec.Cmd{"processes": locally(2, bench("Step/1.1B")), "machines": over(2, bench("Step/1.1B"))} {
		m := measure(c, "ns/op", "waiting-ms/step")
		t.Logf("a step of 1.1 billion parameters of two %s: %.0f ms, of which %.0f ms, %.1f %%, wait for sums", where, m[0]/1e6, m[1], 100*m[1]*1e6/m[0])
	}
}
