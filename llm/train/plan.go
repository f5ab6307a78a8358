package train

import (
	"errors"
	"slices"

	"github.com/goggml/ggml/llm/data"
	"github.com/goggml/ggml/llm/layout"
	"github.com/goggml/ggml/llm/lossgraph"
	"github.com/goggml/ggml/llm/model"
)

// A Plan is a run before it begins: the arguments of [New], and its layout. The model is on the CPU, mapped
// from its file, and its data is not read.
type Plan struct {
	Layout    layout.Layout
	Model     *model.Model
	Trained   Trainables
	Data      *data.Dataset
	Options   Options
	Evaluated []*data.Dataset
	// Available is the memory of each device of the layout before the run, the CPU last, see
	// [device.Engine.AvailableMemory].
	Available layout.Sizes
	// IsLimit says that the run may take all of Available. Otherwise a step leaves a fifth of it to other programs.
	IsLimit bool
	// Program is the CPU memory of the process itself, included in Available: code, libraries, a
	// vocabulary.
	Program int64
}

// Steps returns the number of steps of the run.
func (p Plan) Steps() int { return p.Options.stepsFrom(0, 0, p.Data.Len()) }

// Memory returns the memory of the run, see [EstimateMemory], and its gradient checkpointing: for
// CheckpointingAuto, the choice that the run will make.
func (p Plan) Memory() (MemoryEstimate, Checkpointing, error) {
	if c := p.Options.Checkpointing; c != CheckpointingAuto {
		e, _, err := p.estimateKeeping(c, p.Options.Keep)
		return e, c, err
	}
	e, err := p.estimate(CheckpointingOff)
	if err != nil || p.leavesRoom(e) {
		return e, CheckpointingOff, err
	}
	e, sums, err := p.estimateKeeping(CheckpointingOn, 0)
	if err != nil || !p.leavesRoom(e) {
		return e, CheckpointingOn, err
	}
	err = searchKeep(sums, func(keep int64) (bool, error) {
		e, _, err = p.estimateKeeping(CheckpointingOn, keep)
		return p.leavesRoom(e) && e.Fits(p.Available), err // with the evaluations
	})
	return e, CheckpointingOn, err
}

// StepMemory returns the [Options].Memory with which the run takes no more than Available, with as few results recomputed as
// that allows. If it is too little, the error is a *FitError.
func (p Plan) StepMemory() (layout.Sizes, error) {
	if err := p.Model.CheckOpen(); err != nil {
		return nil, err
	}
	if err := p.Options.validate(); err != nil {
		return nil, err
	}
	c := p.Options.Checkpointing
	if c == CheckpointingAuto {
		c = CheckpointingOn
	}
	least, _, err := p.estimateKeeping(c, p.Options.Keep)
	if err != nil {
		return nil, err
	}
	if !least.Fits(p.Available) {
		return nil, notFitting(Fit{
			Batch: p.Options.Batch, Accumulate: p.Options.Accumulate, Checkpointing: c, Length: p.Data.Length, Layout: p.Layout, Memory: least, available: p.Available,
		})
	}
	step := slices.Clone(p.Available)
	least.Step, least.Copies = nil, nil
	for i, others := range least.Total() {
		step[i] -= others
	}
	return step, nil
}

func (p Plan) estimate(c Checkpointing) (MemoryEstimate, error) {
	e, _, err := p.estimateKeeping(c, 0)
	return e, err
}

// estimateKeeping returns the memory of the run with a value of Options.Keep, and those by which a step recomputes less.
func (p Plan) estimateKeeping(c Checkpointing, keep int64) (MemoryEstimate, []int64, error) {
	o := p.Options
	o.Checkpointing, o.Keep = c, keep
	e, sums, err := estimateMemory(p.Layout, p.Model, p.Trained, p.Data, o, p.Evaluated...)
	if err == nil && p.Program > 0 {
		e.Program = make(layout.Sizes, len(e.Weights))
		e.Program[len(e.Program)-1] = p.Program
	}
	return e, sums, err
}

// Fits reports whether the run fits into this memory of the devices.
func (e MemoryEstimate) Fits(available layout.Sizes) bool {
	return within(e.Total(), available)
}

func within(need, available layout.Sizes) bool {
	for i, n := range need {
		if i >= len(available) || n > available[i] {
			return false
		}
	}
	return true
}

// leavesRoom reports whether the run takes no more than a limit or, without one, leaves memory free.
func (p Plan) leavesRoom(e MemoryEstimate) bool {
	if p.IsLimit {
		return e.Fits(p.Available)
	}
	return e.leavesRoom(p.Available)
}

// leavesRoom reports whether a step takes at most four fifths of the memory available when it is
// built, like Trainer.fits. On the CPU, weights and optimizer are not yet resident by then, so they
// count as part of the step.
func (e MemoryEstimate) leavesRoom(available layout.Sizes) bool {
	held := e.Weights.Plus(e.Adapters).Plus(e.Optimizer)
	cpu, program := len(held)-1, e.Program.Total()
	for i, n := range e.Step {
		switch {
		case i >= len(available):
			return false
		case i < cpu && n > (available[i]-held[i])/5*4:
			return false
		case i == cpu && n+held[i] > (available[i]-program)/5*4:
			return false
		}
	}
	return true
}

// Larger batches are hardly faster, and their graphs take much memory.
const mostPlannedRows, mostPlannedTokens = 256, 8192

// plannedRows returns the maximum number of rows per batch that plans consider.
func (p Plan) plannedRows() int {
	return min(mostPlannedRows, max(1, mostPlannedTokens/max(1, p.Data.LongestRow())))
}

// LargestBatch returns the largest Options.Batch with which the run fits, to within a sixteenth, with
// checkpointing if the options leave that to the run; 0 if none fits. If the run fits as it is, n is
// at least Options.Batch. It does not try batches too large to be faster; more reports whether larger
// ones may fit.
func (p Plan) LargestBatch() (n int, more bool, err error) {
	planned, most := p.plannedRows(), MaxStepRows/max(1, p.Options.Accumulate)
	if e := p.Options.Epochs; e > 0 && p.Data.Len() <= most/e {
		most = max(1, e*p.Data.Len())
	}
	n, err = p.largest(min(planned, most), func(p *Plan, n int) { p.Options.Batch = n })
	more = n == planned && planned < most
	if err == nil && n < p.Options.Batch {
		n, err = p.atLeast(n, p.Options.Batch)
	}
	return n, more, err
}

// LongestSample returns the maximum length of training and evaluation samples with which the run fits,
// to within a sixteenth and at most the model's context; 0 if none fits. If the run fits as it is, the
// result is at least Data.Length.
func (p Plan) LongestSample() (int, error) {
	if err := p.Model.CheckOpen(); err != nil {
		return 0, err
	}
	longest := 0
	for most := p.Model.Config().Context; longest == 0 && most > 0; most /= 64 { // finer steps for short samples
		unit := max(1, most/64)
		n, err := p.largest(most/unit, func(p *Plan, n int) {
			evaluated := p.Evaluated
			*p = p.withLength(n * unit)
			for i, d := range evaluated {
				p.Evaluated[i] = fullRows(n*unit, min(max(1, p.Options.Batch), d.Len()))
			}
		})
		if err != nil {
			return 0, err
		}
		longest = n * unit
	}
	if p.Data != nil && longest < p.Data.Length {
		return p.atLeast(longest, p.Data.Length)
	}
	return longest, nil
}

// atLeast returns own if the run fits as it is, and otherwise n.
func (p Plan) atLeast(n, own int) (int, error) {
	e, _, err := p.Memory()
	var tooLarge *lossgraph.BatchSizeError
	switch {
	case errors.As(err, &tooLarge):
		return n, nil
	case err != nil:
		return 0, err
	case e.Fits(p.Available):
		return own, nil
	}
	return n, nil
}

// largest returns the largest n ≤ most, approximately, with which the run fits after of(p, n). Memory
// grows almost linearly with n: two estimates extrapolate to the limit, and further ones check it. A
// graph that would be too large does not fit.
func (p Plan) largest(most int, of func(p *Plan, n int)) (int, error) {
	if p.Options.Checkpointing == CheckpointingAuto {
		p.Options.Checkpointing = CheckpointingOn
	}
	estimate := func(n int) (layout.Sizes, error) {
		with := p
		of(&with, n)
		e, _, err := with.Memory()
		return e.Total(), err
	}
	few := max(1, most/32)
	less, err := estimate(few)
	var tooLarge *lossgraph.BatchSizeError
	if err != nil && !errors.As(err, &tooLarge) {
		return 0, err
	}
	more, err := estimate(2 * few)
	if err != nil && !errors.As(err, &tooLarge) {
		return 0, err
	}
	n := most
	for i := range less {
		if i < len(more) && i < len(p.Available) && more[i] > less[i] {
			slope := float64(more[i]-less[i]) / float64(few)
			n = min(n, few+int(max(float64(-few), min(float64(most), float64(p.Available[i]-less[i])/slope))))
		}
	}
	for ; n > 0; n -= (n + 15) / 16 {
		all, err := estimate(n)
		switch {
		case errors.As(err, &tooLarge):
		case err != nil:
			return 0, err
		case within(all, p.Available):
			return n, nil
		}
	}
	return 0, nil
}
