package train

import (
	"errors"
	"fmt"
	"slices"

	"github.com/goggml/ggml/llm/data"
	"github.com/goggml/ggml/llm/layout"
	"github.com/goggml/ggml/llm/lossgraph"
)

// FitOptions bound what [Prospect.Fit] may change.
type FitOptions struct {
	MostBatch  int  // rows of a batch at most; 0 for all of a step
	KeepLength bool // samples stay as long as they are
	// Lay finds the layout of a run, with what its devices have, and reports whether all layers lie on those that are
	// meant for them; nil stays with the layout that the prospect has.
	Lay func(p *Prospect) (whole bool, err error)
}

// A Fit is how a run is computed in the memory that there is.
type Fit struct {
	Batch, Accumulate int
	Checkpointing     Checkpointing
	Length            int // of samples, in tokens: the data's, or less
	Layout            layout.Layout
	Memory            MemoryEstimate

	available layout.Sizes
}

// A FitError is a run that does not fit, however it is computed.
type FitError struct {
	Device          string // its name
	Need, Available int64  // bytes: the least that it takes, and what there is
	Fit             Fit    // that takes the least
}

// Error says how much is needed.
func (e *FitError) Error() string {
	return fmt.Sprintf("the run takes at least %s of %s, which has %s", layout.Bytes(e.Need), e.Device, layout.Bytes(e.Available))
}

// Fit finds how the run is computed in its memory, by the estimates of [Prospect.Memory]. Rows of a step stay as many as Batch
// times Accumulate. First comes what keeps the results of all layers, where checkpointing is left to the run, because
// recomputing them takes a third more time; then the largest batch; and samples are cut only where a single one of them does
// not fit. Devices are to have all layers, if any of these ways lets them. What does not fit at all is a *FitError.
func (p Prospect) Fit(o FitOptions) (*Fit, error) {
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

// batchesOfStep lists the batch sizes that divide the step, from the smallest up.
func (p Prospect) batchesOfStep(most int) (list []int) {
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

// A fitSearch tries ways to compute a run.
type fitSearch struct {
	p       Prospect
	o       FitOptions
	batches []int
	ways    []Checkpointing
}

func (s *fitSearch) run() (*Fit, error) {
	for _, way := range s.ways {
		var found *Fit
		for _, n := range s.batches { // from the smallest up: graphs take memory, too
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
	// The way with the least memory, with layers on the CPU if it needs that.
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
	for low := 0; low < lengths; { // lengths from low to lengths are undecided
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

// lengthUnit is in what steps samples are cut: graphs have lengths of multiples of 8.
func lengthUnit(length int) int { return max(8, length/32/8*8) }

// try estimates a run: nil is one that does not fit.
func (s *fitSearch) try(p Prospect, way Checkpointing, batch int) (f *Fit, whole bool, err error) {
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

func (s *fitSearch) estimate(p Prospect, way Checkpointing, batch int) (*Fit, bool, error) {
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

// error returns an error with the least memory of the run.
func (s *fitSearch) error(p Prospect, way Checkpointing) error {
	f, _, err := s.estimate(p, way, s.batches[0])
	if err != nil {
		return err
	}
	total := f.Memory.Total()
	for i, need := range total {
		if i < len(f.available) && need <= f.available[i] {
			continue
		}
		e := &FitError{Device: "CPU", Need: need, Fit: *f}
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

// withLength is the prospect of as many samples of a length, all of them as long, with evaluations of samples that are no longer.
func (p Prospect) withLength(n int) Prospect {
	packed, evaluated := p.Data.IsPacked(), p.Evaluated
	if p.Data = fullRows(n, max(1, p.Options.Batch)); packed {
		p.Data, _ = p.Data.Packed(0) // samples of this length are always packed
	}
	p.Evaluated = nil
	for _, d := range evaluated {
		p.Evaluated = append(p.Evaluated, fullRows(min(n, d.LongestRow()), d.Len()))
	}
	return p
}

// fullRows are samples that all have a length.
func fullRows(length, rows int) *data.Dataset {
	return data.New(length, slices.Repeat([]data.Sample{{Tokens: make([]int32, length+1)}}, rows))
}
