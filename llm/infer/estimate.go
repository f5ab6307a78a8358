package infer

import (
	"github.com/goggml/ggml/internal/nn"
	"github.com/goggml/ggml/llm/estimate"
	"github.com/goggml/ggml/llm/model"
)

// SessionsPart names what [AddEstimate] adds beside the model and its adapters, for [estimate.Memory.Parts].
const SessionsPart = "sessions"

// AddEstimate adds to an estimate what a session needs: the model with its adapters, the KV cache, and the results of
// the largest passes. The model must be in a CPU layout; its weights are not read. [estimate.Memory.In] estimates
// other layouts.
func AddEstimate(to *estimate.Memory, m *model.Model, o SessionOptions) error {
	d, err := o.decoder(m)
	if err == nil {
		err = m.AddEstimate(to, o.Adapters)
	}
	if err != nil {
		return err
	}
	if d.engine, err = to.Engine(m.Layout()); err != nil {
		return err
	}
	d.ownEngine = true
	defer d.close()
	if d.lowering, err = newLowering(m, d.engine, nn.AdaptersOf(o.Adapters), 0); err != nil {
		return err
	}
	to.Part(SessionsPart)
	if d.states, err = layOutStates(m.Architecture(), o.states(), to.Hold); err != nil {
		return err
	}
	graphs, err := d.largest(o.Sequences)
	if err != nil {
		return err
	}
	to.Compute(graphs...)
	return to.Check()
}
