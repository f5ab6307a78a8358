package train_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/benchmodel"
	"github.com/goggml/ggml/llm/lora"
	"github.com/goggml/ggml/llm/model"
	"github.com/goggml/ggml/llm/train"
)

// A stepRun is one measurement of training steps. It runs in a process of its
// own, whose peak memory so is that of the run.
type stepRun struct {
	Model         string // small or large
	Type          ggml.Type
	Length, Batch int
	Rank          int
	Products      ggml.Type
	Checkpointing bool
	Steps         int
}

type stepResult struct {
	Parameters   int64
	TokensPerSec float64 // of the fastest step
	PeakMB       float64 // resident memory, 10⁶ bytes
}

const stepRunKey = "GOGGML_BENCH_STEP"

// benchFolder is where the models are made.
const benchFolder = "../../build/bench"

func (r stepRun) config() model.Config {
	if r.Model == "large" {
		return benchmodel.Large()
	}
	return benchmodel.Small()
}

// benchStep is what the process of a run does.
func benchStep(text string) error {
	var r stepRun
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		return err
	}
	path, err := benchmodel.File(benchFolder, r.Model, r.config(), r.Type)
	if err != nil {
		return err
	}
	m, err := model.Load(path, model.LoadOptions{})
	if err != nil {
		return err
	}
	defer m.Close()
	a, err := lora.New(m, lora.Options{Rank: r.Rank, Alpha: 16, Init: lora.InitKaiming})
	if err != nil {
		return err
	}
	defer a.Close()
	var params []*ggml.Tensor
	for _, p := range a.Pairs() {
		params = append(params, p.A, p.B)
	}
	rng := rand.New(rand.NewPCG(1, 1))
	d := &train.Dataset{Length: r.Length}
	for range r.Batch {
		s := train.Sample{}
		for range r.Length + 1 {
			s.Tokens = append(s.Tokens, int32(rng.IntN(m.Vocab)))
		}
		d.Samples = append(d.Samples, s)
	}
	t, err := train.New(m, params, a.Deltas(1), d, train.Options{
		Schedule: train.Schedule{Peak: 1e-4, Steps: 1 << 30}, AdamW: train.DefaultAdamW(), Batch: r.Batch, Accumulate: 1,
		Checkpointing: r.Checkpointing, Products: r.Products,
	})
	if err != nil {
		return err
	}
	defer t.Close()
	result := stepResult{Parameters: m.NumParameters()}
	for range r.Steps {
		start := time.Now()
		if _, err := t.Step(context.Background()); err != nil {
			return err
		}
		result.TokensPerSec = max(result.TokensPerSec, float64(t.StepTokens())/time.Since(start).Seconds())
	}
	if result.PeakMB, err = peakMemory(); err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(result)
}

// peakMemory is the largest resident memory of this process in 10⁶ bytes.
func peakMemory() (float64, error) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, nil // another system
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kB, err := strconv.ParseFloat(strings.Fields(rest)[0], 64)
			return kB * 1024 / 1e6, err
		}
	}
	return 0, fmt.Errorf("no VmHWM in /proc/self/status")
}

func runSteps(b *testing.B, r stepRun) stepResult {
	b.Helper()
	text, err := json.Marshal(r)
	require.NoError(b, err)
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), stepRunKey+"="+string(text))
	c.Stderr = os.Stderr
	out, err := c.Output()
	require.NoError(b, err)
	var result stepResult
	require.NoError(b, json.Unmarshal(out, &result))
	return result
}
