package train

import (
	"errors"
	"fmt"
	"slices"

	"github.com/goggml/ggml/llm/data"
	"github.com/goggml/ggml/llm/layout"
	"github.com/goggml/ggml/llm/lossgraph"
)

// FitOptions limit the changes that [Plan.Fit] may make.
type FitOptions struct {
	MostBatch  int  // maximum rows per batch; 0 means all rows of a step
	KeepLength bool // do not shorten samples
	// Lay sets the layout of a run for the available devices, and reports whether all layers are on the
	// intended devices. nil keeps the plan's layout.
	Lay func(p *Plan) (whole bool, err error)
}

// A Fit is a way to compute a run in the available memory.
type Fit struct {
	Batch, Accumulate int
	Checkpointing     Checkpointing
	Length            int // maximum length of samples in tokens: the data's length, or less
	Layout            layout.Layout
	Memory            MemoryEstimate

	available layout.Sizes
}

// A FitError reports that a run does not fit in any way.
type FitError struct {
	Device          string // name of the device
	Need, Available int64  // least memory that the run needs there, and available memory, in bytes
	Fit             Fit    // way that needs the least memory
}

// Error states the memory needed and available.
func (e *FitError) Error() string {
	return fmt.Sprintf("the run takes at least %s of %s, which has only %s", layout.Bytes(e.Need), e.Device, layout.Bytes(e.Available))
}

// Fit finds a way to compute the run in the available memory, estimated by [Plan.Memory]. The rows
// per step, Batch times Accumulate, do not change. If the options leave checkpointing to the run, Fit
// first tries to keep the results of all layers, because recomputing them takes a third more time.
// Then it chooses the largest batch. It shortens samples only if not even one of them fits. It prefers
// ways with all layers on the intended devices. If nothing fits, the error is a *FitError.
func (p Plan) Fit(o FitOptions) (*Fit, error) {
	if err := p.Model.CheckOpen(); err != nil {
		return nil, err
	}
	if err := p.Options.validate(); err != nil {
		return nil, err
	}
	s := fitSearch{p: p, o: o, batches: p.batchesOfStep(o.MostBatch), ways: []Checkpointing{p.Options.Checkpointing}}
	if p.Options.Checkpointing == CheckpointingAuto {
		s.ways = []Checkpointing{CheckpointingOff, CheckpointingOn}
	}
	return s.run()
}

// batchesOfStep returns the batch sizes that divide the step, in ascending order.
func (p Plan) batchesOfStep(most int) (list []int) {
	rows := p.Options.perStep()
	if most < 1 {
		most = rows
	}
	for n := 1; n <= min(most, rows, p.plannedRows()); n++ {
		if rows%n == 0 {
			list = append(list, n)
		}
	}
	return list
}

// A fitSearch searches for a way to compute a run.
type fitSearch struct {
	p       Plan
	o       FitOptions
	batches []int
	ways    []Checkpointing
}

func (s *fitSearch) run() (*Fit, error) {
	for _, way := range s.ways {
		var found *Fit
		for _, n := range s.batches { // ascending, because building graphs takes memory too
			f, whole, err := s.try(s.p, way, n)
			if err != nil {
				return nil, err
			}
			if f == nil || !whole {
				break
			}
			found = f
		}
		if found != nil {
			return found, nil
		}
	}
	// Try the way with the least memory, which may place layers on the CPU.
	way := s.ways[len(s.ways)-1]
	least, _, err := s.try(s.p, way, s.batches[0])
	if err != nil || least != nil {
		return least, err
	}
	unit := lengthUnit(s.p.Data.Length)
	lengths := (min(s.p.Data.Length, roundUp(s.p.Data.LongestRow(), unit)) - 1) / unit
	if s.o.KeepLength || lengths < 1 {
		return nil, s.error(s.p, way)
	}
	var shorter *Fit
	for low := 0; low < lengths; { // lengths in (low, lengths] are undecided
		n := (low + lengths + 1) / 2
		f, _, err := s.try(s.p.withLength(n*unit), way, s.batches[0])
		switch {
		case err != nil:
			return nil, err
		case f != nil:
			shorter, low = f, n
		default:
			lengths = n - 1
		}
	}
	if shorter == nil {
		return nil, s.error(s.p.withLength(unit), way)
	}
	return shorter, nil
}

// lengthUnit returns the granularity of shortened lengths: graph lengths are multiples of 8.
func lengthUnit(length int) int { return max(8, length/32/8*8) }

// try estimates a run; f is nil if it does not fit.
func (s *fitSearch) try(p Plan, way Checkpointing, batch int) (f *Fit, whole bool, err error) {
	f, whole, err = s.estimate(p, way, batch)
	var tooLarge *lossgraph.BatchSizeError
	var short *layout.ShortageError
	switch {
	case errors.As(err, &tooLarge), errors.As(err, &short):
		return nil, false, nil
	case err != nil || !f.Memory.Fits(f.available):
		return nil, false, err
	}
	return f, whole, nil
}

func (s *fitSearch) estimate(p Plan, way Checkpointing, batch int) (*Fit, bool, error) {
	p.Options.Accumulate, p.Options.Batch, p.Options.Checkpointing = p.Options.perStep()/batch, batch, way
	whole := true
	if s.o.Lay != nil {
		var err error
		if whole, err = s.o.Lay(&p); err != nil {
			return nil, false, err
		}
	}
	memory, _, err := p.Memory()
	if err != nil {
		return nil, false, err
	}
	return &Fit{
		Batch: batch, Accumulate: p.Options.Accumulate, Checkpointing: way, Length: p.Data.Length, Layout: p.Layout, Memory: memory, available: p.Available,
	}, whole, nil
}

// error returns the error for a run that does not fit, with its least memory.
func (s *fitSearch) error(p Plan, way Checkpointing) error {
	f, _, err := s.estimate(p, way, s.batches[0])
	if err != nil {
		return err
	}
	return notFitting(*f)
}

// notFitting returns the error for a way that does not fit.
func notFitting(f Fit) error {
	total := f.Memory.Total()
	for i, need := range total {
		if i < len(f.available) && need <= f.available[i] {
			continue
		}
		e := &FitError{Device: "CPU", Need: need, Fit: f}
		if i < len(f.available) {
			e.Available = f.available[i]
		}
		if i < len(total)-1 {
			e.Device = f.Layout.Devices[i].Name()
		}
		return e
	}
	return errors.New("the run fits")
}

// withLength returns the plan with samples of n tokens each: as many as a batch has rows, if that is
// within the limit, and evaluations of samples no longer than that.
func (p Plan) withLength(n int) Plan {
	packed, evaluated := p.Data.IsPacked(), p.Evaluated
	if p.Data = fullRows(n, min(max(1, p.Options.Batch), MaxStepRows)); packed {
		p.Data, _ = p.Data.Packed(0) // samples of full length are always packed
	}
	p.Evaluated = nil
	for _, d := range evaluated {
		p.Evaluated = append(p.Evaluated, fullRows(min(n, d.LongestRow()), d.Len()))
	}
	return p
}

// fullRows returns rows with one sample of the given length each.
func fullRows(length, rows int) *data.Dataset {
	return data.New(length, slices.Repeat([]data.Sample{{Tokens: make([]int32, length+1)}}, rows))
}
