package infer

import (
	"github.com/goggml/ggml/internal/nn"
	"github.com/goggml/ggml/llm/device"
	"github.com/goggml/ggml/llm/model"
)

// AddDemand adds to a demand what a session needs: the model with its adapters, the KV cache, and the results
// of a full batch. The model lies on the CPU, and nothing of it is read; [device.Demand.In] tells of other
// layouts.
func AddDemand(to *device.Demand, m *model.Model, o SessionOptions) error {
	o.Sequences = max(1, o.Sequences)
	d, err := o.decoder(m)
	if err == nil {
		err = m.AddDemand(to, o.Adapters)
	}
	if err != nil {
		return err
	}
	if d.engine, err = device.New(device.Options{Layout: m.Layout(), OpSet: device.Stock, Threads: 1}); err != nil {
		return err
	}
	d.ownEngine = true
	defer d.close()
	if d.lowering, err = newLowering(m, d.engine, nn.AdaptersOf(o.Adapters)); err != nil {
		return err
	}
	if d.states, err = layOutStates(m.Architecture(), o.states(), to.Hold); err != nil {
		return err
	}
	g, err := d.graph(graphShape{slots: 1, tokens: min(d.batch, o.Context), attended: o.Context})
	if err != nil {
		return err
	}
	to.Compute(g.Graph)
	return to.Check()
}
