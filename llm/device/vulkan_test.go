package device_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/llmtest"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/optest"
	"github.com/goggml/ggml/llm/device"
	"github.com/goggml/ggml/llm/layout"
	"github.com/goggml/ggml/llm/model"
	"github.com/goggml/ggml/llm/train"
)

// vulkan returns the first Vulkan device.
func vulkan(t *testing.T) *ggml.Device { return vulkans(t, 1)[0] }

// vulkans returns n Vulkan devices.
func vulkans(t *testing.T, n int) []*ggml.Device {
	t.Helper()
	devices, err := ggml.VulkanDevices()
	if err != nil || len(devices) < n {
		t.Skip("there are no such Vulkan devices; make vulkan runs this test on the software driver")
	}
	return devices[:n]
}

// frailVulkan is a Vulkan device whose driver runs out of memory or loses the device when the test says so.
func frailVulkan(t *testing.T) *ggml.Device {
	t.Helper()
	d := vulkan(t)
	if os.Getenv("GOGGML_VULKAN_LOST") == "" {
		t.Skip("this driver has all its memory, and is not lost; make vulkan runs this test on one that is")
	}
	return d
}

// Results with checkpoints, chunks and noise equal the CPU's.
func TestVulkan(t *testing.T) {
	d := vulkan(t)
	m := llmtest.ArchModel(t, "gemma3", ggml.F32)
	decodesAlike(t, m, d, vulkanLogits)
	trainsAlike(t, m, d, 1e-3)
}

// Bounds of the NMSE of logits on Vulkan: its flash attention rounds to F16; with quantised weights or caches, one side
// rounds operands to 8 bits.
const vulkanLogits, vulkanRounded = 1e-5, 3e-4

// Fifty steps on Vulkan have the losses of this project's kernels, for each architecture that trains and base weights
// of all kinds of types. With -short, for one.
func TestVulkanTrains(t *testing.T) {
	d := vulkan(t)
	names, types := llmtest.Architectures(), []ggml.Type{ggml.F32, ggml.F16, ggml.Q8_0, ggml.Q4_K}
	if testing.Short() {
		names, types = []string{"llama"}, []ggml.Type{ggml.F32, ggml.Q8_0}
	}
	for _, typ := range types {
		worst, seen := 0.0, 0
		for _, name := range names {
			t.Run(fmt.Sprint(name, " ", typ), func(t *testing.T) {
				m := allExperts(t, name, typ)
				if !m.Architecture().IsCausal() {
					t.Skip("it is not trained")
				}
				on := loadOn(t, m, layout.On(d))
				worst = max(worst, requireSameLosses(t, fiftySteps(t, m, device.Options{}), fiftySteps(t, on, device.Options{Layout: layout.On(d)}), 1e-3))
				seen++
			})
		}
		t.Logf("of %v: losses of %d architectures differ by at most %.1e", typ, seen, worst)
	}
}

// fiftySteps trains a model for fifty steps of one row each, with enough columns for products that round.
func fiftySteps(t *testing.T, m *model.Model, on device.Options) []train.StepMetrics {
	t.Helper()
	o := trainOptions(newEngine(t, on), train.CheckpointingOff)
	// With steeper steps, or losses of memorised text, operands in F16 alone cause errors of a thousandth.
	o.Batch, o.Accumulate, o.Schedule.Peak = 1, 1, 0.001
	tr := need.Value(train.New(m, train.Trainables{Adapters: newAdapter(t, m).WithScale(1)}, samples(m.Config().Vocab), o))(t)
	defer tr.Close()
	require.NoError(t, tr.Run(t.Context(), train.RunOptions{}))
	return tr.History
}

// allExperts loads a model without router, or with one that selects all experts: Vulkan rounds the router's logits.
func allExperts(t *testing.T, name string, typ ggml.Type) *model.Model {
	t.Helper()
	m := need.Value(model.Load(llmtest.AllExpertsFile(t, name, typ), model.LoadOptions{}))(t)
	t.Cleanup(func() { m.Close() })
	return m
}

// Models over the CPU, Vulkan, two Vulkan devices and a remote one compute the same as on one device.
func TestVulkanPlans(t *testing.T) {
	two, far := vulkans(t, 2), remote(t)
	a, b := two[0], two[1]
	names := planned
	if testing.Short() {
		names = []string{"llama"} // as in other tests: compiling shaders takes long
	}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			m := allExperts(t, name, ggml.F32)
			layers := m.Config().Layers
			half, all := layers/2, layers
			plans := map[string]layout.Planner{
				"two devices":                         {Devices: two, Split: []float64{1, 1}},
				"the CPU and Vulkan":                  {Devices: []*ggml.Device{a}, DeviceLayers: &half},
				"Vulkan and the CPU":                  {Devices: []*ggml.Device{b, cpu(t)}, Split: []float64{1, 1}},
				"Vulkan and a remote device":          {Devices: []*ggml.Device{far, a}, Split: []float64{1, 1}, DeviceLayers: &all},
				"the CPU, Vulkan and a remote device": {Devices: []*ggml.Device{cpu(t), a, far}, Split: slices.Repeat([]float64{1}, 3)},
			}
			if layers < 3 {
				delete(plans, "the CPU, Vulkan and a remote device")
			}
			runsAlike(t, m, runOn(t, loadOn(t, m, layout.On(a)), newEngine(t, device.Options{Layout: layout.On(a)})), plans)
		})
	}
}

// On a device with too little memory, what fits is used; requesting more is an error with the figures.
func TestVulkanWithTooLittleMemory(t *testing.T) {
	d := frailVulkan(t)
	m := llmtest.ArchModel(t, "llama", ggml.F32)
	want := runOn(t, loadOn(t, m, layout.On(d)), newEngine(t, device.Options{Layout: layout.On(d)}))
	needs := trainingEstimate(t, m, train.CheckpointingOff)
	whole := need.Value(needs.In(layout.On(d)))(t)
	const much = 1 << 40
	t.Setenv("GOGGML_VULKAN_MEMORY", strconv.Itoa(much))
	used := much - d.Properties().MemoryFree
	t.Setenv("GOGGML_VULKAN_MEMORY", strconv.FormatInt(used+whole[0]*3/4, 10))
	require.Equal(t, whole[0]*3/4, d.Properties().MemoryFree)
	all := m.Config().Layers
	_, err := layout.Planner{Devices: []*ggml.Device{d}, Layers: all, Tied: m.Config().Tied, Need: needs.In, DeviceLayers: &all}.Plan()
	require.Regexp(t, `^2 layers with all that belongs to them need \d+\.\d KiB of Vulkan0, which has \d+\.\d KiB free; there is room for 1$`, err.Error())
	runsAlike(t, m, want, map[string]layout.Planner{"too little": {Devices: []*ggml.Device{d}}})
}

// If the driver refuses memory during a computation, the error has the figures, and the process continues.
func TestVulkanOutOfMemory(t *testing.T) {
	d := frailVulkan(t)
	b := need.Value(d.NewBackend())(t)
	defer b.Close()
	c := ggml.NewContext()
	defer c.Close()
	w, x := c.NewTensor(ggml.Q8_0, 256, 128), c.NewTensor(ggml.F32, 256, 64)
	y := c.MulMat(w, x) // with F16 weights the plugin allocates memory while computing
	g := c.NewGraph(y)
	buffers := need.Value(c.Allocate(d.BufferType()))(t)
	defer buffers.Close()
	require.NoError(t, w.SetFloat32s(optest.Normal(1, 256*128)))
	require.NoError(t, x.SetFloat32s(optest.Normal(2, 256*64)))
	t.Setenv("GOGGML_VULKAN_REFUSE", "1")
	err := b.Compute(t.Context(), g)
	require.ErrorIs(t, err, ggml.ErrOutOfMemory)
	require.ErrorIs(t, err, ggml.ErrBroken)
	require.Regexp(t, `out of memory: Vulkan0 has .* free of .*; close something, or use a smaller model or batch`, err.Error())
	_, err = d.BufferType().NewBuffer(1 << 20)
	require.ErrorIs(t, err, ggml.ErrOutOfMemory)
}

// Losing a device fails the step, and its objects can be closed.
func TestVulkanLost(t *testing.T) {
	d := frailVulkan(t)
	m := llmtest.ArchModel(t, "llama", ggml.F32)
	on := need.Value(model.Load(m.Path, model.LoadOptions{Layout: layout.On(d)}))(t)
	e := need.Value(device.New(device.Options{Layout: layout.On(d), Threads: 1}))(t)
	tr := newTrainer(t, on, e, train.CheckpointingOff)
	_, err := tr.Step(t.Context())
	require.NoError(t, err)
	lost := filepath.Join(t.TempDir(), "lost")
	require.NoError(t, os.WriteFile(lost, nil, 0o600))
	t.Setenv("GOGGML_VULKAN_LOST", lost)
	_, err = tr.Step(t.Context())
	require.ErrorContains(t, err, "ErrorDeviceLost")
	require.NoError(t, tr.Close())
	require.NoError(t, e.Close())
	require.NoError(t, on.Close())
	require.NoError(t, os.Remove(lost))
	decodesAlike(t, m, d, vulkanLogits)
}
