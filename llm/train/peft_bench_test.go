package train_test

import (
	"bufio"
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/rss"
	"github.com/goggml/ggml/internal/test/benchmodel"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/testutil"
	"github.com/goggml/ggml/kernels"
	"github.com/goggml/ggml/llm/arch"
	"github.com/goggml/ggml/llm/data"
	"github.com/goggml/ggml/llm/layout"
	"github.com/goggml/ggml/llm/lora"
	"github.com/goggml/ggml/llm/model"
	"github.com/goggml/ggml/llm/train"
)

// A peftTensor is a part of weights.bin.
type peftTensor struct {
	Name  string
	Shape []int64
}

// A peftRun is a training run for both this package and PEFT. scripts/bench-peft.py reads it.
type peftRun struct {
	Model, Folder string // the model's file, and the folder for PEFT's input

	Vocab, Embd, FF, Layers, Heads, KVHeads, HeadSize, Context int
	Eps, RoPEBase                                              float32
	Tied                                                       bool
	Tensors                                                    []peftTensor // in weights.bin

	Length, Batch, Steps, Threads            int
	Prompt                                   int  // tokens that both sequences of a pair begin with; 0 means no pairs
	Prefer                                   bool // by DPO; else pairs are single sequences
	Rank                                     int
	Alpha                                    float32
	Rate, Beta1, Beta2, Epsilon, Decay, Clip float64
	Checkpointing                            bool
	Memory                                   uint64 // with Checkpointing, of our program: it recomputes as little as this allows; 0: all
	ComputeType                              ggml.Type
}

// A peftStep is the report of a step by either program.
type peftStep struct {
	Loss, Seconds float64
	Libraries     uint64 // resident memory in bytes before the model is loaded
}

// Compares LoRA with PyTorch and PEFT on the CPU, from the same weights, adapter and data, alternating
// steps; scripts/bench-peft runs it. PEFT gets the weights of our quantised file, so both compute the
// same function.
func BenchmarkBesidePEFT(b *testing.B) {
	python := os.Getenv("GOGGML_PEFT")
	if python == "" {
		b.Skip("there is no PyTorch and PEFT: run scripts/bench-peft")
	}
	small := peftRun{Length: 256, Batch: 2, Steps: 60, Rate: 1e-3}
	if testing.Short() {
		small.Steps = 6
	}
	bf16 := takesBF16(b, python)
	besidePEFT(b, python, bf16, benchmodel.Small(), small)
	if !testing.Short() {
		besidePEFT(b, python, bf16, benchmodel.Large(), peftRun{Length: 512, Batch: 1, Steps: 6, Rate: 2e-4})
	}
}

func besidePEFT(b *testing.B, python string, bf16 bool, c arch.Config, r peftRun) {
	b.Run("model="+c.Name, func(b *testing.B) {
		r.fill(b, c)
		var err error
		r.Tensors, _, err = writePEFT.Run(r)
		require.NoError(b, err)
		for _, checkpointing := range []string{"off", "on"} {
			b.Run("checkpointing="+checkpointing, func(b *testing.B) {
				r := r
				r.Checkpointing = checkpointing == "on"
				comparePEFT(b, python, bf16, r)
			})
		}
	})
}

func comparePEFT(b *testing.B, python string, bf16 bool, r peftRun) {
	programs := []*peftProgram{startPEFT(b, python, &r, "F32", "float32")}
	if bf16 {
		programs = append(programs, startPEFT(b, python, &r, "BF16", "bfloat16"))
	}
	references := len(programs)
	programs = append(programs, startLikePEFT(b, r))
	if kernels.HasI8() {
		of := r
		of.ComputeType = ggml.I8
		fewer := startLikePEFT(b, of)
		fewer.weights += "-i8"
		programs = append(programs, fewer)
	}
	var samplers []func() time.Duration
	for _, p := range programs {
		samplers = append(samplers, p.step(b))
	}
	if r.Checkpointing {
		limited := &peftProgram{name: "goggml-half-memory", weights: "Q8_0"}
		programs = append(programs, limited)
		samplers = append(samplers, func() time.Duration {
			if limited.process == nil { // PEFT's programs, whose memory is known only now, have made a step
				least := slices.MinFunc(programs[:references], func(p, q *peftProgram) int { return cmp.Compare(p.process.Peak, q.process.Peak) })
				r.Memory = least.process.Peak / 2
				limited.process = startLikePEFT(b, r).process
			}
			return limited.step(b)()
		})
	}
	turns := testutil.InTurn(r.Steps-1, 0, samplers...)
	faster := 0
	if bf16 && turns.Median(1) < turns.Median(0) {
		faster = 1
	}
	for i, p := range programs {
		b.Run(fmt.Sprintf("program=%s/weights=%s", p.name, p.weights), func(b *testing.B) {
			b.ReportMetric(0, "ns/op")
			p.report(b, &r, turns.Median(i))
			b.ReportMetric(turns.Ratio(faster, i), "×PEFT")
			b.ReportMetric(float64(p.process.Peak)/float64(programs[faster].process.Peak), "memory×PEFT")
		})
	}
}

// takesBF16 reports whether PyTorch multiplies BF16 at least a tenth as fast as F32. Without instructions for BF16, a step of
// the large model takes a quarter of an hour.
func takesBF16(b *testing.B, python string) bool {
	b.Helper()
	const script = `
import time, torch
def seconds(type):
    x, times = torch.ones(512, 512, dtype=type), []
    for _ in range(10):
        began = time.time()
        x @ x
        times.append(time.time() - began)
    return min(times)
print(seconds(torch.bfloat16) < 10 * seconds(torch.float32))`
	takes := strings.TrimSpace(need.Output(b, testutil.Command(python, "-c", script))) == "True"
	if !takes {
		b.Log("PEFT in BF16 is left out: PyTorch multiplies F32 ten times as fast here")
	}
	return takes
}

// A peftProgram is a training program that runs steps on request.
type peftProgram struct {
	name, weights string
	process       *testutil.Process[peftStep]
	losses        []float64
	libraries     uint64
}

func newPEFTProgram(b *testing.B, name, weights string, process *testutil.Process[peftStep]) *peftProgram {
	b.Helper()
	b.Cleanup(func() { require.NoError(b, process.Close()) })
	return &peftProgram{name: name, weights: weights, process: process}
}

func startPEFT(b *testing.B, python string, r *peftRun, weights, typ string) *peftProgram {
	b.Helper()
	c := testutil.Command(python, "../../scripts/bench-peft.py", r.Folder, typ)
	process := need.Value(testutil.StartProcess[peftStep]("scripts/bench-peft.py", c, r))(b)
	return newPEFTProgram(b, "PEFT", weights, process)
}

func startLikePEFT(b *testing.B, r peftRun) *peftProgram {
	b.Helper()
	process := need.Value(trainLikePEFT.Start(r))(b)
	return newPEFTProgram(b, "goggml", "Q8_0", process)
}

// step returns a function that runs a step and returns its duration.
func (p *peftProgram) step(b *testing.B) func() time.Duration {
	return func() time.Duration {
		s := need.Value(p.process.Sample())(b)
		p.losses = append(p.losses, s.Loss)
		p.libraries = s.Libraries
		return time.Duration(s.Seconds * 1e9)
	}
}

// report reports speed, memory and losses.
func (p *peftProgram) report(b *testing.B, r *peftRun, step time.Duration) {
	for i, loss := range p.losses {
		b.ReportMetric(loss, fmt.Sprintf("loss@%d", i+1))
	}
	b.ReportMetric(p.losses[len(p.losses)-1], "last-loss")
	reportSteps(b, r.Length*r.sequences(), step, p.process.Peak)
	b.ReportMetric(float64(p.libraries)/1e6, "libraries-MB")
}

// fill sets the fields that are the same in every run.
func (r *peftRun) fill(b *testing.B, c arch.Config) {
	r.Model = need.Value(benchmodel.File(benchFolder, c.Name, c, ggml.Q8_0))(b)
	r.Folder = need.Value(os.MkdirTemp("", "peft-"))(b)
	b.Cleanup(func() { os.RemoveAll(r.Folder) }) // some gigabytes
	r.Vocab, r.Embd, r.FF, r.Layers, r.Heads, r.KVHeads, r.HeadSize, r.Context = c.Vocab, c.Embd, c.FF, c.Layers, c.Heads, c.KVHeads, c.HeadSize, c.Context
	r.Eps, r.RoPEBase, r.Tied = c.RMSEps, c.RoPE.FreqBase, c.Tied
	adam := train.DefaultAdamW()
	r.Beta1, r.Beta2, r.Epsilon, r.Decay, r.Clip = adam.Beta1, adam.Beta2, adam.Epsilon, adam.Decay, adam.Clip
	r.Threads, r.Rank, r.Alpha, r.ComputeType = runtime.NumCPU(), 8, 16, autoType(b)
}

func (r *peftRun) adapter(m *model.Model) (*lora.Adapter, error) {
	return lora.New(m, lora.Options{Rank: r.Rank, Alpha: r.Alpha, Init: lora.InitKaiming, Seed: 1})
}

// samples returns the samples of all steps: text of a few words with some frequent sequences, so that
// there is something to learn.
func (r *peftRun) samples() []data.Sample {
	const words = 64
	rng := rand.New(rand.NewPCG(1, 1))
	common := rand.NewZipf(rng, 1.5, 1, words-1)
	var list []data.Sample
	for range r.Steps * r.sequences() {
		s := data.Sample{Tokens: []int32{0}}
		for len(s.Tokens) <= r.Length {
			word := int32(common.Uint64())
			if rng.IntN(2) == 0 {
				word = (s.Tokens[len(s.Tokens)-1]*5 + 3) % words
			}
			s.Tokens = append(s.Tokens, word)
		}
		list = append(list, s)
	}
	return list
}

// trainLikePEFT runs our program.
var trainLikePEFT = testutil.NewProcess("trainLikePEFT", func(r peftRun, serve func(sample func() (peftStep, error)) error) error {
	libraries := rss.Peak()
	m, err := model.Load(r.Model, model.LoadOptions{})
	if err != nil {
		return err
	}
	defer m.Close()
	a, err := r.adapter(m)
	if err != nil {
		return err
	}
	defer a.Close()
	d, loss, err := r.task(m)
	if err != nil {
		return err
	}
	trained, o := train.Trainables{Adapters: a.WithScale(1)}, train.Options{
		Schedule: train.Schedule{Peak: r.Rate, Floor: r.Rate, Steps: r.Steps},
		AdamW:    train.AdamW{Beta1: r.Beta1, Beta2: r.Beta2, Epsilon: r.Epsilon, Decay: r.Decay, Clip: r.Clip},
		Batch:    r.rowsOfStep(), Accumulate: 1, Threads: r.Threads, Checkpointing: checkpointing(r.Checkpointing), ComputeType: r.ComputeType, Loss: loss,
	}
	if r.Memory > 0 {
		o.Checkpointing = train.CheckpointingAuto
		plan := train.Plan{Model: m, Trained: trained, Data: d, Options: o, Available: layout.Sizes{int64(r.Memory)}, IsLimit: true, Program: int64(rss.Now())}
		if o.Memory, err = plan.StepMemory(); err != nil {
			return err
		}
		debug.FreeOSMemory() // return the memory of the measured graphs to the system
	}
	t, err := train.New(m, trained, d, o)
	if err != nil {
		return err
	}
	defer t.Close()
	return serve(func() (peftStep, error) {
		start := time.Now()
		point, err := t.Step(context.Background())
		took := time.Since(start).Seconds()
		if err == nil && point.Tokens != r.trained() {
			err = fmt.Errorf("a step trains %d tokens, and programs are compared by steps of %d", point.Tokens, r.trained())
		}
		return peftStep{point.Loss, took, libraries}, err
	})
})

// writePEFT writes PEFT's input: weights and adapter as float32, and the batches in our order. It
// returns the shapes of the weights.
var writePEFT = testutil.NewJob("writePEFT", func(r peftRun) (tensors []peftTensor, err error) {
	m, err := model.Load(r.Model, model.LoadOptions{})
	if err != nil {
		return nil, err
	}
	defer m.Close()
	a, err := r.adapter(m)
	if err != nil {
		return nil, err
	}
	defer a.Close()
	err = writeWith(filepath.Join(r.Folder, "weights.bin"), func(w io.Writer) error { return r.writeWeights(w, m, a) })
	if err != nil {
		return nil, err
	}
	rows := r.rows()
	return r.Tensors, writeWith(filepath.Join(r.Folder, "tokens.bin"), func(w io.Writer) error {
		order := data.Shuffler{Seed: 0, N: len(rows)}
		for i := range rows {
			for _, sample := range rows[order.At(i)] {
				if err := binary.Write(w, binary.LittleEndian, sample.Tokens); err != nil {
					return err
				}
			}
		}
		return nil
	})
})

func (r *peftRun) writeWeights(w io.Writer, m *model.Model, a *lora.Adapter) error {
	list := slices.Collect(m.Weights())
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
		r.Tensors = append(r.Tensors, peftTensor{Name: t.Name(), Shape: t.Shape()})
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
