package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/examples/internal/cli"
	"github.com/goggml/ggml/examples/internal/placement"
	"github.com/goggml/ggml/examples/internal/training"
	"github.com/goggml/ggml/internal/rss"
	"github.com/goggml/ggml/llm/data"
	"github.com/goggml/ggml/llm/device"
	"github.com/goggml/ggml/llm/estimate"
	"github.com/goggml/ggml/llm/layout"
	"github.com/goggml/ggml/llm/train"
)

// A way is what --fit chooses: how the samples of a step are computed.
type way struct {
	batch, accumulate, ctx int
	recomputes             bool
}

const (
	wayFormat   = "--batch %d --grad-acc %d --ctx %d %s"
	recomputing = "--use-checkpointing"
	keeping     = "--no-checkpointing"
)

// String returns the flags of the way.
func (w way) String() string {
	return fmt.Sprintf(wayFormat, w.batch, w.accumulate, w.ctx, map[bool]string{true: recomputing, false: keeping}[w.recomputes])
}

// wayOf returns the way of a fit. A row of a pair has two samples of --ctx.
func (p *trainCommand) wayOf(f train.Fit) *way {
	w := &way{f.Batch, f.Accumulate, f.Length, f.Checkpointing == train.CheckpointingOn}
	if p.samplesPerRow() > 1 {
		w.ctx = p.Ctx
	}
	return w
}

// parseWay parses the result of String.
func parseWay(text string) (w way, err error) {
	var checkpointing string
	_, err = fmt.Sscanf(text, wayFormat, &w.batch, &w.accumulate, &w.ctx, &checkpointing)
	w.recomputes = checkpointing == recomputing
	return w, err
}

// take sets the flags of a way.
func (p *trainCommand) take(w way) {
	p.Batch, p.GradAcc, p.Ctx, p.Checkpointing, p.NoCheckpoint = w.batch, w.accumulate, w.ctx, w.recomputes, !w.recomputes
}

// loadToFit reads the data, and lets --fit choose how the run is computed. Of several processes the first
// chooses.
func (p *trainCommand) loadToFit(ctx context.Context, devices *placement.Choice, s *subject) (sets *training.Sets, err error) {
	defer func() {
		if err != nil && sets != nil {
			sets.Close()
		}
	}()
	if limit := p.limit(); limit != "" && !limit.IsAuto() {
		devices.Limit(limit.Bytes())
		p.NoRepack = p.NoRepack || !devices.IsCPU() // copies take all the remaining memory
	}
	if p.Fit == "" {
		return p.loadData(ctx, s.model)
	}
	if p.Fit.IsAuto() && p.Group().Size() > 1 {
		return nil, errors.New("--fit auto cannot divide the free memory among several processes; give the memory of each with --fit SIZE")
	}
	p.keepsLength = p.given["ctx"] && p.Ctx > 0 || p.prefers()
	began, err := p.wayOfCheckpoint()
	if err != nil {
		return nil, err
	}
	isDecided, err := p.agree(ctx, &began)
	if err != nil {
		return nil, err
	}
	for _, file := range p.Files() {
		if !isDecided && !p.keepsLength && data.IsPipe(file.Path) {
			return nil, fmt.Errorf("--fit: %s %s is a pipe, which can be read only once, but shortening samples would read it again; write the data into a file, or give --ctx", file.Flag, file.Path)
		}
	}
	if sets, err = p.loadData(ctx, s.model); err != nil {
		return nil, err
	}
	asked := p.Ctx
	var chosen *way
	switch {
	case isDecided:
		return sets, p.checkFit(devices, s, sets)
	case p.Group().Writes():
		chosen, err = p.choose(devices, s, sets)
	}
	if err == nil {
		_, err = p.agree(ctx, &chosen)
	}
	if err != nil || p.Ctx == asked {
		return sets, err
	}
	sets.Close()
	p.ShowSample = false // it was shown already
	return p.loadData(ctx, s.model)
}

// wayOfCheckpoint returns the way of a run that is continued, or nil for a new run. It rejects other steps or
// samples, as a run without --fit does.
func (p *trainCommand) wayOfCheckpoint() (*way, error) {
	if !p.Group().Writes() || !cli.IsFile(p.CheckpointIn) {
		return nil, nil
	}
	summary, err := train.Summarize(p.CheckpointIn)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", p.Named("checkpoint-in"), err)
	}
	w := &way{recomputes: summary.Settings["gradient checkpointing"] == train.CheckpointingOn.String()}
	for id, to := range map[string]*int{"batch": &w.batch, "gradient accumulation": &w.accumulate, "sample length": &w.ctx} {
		if _, err := fmt.Sscan(summary.Settings[id], to); err != nil {
			return nil, fmt.Errorf("%s: the %s of %s: %w", p.Named("checkpoint-in"), id, p.CheckpointIn, err)
		}
	}
	w.ctx /= p.samplesPerRow() // it is the length of a row
	began := *w
	if w.batch*w.accumulate != p.Batch*p.GradAcc {
		w.batch, w.accumulate = p.Batch, p.GradAcc
	}
	if p.keepsLength {
		w.ctx = p.Ctx
	}
	if p.Checkpointing || p.NoCheckpoint {
		w.recomputes = p.Checkpointing
	}
	if *w == began {
		fmt.Fprintf(p.Log(), "--fit %s: the run continues as it began: %v\n", p.Fit, w)
	}
	return w, nil
}

// checkFit returns an error if a continued run does not fit.
func (p *trainCommand) checkFit(devices *placement.Choice, s *subject, sets *training.Sets) error {
	plan, lay, err := p.planToFit(devices, s, sets)
	if err != nil {
		return err
	}
	if lay != nil {
		if _, err := lay(&plan); err != nil {
			return fmt.Errorf("--fit %s: %w", p.Fit, err)
		}
	}
	memory, _, err := plan.Memory()
	if err != nil {
		return p.NameFlags(err)
	}
	if !memory.Fits(plan.Available) {
		remedy := "give it more memory"
		if !p.Checkpointing {
			remedy += ", or --use-checkpointing"
		}
		return fmt.Errorf("--fit %s: the run continues as it began, which takes %s; %s",
			p.Fit, sizesOf(plan.Layout, memory.Total()), remedy)
	}
	return nil
}

// agree lets all processes fit the run as the first one does, and reports whether the first one has found how.
func (p *trainCommand) agree(ctx context.Context, own **way) (bool, error) {
	text := ""
	if *own != nil {
		text = (*own).String()
	}
	text, err := p.Group().Text(ctx, text)
	if err != nil || text == "" {
		return false, err
	}
	w, err := parseWay(text)
	if err == nil {
		p.take(w)
	}
	return true, err
}

// planToFit returns the plan of the run with its flags, and a function that places it on devices other than
// the CPU, if there are any.
func (p *trainCommand) planToFit(devices *placement.Choice, s *subject, sets *training.Sets) (of train.Plan, lay func(*train.Plan) (bool, error), err error) {
	o, err := p.options(sets.Train)
	if err != nil {
		return of, nil, err
	}
	sampler, err := p.newSampler(s.model, sets.IsChat)
	if err == nil {
		err = p.describePlan(&of, s, sets, o)
	}
	if err == nil {
		err = sampler.reserve(&of)
	}
	if err == nil {
		err = p.reserveTeacher(devices, sets, &of)
	}
	if err != nil || devices.IsCPU() {
		return of, nil, err
	}
	return of, func(of *train.Plan) (whole bool, err error) {
		of.Layout, whole, err = devices.Plan(s.model, func(to *estimate.Memory) error {
			o := of.Options
			o.ComputeType = ggml.F32 // other types take hardly more memory
			if err := train.AddEstimate(to, of.Model, of.Trained, of.Data, o, of.Evaluated...); err != nil {
				return err
			}
			return sampler.addEstimate(to, of.Trained.Adapters)
		})
		if err == nil {
			err = p.describeDevices(of)
		}
		if err == nil {
			err = sampler.reserve(of)
		}
		if err == nil {
			err = p.reserveTeacher(devices, sets, of)
		}
		return whole, err
	}, nil
}

// reserve subtracts the memory of samples from the memory of steps.
func (s *sampler) reserve(of *train.Plan) error {
	samples, err := s.memory(of.Layout, of.Trained.Adapters)
	for i, n := range samples {
		of.Available[i] -= n
	}
	return err
}

// choose finds the way that fits, and reports it.
func (p *trainCommand) choose(devices *placement.Choice, s *subject, sets *training.Sets) (*way, error) {
	plan, lay, err := p.planToFit(devices, s, sets)
	if err != nil {
		return nil, err
	}
	search := train.FitOptions{KeepLength: p.keepsLength, Lay: lay}
	if p.given["batch"] {
		search.MostBatch = p.Batch
	}
	fit, err := plan.Fit(search)
	debug.FreeOSMemory() // return the memory of the measured graphs to the system
	if err != nil {
		return nil, p.explainFit(err, search)
	}
	w := p.wayOf(*fit)
	fmt.Fprintf(p.Log(), "--fit %s: %v, which takes %s\n", p.Fit, w, sizesOf(fit.Layout, fit.Memory.Total()))
	if fit.Length < p.Ctx {
		fmt.Fprintf(p.Log(), "--fit %s: samples are cut to %d tokens instead of %d, because one sample of that length does not fit; --ctx %d keeps the length, but needs more memory\n",
			p.Fit, fit.Length, p.Ctx, p.Ctx)
	}
	return w, nil
}

// explainFit adds to the error of a run that does not fit what it needs, and what needs less.
func (p *trainCommand) explainFit(err error, search train.FitOptions) error {
	var none *train.FitError
	if !errors.As(err, &none) {
		return fmt.Errorf("--fit %s: %w", p.Fit, p.NameFlags(err))
	}
	least := p.wayOf(none.Fit)
	remedy := "a base model of a smaller type, or --last-layers, needs less"
	switch {
	case !least.recomputes:
		remedy = "without " + keeping + " it needs less"
	case search.KeepLength:
		remedy = "a smaller --ctx needs less; without --ctx, samples are cut to the longest that fits"
	}
	need, has := none.Need, none.Available
	if !p.Fit.IsAuto() {
		need, has = need*unsure/(unsure-1), min(p.Fit.Bytes(), has*unsure/(unsure-1)+unsure)
	}
	const unit = 1 << 20
	return fmt.Errorf("--fit %s: the run needs at least %d MiB of %s (%v), but has %s; %s", p.Fit, need/unit+1, none.Device, least, layout.Bytes(has), remedy)
}

// sizesOf formats sizes with the names of their devices.
func sizesOf(l layout.Layout, sizes layout.Sizes) string {
	var list []string
	for i, name := range devicesOf(l) {
		list = append(list, fmt.Sprintf("%s of %s", layout.Bytes(sizes[i]), name))
	}
	return strings.Join(list, ", ")
}

// devicesOf returns the names of a layout's devices; the last is the CPU.
func devicesOf(l layout.Layout) (names []string) {
	for _, d := range l.Devices {
		if d.Type() != ggml.CPU {
			names = append(names, d.Name())
		}
	}
	return append(names, "CPU")
}

// describePlan describes the run with its flags, in the plan's layout.
func (p *trainCommand) describePlan(to *train.Plan, s *subject, sets *training.Sets, o train.Options) error {
	to.Model, to.Trained, to.Data, to.Options = s.model, train.Trainables{Adapters: s.adapter.WithScale(1)}, sets.Train, o
	if sets.Valid != nil {
		to.Evaluated = []*data.Dataset{sets.Valid}
	}
	if p.program == 0 { // once: later the process has memory that plans have freed
		p.program = max(0, int64(rss.Now())-4*s.adapter.NumParameters()) + atWork
	}
	to.Program = p.program
	return p.describeDevices(to)
}

// describeDevices adds what depends on the devices of the layout.
func (p *trainCommand) describeDevices(to *train.Plan) error {
	e, err := device.New(device.Options{Layout: to.Layout, Threads: p.ThreadCount()})
	if err != nil {
		return err
	}
	defer e.Close()
	if to.Options.ComputeType, err = p.computeType(e, p.computeTypeOfCheckpoint()); err != nil {
		return err
	}
	to.Available = e.AvailableMemory()
	cpu := len(to.Available) - 1
	to.Available[cpu] += int64(rss.Now())
	for i, n := range to.Available {
		switch limit := p.limit(); {
		case p.Fit.IsAuto():
			to.Available[i], to.IsLimit = n/5*4, true
		case limit != "" && !limit.IsAuto():
			to.Available[i], to.IsLimit = min(n, limit.Bytes()/unsure*(unsure-1)), true
		}
	}
	return nil
}

// limit returns the memory of the run: --memory, or --fit, which chooses more.
func (p *trainCommand) limit() cli.Size { return cmp.Or(p.Memory, p.Fit) }

// limitStep sets the memory of a step to what the limit leaves.
func (p *trainCommand) limitStep(devices *placement.Choice, s *subject, sets *training.Sets, o *train.Options) error {
	limit := p.limit()
	if limit == "" || limit.IsAuto() || o.Checkpointing == train.CheckpointingOff && p.Memory == "" {
		return nil
	}
	l, err := p.layout(devices, s, sets, *o)
	if err != nil {
		return err
	}
	planned := train.Plan{Layout: l}
	if err := p.describePlan(&planned, s, sets, *o); err != nil {
		return err
	}
	sampler, err := p.newSampler(s.model, sets.IsChat)
	if err == nil {
		err = sampler.reserve(&planned)
	}
	if err != nil {
		return err
	}
	o.Memory, err = planned.StepMemory()
	debug.FreeOSMemory() // return the memory of the measured graphs to the system
	var none *train.FitError
	if p.Memory == "" || !errors.As(err, &none) {
		return err
	}
	need, remedy := none.Need*unsure/(unsure-1), "--fit "+string(p.Memory)+" also computes fewer samples at a time"
	if o.Checkpointing == train.CheckpointingOff {
		remedy = "without --no-checkpointing it needs less"
	}
	return fmt.Errorf("--memory %s: the run needs at least %d MiB of %s; %s", p.Memory, need>>20+1, none.Device, remedy)
}

// unsure is the fraction of --memory or --fit that stays free, 1/unsure: the error of the estimates.
const unsure = 20

// atWork is the memory outside of tensors that steps add to the process: code, libraries and buffers of
// products.
const atWork = 42 << 20
