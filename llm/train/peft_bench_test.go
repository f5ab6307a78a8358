package train_test

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/benchmodel"
	"github.com/goggml/ggml/internal/progress"
	"github.com/goggml/ggml/internal/testutil"
	"github.com/goggml/ggml/llm/lora"
	"github.com/goggml/ggml/llm/model"
	"github.com/goggml/ggml/llm/train"
)

// A peftRun is a run of training that this package and PEFT both do. It is the
// run.json that scripts/bench-peft.py reads.
type peftRun struct {
	Model, Folder string // the file, and where what PEFT reads is

	Vocab, Embd, FF, Layers, Heads, KVHeads, HeadSize, Context int
	Eps, RoPEBase                                              float32
	Tied                                                       bool
	Tensors                                                    []model.TensorShape // of weights.bin

	Length, Batch, Steps, Threads            int
	Rank                                     int
	Alpha                                    float32
	Rate, Beta1, Beta2, Epsilon, Decay, Clip float64
	Checkpointing                            bool
	Products                                 ggml.Type
}

// A peftResult is what a run tells, of either program.
type peftResult struct {
	Losses, Seconds []float64 // of each step
	Peak, Libraries uint64    // resident memory in bytes: the largest, and that before there is a model
}

// LoRA beside PyTorch and PEFT on the CPU, from the same weights, adapter and
// data; scripts/bench-peft runs it. PEFT's weights are those of our quantised
// file, so that both compute the same function.
func BenchmarkBesidePEFT(b *testing.B) {
	python := os.Getenv("GOGGML_PEFT")
	if python == "" {
		b.Skip("there is no PyTorch and PEFT: run scripts/bench-peft")
	}
	small := peftRun{Length: 256, Batch: 2, Steps: 60, Rate: 1e-3}
	if testing.Short() {
		small.Steps = 6
	}
	besidePEFT(b, python, benchmodel.Small(), small)
	if !testing.Short() {
		besidePEFT(b, python, benchmodel.Large(), peftRun{Length: 512, Batch: 1, Steps: 3, Rate: 2e-4})
	}
}

func besidePEFT(b *testing.B, python string, c model.Config, r peftRun) {
	r.fill(b, c)
	defer os.RemoveAll(r.Folder) // some gigabytes
	_, _, err := writePEFT.Run(r)
	require.NoError(b, err)
	for _, checkpointing := range []bool{false, true} {
		r.Checkpointing = checkpointing
		onOff := map[bool]string{false: "off", true: "on"}[checkpointing]
		for _, typ := range []struct{ weights, name string }{{"F32", "float32"}, {"BF16", "bfloat16"}} {
			b.Run(fmt.Sprintf("model=%s/program=PEFT/weights=%s/checkpointing=%s", c.Name, typ.weights, onOff), func(b *testing.B) {
				r.report(b, func() peftResult { return runPEFT(b, python, r.Folder, typ.name, onOff) })
			})
		}
		b.Run(fmt.Sprintf("model=%s/program=goggml/weights=Q8_0/checkpointing=%s", c.Name, onOff), func(b *testing.B) {
			r.report(b, func() peftResult {
				result, peak, err := trainLikePEFT.Run(r)
				require.NoError(b, err)
				result.Peak = peak
				return result
			})
		})
	}
}

// fill sets all that is the same in every run.
func (r *peftRun) fill(b *testing.B, c model.Config) {
	var err error
	r.Model, err = benchmodel.File(benchFolder, c.Name, c, ggml.Q8_0)
	require.NoError(b, err)
	r.Folder, err = os.MkdirTemp("", "peft-")
	require.NoError(b, err)
	r.Vocab, r.Embd, r.FF, r.Layers, r.Heads, r.KVHeads, r.HeadSize, r.Context = c.Vocab, c.Embd, c.FF, c.Layers, c.Heads, c.KVHeads, c.HeadSize, c.Context
	r.Eps, r.RoPEBase, r.Tied = c.RMSEps, c.RoPE.FreqBase, c.Tied
	adam := train.DefaultAdamW()
	r.Beta1, r.Beta2, r.Epsilon, r.Decay, r.Clip = adam.Beta1, adam.Beta2, adam.Epsilon, adam.Decay, adam.Clip
	r.Threads, r.Rank, r.Alpha, r.Products = runtime.NumCPU(), 8, 16, ggml.TiledType()
}

// report runs one program, and reports its speed, memory and losses.
func (r *peftRun) report(b *testing.B, f func() peftResult) {
	var result peftResult
	once(b, func() { result = f() })
	require.Len(b, result.Losses, r.Steps)
	for i, loss := range result.Losses {
		b.ReportMetric(loss, fmt.Sprintf("loss@%d", i+1))
	}
	b.ReportMetric(result.Losses[r.Steps-1], "last-loss")
	later := slices.Sorted(slices.Values(result.Seconds[1:])) // the first warms up
	reportSteps(b, r.Length*r.Batch, time.Duration(later[len(later)/2]*1e9), result.Peak)
	b.ReportMetric(float64(result.Libraries)/1e6, "libraries-MB")
}

func runPEFT(b *testing.B, python, folder, typ, checkpointing string) peftResult {
	c := testutil.Command(python, "../../scripts/bench-peft.py", folder, typ, checkpointing)
	c.Stderr = os.Stderr
	out, err := c.Output()
	require.NoError(b, err)
	var result peftResult
	require.NoError(b, json.Unmarshal(out, &result))
	return result
}

func (r *peftRun) adapter(m *model.Model) (*lora.Adapter, error) {
	return lora.New(m, lora.Options{Rank: r.Rank, Alpha: r.Alpha, Init: lora.InitKaiming, Seed: 1})
}

// data are the samples of all steps: text of a few words, of which some follow
// each other more often, so that there is something to learn.
func (r *peftRun) data() *train.Dataset {
	const words = 64
	rng := rand.New(rand.NewPCG(1, 1))
	common := rand.NewZipf(rng, 1.5, 1, words-1)
	d := &train.Dataset{Length: r.Length}
	for range r.Steps * r.Batch {
		s := train.Sample{Tokens: []int32{0}}
		for len(s.Tokens) <= r.Length {
			word := int32(common.Uint64())
			if rng.IntN(2) == 0 {
				word = (s.Tokens[len(s.Tokens)-1]*5 + 3) % words
			}
			s.Tokens = append(s.Tokens, word)
		}
		d.Samples = append(d.Samples, s)
	}
	return d
}

// trainLikePEFT is our run.
var trainLikePEFT = testutil.NewJob("trainLikePEFT", func(r peftRun) (result peftResult, err error) {
	result.Libraries = progress.PeakRSS()
	m, err := model.Load(r.Model, model.LoadOptions{})
	if err != nil {
		return result, err
	}
	defer m.Close()
	a, err := r.adapter(m)
	if err != nil {
		return result, err
	}
	defer a.Close()
	t, err := train.New(m, allMatrices(a), a.Deltas(1), r.data(), train.Options{
		Schedule: train.Schedule{Peak: r.Rate, Floor: r.Rate, Steps: r.Steps},
		AdamW:    train.AdamW{Beta1: r.Beta1, Beta2: r.Beta2, Epsilon: r.Epsilon, Decay: r.Decay, Clip: r.Clip},
		Batch:    r.Batch, Accumulate: 1, Threads: r.Threads, Checkpointing: r.Checkpointing, Products: r.Products,
	})
	if err != nil {
		return result, err
	}
	defer t.Close()
	for range r.Steps {
		start := time.Now()
		point, err := t.Step(context.Background())
		if err != nil {
			return result, err
		}
		result.Seconds = append(result.Seconds, time.Since(start).Seconds())
		result.Losses = append(result.Losses, point.Loss)
	}
	return result, nil
})

// writePEFT writes what PEFT reads: weights and adapter as float32, and the
// batches in the order in which we take them.
var writePEFT = testutil.NewJob("writePEFT", func(r peftRun) (none struct{}, err error) {
	m, err := model.Load(r.Model, model.LoadOptions{})
	if err != nil {
		return none, err
	}
	defer m.Close()
	a, err := r.adapter(m)
	if err != nil {
		return none, err
	}
	defer a.Close()
	err = writeWith(filepath.Join(r.Folder, "weights.bin"), func(w io.Writer) error { return r.writeWeights(w, m, a) })
	if err != nil {
		return none, err
	}
	d := r.data()
	err = writeWith(filepath.Join(r.Folder, "tokens.bin"), func(w io.Writer) error {
		for i := range d.Samples {
			sample := d.Samples[train.OrderAt(0, len(d.Samples), i)]
			if err := binary.Write(w, binary.LittleEndian, sample.Tokens); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return none, err
	}
	return none, writeWith(filepath.Join(r.Folder, "run.json"), func(w io.Writer) error { return json.NewEncoder(w).Encode(r) })
})

func (r *peftRun) writeWeights(w io.Writer, m *model.Model, a *lora.Adapter) error {
	list := allWeights(m)
	for _, p := range a.Pairs() {
		list = append(list, p.A)
	}
	for _, t := range list {
		values, err := t.Float32s()
		if err != nil {
			return err
		}
		if err := binary.Write(w, binary.LittleEndian, values); err != nil {
			return err
		}
		r.Tensors = append(r.Tensors, model.TensorShape{Name: t.Name(), Shape: t.Shape()})
	}
	return nil
}

func writeWith(path string, write func(w io.Writer) error) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer file.Close()
	buffered := bufio.NewWriterSize(file, 1<<20)
	if err := write(buffered); err != nil {
		return err
	}
	return buffered.Flush()
}
