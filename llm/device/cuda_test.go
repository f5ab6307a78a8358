package device_test

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/benchmodel"
	"github.com/goggml/ggml/internal/llmtest"
	"github.com/goggml/ggml/internal/testhook"
	"github.com/goggml/ggml/llm/arch"
	"github.com/goggml/ggml/llm/data"
	"github.com/goggml/ggml/llm/device"
	"github.com/goggml/ggml/llm/lora"
	"github.com/goggml/ggml/llm/model"
	"github.com/goggml/ggml/llm/train"
)

// A standIn is a CUDA device without a GPU, which writes down what it is asked for.
type standIn struct {
	*ggml.Device
	trace string
	read  int64
}

func newStandIn(t *testing.T) *standIn {
	s := &standIn{trace: os.Getenv("GOGGML_CUDA_TRACE")}
	if s.trace == "" {
		t.Skip("there is no stand-in for CUDA; make gpu-check runs this test on it")
	}
	devices, err := ggml.CUDADevices()
	require.NoError(t, err)
	s.Device = devices[0]
	return s
}

// calls are what a device was asked for.
type calls struct {
	kernels, products, waits int
	updates                  int              // kernels of AdamW
	byCompute                map[string]int   // products, by the types of A, B and C, and that of the sums
	copied                   map[string]int64 // bytes, by direction
	copies                   map[string]int   // and how many
}

// calls reads what has been written down since the last time.
func (s *standIn) calls(t *testing.T) calls {
	f, err := os.Open(s.trace)
	require.NoError(t, err)
	defer f.Close()
	end, err := f.Stat()
	require.NoError(t, err)
	text := make([]byte, end.Size()-s.read)
	_, err = f.ReadAt(text, s.read)
	require.NoError(t, err)
	s.read = end.Size()
	c := calls{byCompute: map[string]int{}, copied: map[string]int64{}, copies: map[string]int{}}
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		number := func(i int) int64 {
			n, err := strconv.ParseInt(words[i], 10, 64)
			require.NoError(t, err, line)
			return n
		}
		switch words[0] {
		case "kernel":
			c.kernels++
			if strings.Contains(words[1], "opt_step_adamw") {
				c.updates++
			}
		case "gemm":
			c.products++
			c.byCompute[strings.Join(words[5:9], " ")]++
		case "copy":
			c.copied[words[1]] += number(2)
			c.copies[words[1]]++
		case "synchronize":
			c.waits++
		}
	}
	return c
}

// hollowModel writes a model of which only the header takes room: its weights are zero.
func hollowModel(t *testing.T, c arch.Config, typ ggml.Type) string {
	g, err := ggml.NewGGUF()
	require.NoError(t, err)
	defer g.Close()
	require.NoError(t, c.WriteKeys(g))
	a, err := arch.Resolve(c)
	require.NoError(t, err)
	for _, w := range a.Weights() {
		info := ggml.GGUFTensor{Name: w.Name, Type: typ, Shape: w.Shape}
		if len(w.Shape) < 2 {
			info.Type = ggml.F32
		}
		if !w.Optional {
			require.NoError(t, g.AddTensorFrom(info, func(io.Writer) error { return errors.New("it is hollow") }))
		}
	}
	header, err := g.Header()
	require.NoError(t, err)
	size := int64(len(header))
	for x := range g.Tensors() {
		size = max(size, g.DataOffset()+x.Offset+x.Size)
	}
	path := filepath.Join(t.TempDir(), c.Name+".gguf")
	require.NoError(t, os.WriteFile(path, header, 0o600))
	require.NoError(t, os.Truncate(path, (size+31)/32*32))
	return path
}

// A step of LoRA on CUDA is one submission, in which the device adds up in F32, no weight moves, and nothing comes back.
func TestCUDAStep(t *testing.T) {
	s := newStandIn(t)
	large := benchmodel.Large()
	wide := large // two of the 32 layers of an 8B: the others ask for the same
	wide.Name, wide.Vocab, wide.Embd, wide.FF, wide.Layers = "8B, two layers", 128256, 4096, 14336, 2
	wide.Heads, wide.KVHeads, wide.HeadSize, wide.RoPE.Dims = 32, 8, 128, 128
	for _, c := range []arch.Config{large, wide} {
		e := newEngine(t, device.Options{Layout: device.On(s.Device)})
		m, err := model.Load(hollowModel(t, c, ggml.BF16), model.LoadOptions{Layout: e.Layout()})
		require.NoError(t, err)
		a, err := lora.New(m, lora.Options{Rank: 8, Alpha: 16, Init: lora.InitKaiming, Seed: 1})
		require.NoError(t, err)
		for _, length := range []int{512, 4096} {
			t.Run(fmt.Sprintf("%s/%d", c.Name, length), func(t *testing.T) {
				step := s.step(t, e, m, a, length)
				t.Logf("%d kernels, %d products %v, copied %v bytes in %v, %d waits", step.kernels, step.products, step.byCompute, step.copied, step.copies, step.waits)
				require.Positive(t, step.products)
				require.Equal(t, 2*len(a.Pairs()), step.updates, "the update is of the same submission")
				for types := range step.byCompute {
					require.NotEqual(t, "F16", strings.Fields(types)[3], "sums of 16 bits")
				}
				require.Less(t, step.copied["host-to-device"], int64(1<<20), "more than tokens, positions and settings")
				require.Zero(t, step.copied["device-to-host"], "something comes back in the middle")
			})
		}
		require.NoError(t, errors.Join(a.Close(), m.Close(), e.Close()))
	}
}

// step is what a step asks for, from when it is submitted until it is computed. Since nothing computes, it ends as one
// that is not finite.
func (s *standIn) step(t *testing.T, e *device.Engine, m *model.Model, a *lora.Adapter, length int) calls {
	rng := rand.New(rand.NewPCG(1, 1))
	tokens := make([]int32, length+1)
	for i := range tokens {
		tokens[i] = int32(rng.IntN(m.Config().Vocab))
	}
	rows := data.New(length, slices.Repeat([]data.Sample{{Tokens: tokens}}, 4))
	tr, err := train.New(m, train.Trainables{Adapters: a.WithScale(1)}, rows, train.Options{
		Schedule: train.Schedule{Peak: 1e-4, Steps: 4}, AdamW: train.DefaultAdamW(), Batch: 1, Accumulate: 1, Seed: 1,
		Engine: e, ComputeType: ggml.BF16, Checkpointing: train.CheckpointingOff,
	})
	require.NoError(t, err)
	defer tr.Close()
	var of []calls
	testhook.Submitting = func() { s.calls(t) }
	testhook.Computed = func() { of = append(of, s.calls(t)) }
	defer func() { testhook.Submitting, testhook.Computed = nil, nil }()
	_, err = tr.Step(t.Context())
	require.ErrorIs(t, err, train.ErrDiverged)
	require.NotEmpty(t, of)
	return of[0]
}

// Memory that the device has not is refused with the figures.
func TestCUDAOutOfMemory(t *testing.T) {
	s := newStandIn(t)
	_, err := s.BufferType().NewBuffer(100 << 30)
	require.ErrorIs(t, err, ggml.ErrOutOfMemory)
	require.ErrorContains(t, err, "out of memory: 100 GiB are needed on CUDA0, which has 74.5 GiB free of 74.5 GiB; ")
}

// A lost device is an error of the step, and what lies there can be closed.
func TestCUDALost(t *testing.T) {
	s, lost := newStandIn(t), os.Getenv("GOGGML_CUDA_LOST")
	m := llmtest.ArchModel(t, "llama", ggml.F32)
	on, err := model.Load(m.Path, model.LoadOptions{Layout: device.On(s.Device)})
	require.NoError(t, err)
	e, err := device.New(device.Options{Layout: device.On(s.Device), Threads: 1})
	require.NoError(t, err)
	tr := newTrainer(t, on, e, train.CheckpointingOff)
	_, err = tr.Step(t.Context())
	require.ErrorIs(t, err, train.ErrDiverged) // since nothing computes
	require.NoError(t, os.WriteFile(lost, nil, 0o600))
	_, err = tr.Step(t.Context())
	require.ErrorContains(t, err, "CUDA error")
	require.NoError(t, tr.Close())
	require.NoError(t, e.Close())
	require.NoError(t, on.Close())
	require.Zero(t, s.Properties().MemoryFree)
	require.NoError(t, os.Remove(lost))
}
