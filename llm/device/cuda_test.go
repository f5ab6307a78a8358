package device_test

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/llmtest"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/llm/arch"
	"github.com/goggml/ggml/llm/device"
	"github.com/goggml/ggml/llm/layout"
	"github.com/goggml/ggml/llm/model"
	"github.com/goggml/ggml/llm/train"
)

// A standIn is a CUDA device without GPU that records the calls it receives.
type standIn struct {
	*ggml.Device
	trace      string
	read       int64 // offset in the trace
	used, peak int64 // bytes on the device up to that offset
}

func newStandIn(t *testing.T) *standIn {
	s := &standIn{trace: os.Getenv("GOGGML_CUDA_TRACE")}
	if s.trace == "" {
		t.Skip("there is no stand-in for CUDA; make gpu-check runs this test on it")
	}
	devices := need.Value(ggml.CUDADevices())(t)
	s.Device = devices[0]
	return s
}

// calls are the calls that a device received.
type calls struct {
	kernels, products, waits int
	updates                  int                // number of AdamW kernels
	byCompute                map[string]int     // number of products by the types of A, B, C and the accumulator
	flops                    map[string]float64 // by the same types
	copied                   map[string]int64   // bytes by direction
	copies                   map[string]int     // number by direction
}

// launches returns the number of all launches by the host.
func (c calls) launches() int { return c.kernels + c.products + c.copies["device-to-device"] }

// calls returns the calls recorded since the last time.
func (s *standIn) calls(t *testing.T) calls {
	f := need.Value(os.Open(s.trace))(t)
	defer f.Close()
	end := need.Value(f.Stat())(t)
	text := make([]byte, end.Size()-s.read)
	_, err := f.ReadAt(text, s.read)
	require.NoError(t, err)
	s.read = end.Size()
	c := calls{byCompute: map[string]int{}, flops: map[string]float64{}, copied: map[string]int64{}, copies: map[string]int{}}
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
			types := strings.Join(words[5:9], " ")
			c.byCompute[types]++
			c.flops[types] += 2 * float64(number(2)) * float64(number(3)) * float64(number(4)) * float64(number(9))
		case "copy":
			c.copied[words[1]] += number(2)
			c.copies[words[1]]++
		case "synchronize":
			c.waits++
		case "malloc":
			s.used += number(1)
			s.peak = max(s.peak, s.used)
		case "free":
			s.used -= number(1)
		}
	}
	return c
}

// hollowModel writes a model with zero weights as a sparse file.
func hollowModel(t *testing.T, c arch.Config, typ ggml.Type) string {
	g := need.Value(ggml.NewGGUF())(t)
	defer g.Close()
	require.NoError(t, c.WriteKeys(g))
	a := need.Value(arch.Resolve(c))(t)
	for _, w := range a.Weights() {
		info := ggml.GGUFTensor{Name: w.Name, Type: typ, Shape: w.Shape}
		if len(w.Shape) < 2 {
			info.Type = ggml.F32
		}
		if !w.Optional {
			require.NoError(t, g.AddTensorFrom(info, func(io.Writer) error { return errors.New("it is hollow") }))
		}
	}
	header := need.Value(g.Header())(t)
	size := int64(len(header))
	for x := range g.Tensors() {
		size = max(size, g.DataOffset()+x.Offset+x.Size)
	}
	folder, err := os.MkdirTemp("/dev/shm", "hollow-") // in /dev/shm, holes are not filled on reading
	if err != nil {
		folder = t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(folder) })
	path := filepath.Join(folder, c.Name+".gguf")
	require.NoError(t, os.WriteFile(path, header, 0o600))
	require.NoError(t, os.Truncate(path, (size+31)/32*32))
	return path
}

// Exceeding the device's memory is an error with the figures.
func TestCUDAOutOfMemory(t *testing.T) {
	s := newStandIn(t)
	_, err := s.BufferType().NewBuffer(100 << 30)
	require.ErrorIs(t, err, ggml.ErrOutOfMemory)
	require.ErrorContains(t, err, "out of memory: 100 GiB are needed on CUDA0, which has 74.5 GiB free of 74.5 GiB; ")
}

// Losing a device fails the step, and its objects can be closed.
func TestCUDALost(t *testing.T) {
	s, lost := newStandIn(t), os.Getenv("GOGGML_CUDA_LOST")
	m := llmtest.ArchModel(t, "llama", ggml.F32)
	on := need.Value(model.Load(m.Path, model.LoadOptions{Layout: layout.On(s.Device)}))(t)
	e := need.Value(device.New(device.Options{Layout: layout.On(s.Device), Threads: 1}))(t)
	tr := newTrainer(t, on, e, train.CheckpointingOff)
	_, err := tr.Step(t.Context())
	require.ErrorIs(t, err, train.ErrDiverged) // nothing is computed
	require.NoError(t, os.WriteFile(lost, nil, 0o600))
	_, err = tr.Step(t.Context())
	require.ErrorContains(t, err, "CUDA error")
	require.NoError(t, tr.Close())
	require.NoError(t, e.Close())
	require.NoError(t, on.Close())
	require.Zero(t, s.Properties().MemoryFree)
	require.NoError(t, os.Remove(lost))
}
