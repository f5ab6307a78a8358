package layout_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/nn"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/optest"
	"github.com/goggml/ggml/llm/layout"
)

func TestMain(m *testing.M) { optest.Main(m) }

// remote returns a device of an RPC server.
func remote(t *testing.T) *ggml.Device {
	t.Helper()
	r := need.Value(ggml.AddRPCServer(optest.StartRPCServer(t).Endpoint))(t)
	t.Cleanup(func() { require.NoError(t, r.Unload()) })
	return r.Devices()[0]
}

func TestPlannerErrors(t *testing.T) {
	d := remote(t)
	need := func(l layout.Layout) (layout.Sizes, error) { return make(layout.Sizes, len(l.Devices)+1), nil }
	minus := -1
	for says, p := range map[string]layout.Planner{
		"Planner.Need is nil; set it to the function that returns the memory of a layout":               {Layers: 2},
		"a model of 0 layers cannot be divided among devices":                                           {Need: need},
		"the CPU can hold only the first or the last layers; list it first or last":                     {Layers: 2, Need: need, Devices: []*ggml.Device{d, optest.CPU(t), remote(t)}},
		"the split has 2 parts for 1 device":                                                            {Layers: 2, Need: need, Devices: []*ggml.Device{d}, Split: []float64{3, 1}},
		"the number of layers is -1; it must not be negative":                                           {Layers: 2, Need: need, Devices: []*ggml.Device{d}, DeviceLayers: &minus},
		"the free memory is given for 2 devices instead of 1 device":                                    {Layers: 2, Need: need, Devices: []*ggml.Device{d}, Free: layout.Sizes{1, 2}},
		"the layout has " + d.Name() + " twice; list each device once":                                  {Layers: 2, Need: need, Devices: []*ggml.Device{d, d}},
		"device 0 of the layout is nil":                                                                 {Layers: 2, Need: need, Devices: []*ggml.Device{nil}},
		"a layer with all that belongs to it needs 9.0 KiB of " + d.Name() + ", which has 1.0 KiB free": {Layers: 1, Devices: []*ggml.Device{d}, Free: layout.Sizes{1024}, Need: func(layout.Layout) (layout.Sizes, error) { return layout.Sizes{9 << 10, 0}, nil }},
		"the function Need returned the memory of 1 device; the layout has 2 devices":                   {Layers: 2, Devices: []*ggml.Device{d}, Need: func(layout.Layout) (layout.Sizes, error) { return layout.Sizes{1}, nil }},
	} {
		_, err := p.Plan()
		require.EqualError(t, err, says)
	}
}

// The layers' devices determine the devices of embedding and output.
func TestPlanPlaces(t *testing.T) {
	a, b := remote(t), remote(t)
	two := 2
	for _, c := range []struct {
		p    layout.Planner
		says string
		want map[layout.Kind]string // device by kind, outside of layers
	}{
		{layout.Planner{Devices: []*ggml.Device{a}}, "the whole model is on A", map[layout.Kind]string{"token_embd": "A", "output": "A"}},
		{layout.Planner{Devices: []*ggml.Device{a, b}}, "the embedding and layers 0-1 on A, layers 2-3 and the output on B", map[layout.Kind]string{"token_embd": "A", "position_embd": "A", "output": "B", "output_norm": "B", "rope_freqs": "B"}},
		{layout.Planner{Devices: []*ggml.Device{a, b}, Tied: true}, "layers 0-1 on A, layers 2-3 and the output on B", map[layout.Kind]string{"token_embd": "B", "token_embd_norm": "A", "output_norm": "B"}},
		{layout.Planner{Devices: []*ggml.Device{a}, DeviceLayers: &two}, "the embedding and layers 0-1 on the CPU, layers 2-3 and the output on A", map[layout.Kind]string{"token_embd": "CPU", "output": "A"}},
		{layout.Planner{Devices: []*ggml.Device{a, optest.CPU(t)}, DeviceLayers: &two}, "the embedding and layers 0-1 on A, layers 2-3 and the output on the CPU", map[layout.Kind]string{"token_embd": "A", "output": "CPU"}},
		{layout.Planner{Devices: []*ggml.Device{optest.CPU(t)}}, "the whole model is on the CPU", nil},
	} {
		names := map[string]string{a.Name(): "A", b.Name(): "B", "CPU": "CPU"}
		c.p.Layers, c.p.Need = 4, func(l layout.Layout) (layout.Sizes, error) { return make(layout.Sizes, len(l.Devices)+1), nil }
		c.p.Free = nil
		plan := need.Value(c.p.Plan())(t)
		text := plan.String()
		for name, short := range names {
			text = strings.ReplaceAll(text, name, short)
		}
		require.Equal(t, c.says, text)
		for kind, want := range c.want {
			i := plan.Of(nn.NoLayer, kind)
			on := "CPU"
			if i < len(plan.Devices) {
				on = names[plan.Devices[i].Name()]
			}
			require.Equal(t, want, on, "%s: %s", text, kind)
		}
	}
}
