package fuzz

import (
	"flag"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/fuzz/calls"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/testutil"
)

var (
	programs = flag.Uint64("programs", 300, "how many random programs to run")
	first    = flag.Uint64("first", 0, "the seed of the first; 0 derives it from the commit, so that each tries others")
	kindName = flag.String("kind", "", "run programs of one kind only")
	hang     = flag.Duration("hang", time.Minute, "how long a program may take")
	step     = flag.Int("step", 200, "judge every so many entries of the table of types and layouts; 1 for all")
	replay   = flag.Uint64("replay", 0, "the seed of one program to run in this process, with its steps")
)

// sweepPlan makes this test binary a worker of a sweep, with checked or unchecked calls.
const sweepPlan = "GOGGML_FUZZ_SWEEP"

// workerPlan makes this test binary a worker; its value is the plan.
const workerPlan = "GOGGML_FUZZ_WORKER"

func TestMain(m *testing.M) {
	// Errors of the programs are also logged.
	ggml.SetLogger(slog.New(slog.NewTextHandler(io.Discard, nil)))
	var err error
	switch plan, sweep := os.Getenv(workerPlan), os.Getenv(sweepPlan); {
	case plan != "":
		var p Plan
		if _, err = fmt.Sscanf(plan, "%d %d %d %d %q", &p.First, &p.Programs, &p.Warmup, &p.Growth, &p.Kind); err == nil {
			err = Work(p, os.Stdout)
		}
	case sweep != "":
		err = sweepWork(sweep == "unchecked", os.Stdin, os.Stdout)
	default:
		os.Exit(m.Run())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// subprocess returns this binary as a worker with a plan.
func subprocess(plan string, env ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0])
	// Waiting threads must not take processor time from computing ones.
	cmd.Env = append(append(os.Environ(), "OMP_WAIT_POLICY=passive", "GOTRACEBACK=single", plan), env...)
	return cmd
}

func command(p Plan) *exec.Cmd {
	plan := fmt.Sprintf("%s=%d %d %d %d %q", workerPlan, p.First, p.Programs, p.Warmup, p.Growth, p.Kind)
	// oneDNN's cache of shapes, and malloc's arenas and large blocks, must not look like a leak.
	return subprocess(plan, "ONEDNN_PRIMITIVE_CACHE_CAPACITY=16", "MALLOC_ARENA_MAX=1", "MALLOC_MMAP_THRESHOLD_=131072")
}

// Random programs neither end the process nor give wrong results.
func TestPrograms(t *testing.T) {
	if *replay != 0 {
		m := need.Value(NewMachine())(t)
		defer m.Close()
		m.Kind = *kindName
		require.NoError(t, Run(m, *replay, os.Stderr))
		return
	}
	p := Plan{First: firstSeed(t), Programs: *programs, Kind: *kindName, Hang: *hang}
	t.Logf("seeds from %d on", p.First)
	if p.Programs >= 20_000 && runtime.GOOS == "linux" {
		p.Warmup, p.Growth = max(p.Programs/5, 10_000), 32<<20
	}
	start := time.Now()
	faults := Campaign(p, command, t.Logf)
	t.Logf("%d programs in %v", p.Programs, time.Since(start))
	require.Empty(t, faults, "run one again by: go test ./internal/fuzz -run TestPrograms -replay SEED\n%s", strings.Join(faults, "\n"))
}

// firstSeed returns the seed of the flag, or the commit's.
func firstSeed(t *testing.T) uint64 {
	if *first != 0 {
		return *first
	}
	return testutil.CommitSeed(t)
}

// ggml cannot compute what the ops refuse, and can compute what they accept.
func TestTable(t *testing.T) {
	need.Time(t, "sweeps a table in processes")
	verdicts := need.Value(Sweep(*step, func(unchecked bool) *exec.Cmd {
		if unchecked {
			return subprocess(sweepPlan + "=unchecked")
		}
		return subprocess(sweepPlan + "=checked")
	}))(t)
	var faults []string
	counts := map[string]int{}
	needed := map[*refusal]bool{}
	for _, v := range verdicts {
		if v.raw == right || v.raw == idle {
			needed[deliberate(v.variation)] = true
		}
		counts[fmt.Sprint(v.checked, " ", v.raw)]++
		if testing.Verbose() {
			t.Log(v.variation, v.checked, v.raw, v.detail)
		}
		if f := v.fault(); f != "" {
			faults = append(faults, f)
		}
	}
	t.Logf("%d variations: %v", len(verdicts), counts)
	require.Empty(t, faults, strings.Join(faults, "\n"))
	for i, r := range refusals {
		require.True(t, needed[&refusals[i]] || *step > 1, "there is nothing of what is said of %s: %s", r.ops, r.why)
	}
}

// Every op has a generator.
func TestGenerators(t *testing.T) {
	var missing []string
	for i := range contextType.NumMethod() {
		m := contextType.Method(i)
		if _, ok := generators[m.Name]; isOp(m) && !ok {
			missing = append(missing, m.Name)
		}
	}
	require.Empty(t, missing, "add generators of their arguments to ops.go")
	for name := range kernelFunctions {
		if _, ok := generators[name]; !ok {
			missing = append(missing, name)
		}
	}
	require.Empty(t, missing, "add generators of their arguments to kernels.go")
	for _, name := range opNames {
		_, ok := opOf(name)
		require.True(t, ok, "there is no op %s any more", name)
	}
}

// Generators work in any state of a program, also after an op has failed.
func TestGeneratorsInFailedPrograms(t *testing.T) {
	m := need.Value(NewMachine())(t)
	defer m.Close()
	for seed := range uint64(40) {
		p := &program{Rand: rand.New(rand.NewPCG(seed, 1)), machine: m, used: map[string]bool{}}
		p.open()
		if seed%2 == 0 {
			p.c.Add(nil, nil)
		}
		for _, i := range p.Perm(len(opNames)) {
			require.NotPanics(t, func() { generators[opNames[i]](p) }, "%s, seed %d", opNames[i], seed)
		}
		p.close()
	}
}

// Every function, and every method of an object, is called.
func TestFunctions(t *testing.T) {
	listed := func(name string) bool {
		return functions[name] != nil || kernelFunctions[name] != nil || leftOut[name] != ""
	}
	var missing []string
	for _, folder := range []string{"../..", "../../kernels"} {
		p := need.Value(calls.Load(folder))(t)
		all := p.Funcs
		for _, of := range p.Types {
			all = append(all, of.Funcs...)
		}
		for _, f := range all {
			if !listed(f.Name) {
				missing = append(missing, f.Name)
			}
		}
	}
	require.Empty(t, missing, "add them to functions, to kernelFunctions, or to leftOut with the reason")
}
