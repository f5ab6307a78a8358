package train

import (
	"context"
	"slices"

	"github.com/goggml/ggml/llm/parallel"
)

// CheckGroup returns an error unless all processes of the group would compute the same: the same
// parameters, settings and data, at the same step. [Trainer.Run] begins with it; all ranks call it.
func (t *Trainer) CheckGroup(ctx context.Context) error {
	if err := t.checkOpen(); err != nil {
		return err
	}
	if ctx == nil {
		return errNoContext
	}
	if t.group.Size() == 1 {
		return nil
	}
	list, err := t.sharedSettings()
	return parallel.AgreeOn(ctx, t.group, err, nil, list...)
}

// sharedSettings returns everything that determines a run, including the current parameters. It omits
// checkpointing and weight copies, which depend on each process's devices and memory.
func (t *Trainer) sharedSettings() ([]parallel.Shared, error) {
	fixed, err := t.fixedSettings()
	if err != nil {
		return nil, err
	}
	free, err := t.freeSettings()
	if err != nil {
		return nil, err
	}
	var trained string
	if trained, err = hashTensors(t.trained()); err != nil {
		return nil, err
	}
	list := t.shared()
	for _, p := range t.opt.params {
		list = append(list, parallel.Shared{Name: "tensor " + p.Name(), Value: shapeOf(p.Type(), p.Shape())})
	}
	for _, s := range slices.Concat(t.originSettings(), fixed, free) {
		x := parallel.Shared{Name: s.words, Value: s.value}
		switch {
		case s.id == SettingCheckpointing, s.id == SettingWeightCopies:
			continue
		case s.keys == originKeys:
			x.Kind = parallel.Explanation
		case s.opaque:
			x.Kind = parallel.Fingerprint
		}
		list = append(list, x)
	}
	return append(list, parallel.Shared{Name: "parameters", Value: trained, Kind: parallel.Fingerprint}), nil
}

// shared returns the progress and length of the run.
func (t *Trainer) shared() []parallel.Shared {
	return []parallel.Shared{
		{Name: "the number of steps that are done", Value: t.step}, {Name: "the position in the data", Value: t.position},
		{Name: "the number of all steps", Value: t.TotalSteps()},
	}
}
