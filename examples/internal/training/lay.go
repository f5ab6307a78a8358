package training

import (
	"io"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/examples/internal/placement"
	"github.com/goggml/ggml/llm/data"
	"github.com/goggml/ggml/llm/estimate"
	"github.com/goggml/ggml/llm/layout"
	"github.com/goggml/ggml/llm/model"
	"github.com/goggml/ggml/llm/train"
)

// Lay finds the layout of the model, which is on the CPU, for a run over devices, and reports it to w. If the
// flags leave the choice open, layers are recomputed when that places more of them on devices. others add the
// further memory that the program needs.
func (f *Flags) Lay(w io.Writer, devices *placement.Choice, m *model.Model, trained train.Trainables, sets *Sets, o train.Options, others ...func(*estimate.Memory) error) (layout.Layout, error) {
	var evaluated []*data.Dataset
	if sets.Valid != nil {
		evaluated = append(evaluated, sets.Valid)
	}
	ways := []train.Checkpointing{o.Checkpointing}
	if o.Checkpointing == train.CheckpointingAuto {
		ways = []train.Checkpointing{train.CheckpointingOff, train.CheckpointingOn}
	}
	o.ComputeType = ggml.F32 // other types take hardly more memory
	var demands []func(*estimate.Memory) error
	for _, way := range ways {
		demands = append(demands, func(to *estimate.Memory) error {
			o.Checkpointing = way
			err := f.NameFlags(train.AddEstimate(to, m, trained, sets.Train, o, evaluated...))
			for _, add := range others {
				if err == nil {
					err = add(to)
				}
			}
			return err
		})
	}
	return devices.Lay(w, m, demands...)
}
