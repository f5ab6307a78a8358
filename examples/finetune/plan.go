package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/goggml/ggml/examples/internal/cli"
	"github.com/goggml/ggml/examples/internal/placement"
	"github.com/goggml/ggml/examples/internal/training"
	"github.com/goggml/ggml/llm/device"
	"github.com/goggml/ggml/llm/estimate"
	"github.com/goggml/ggml/llm/layout"
	"github.com/goggml/ggml/llm/run"
	"github.com/goggml/ggml/llm/train"
)

// defaultProbe is the default duration for which steps are measured.
const defaultProbe = 5 * time.Second

// planCommand reports the memory, files and time of a run.
type planCommand struct {
	trainCommand
	Probe time.Duration `name:"probe" basic:"" range:"[0,)" default:"5s" help:"How long to measure steps, to estimate the time of the run; 0s for no measurement." group:"Report"`
	JSON  bool          `name:"json" basic:"" help:"Write the report as JSON." group:"Report"`
}

// A runPlan is the plan of a run. Sizes are in bytes, times in seconds.
type runPlan struct {
	Devices       []plannedDevice         `json:"devices"`
	Missing       []placement.DeviceLacks `json:"missing_ops"`
	Fits          bool                    `json:"fits"`
	Checkpointing bool                    `json:"gradient_checkpointing"`
	Recomputed    float64                 `json:"recomputed"` // share of the forward pass
	LargestBatch  int                     `json:"largest_batch"`
	LongestSample int                     `json:"longest_ctx"`

	Batch   int `json:"batch"`
	GradAcc int `json:"grad_acc"`
	Ctx     int `json:"ctx"`

	Samples       int   `json:"samples"`
	Rows          int   `json:"rows"`
	Tokens        int   `json:"tokens"`
	RowsOfStep    int   `json:"rows_a_step"`
	Steps         int   `json:"steps"`
	Done          int   `json:"steps_done"` // by a run that is continued
	Parameters    int64 `json:"adapter_parameters"`
	AdapterBytes  int64 `json:"adapter_bytes"`
	RunFilesBytes int64 `json:"run_files_bytes"`

	StepSeconds float64 `json:"step_seconds,omitempty"` // 0 if not measured
	RunSeconds  float64 `json:"run_seconds,omitempty"`
	Timed       timed   `json:"timed,omitzero"`
	noTime      string  // the reason
	multiplier  string  // what computes products on devices

	missing  string // a table
	isPacked bool
	more     bool // larger batches than LargestBatch may fit
}

// timed describes the computation whose time was measured.
type timed struct {
	Layers   int `json:"layers"` // layers of the model
	OfLayers int `json:"of_layers"`
	Rows     int `json:"rows"` // rows of a batch
	OfRows   int `json:"of_rows"`
}

// A plannedDevice is the memory of a device, by use.
type plannedDevice struct {
	Name        string `json:"name"`
	Weights     int64  `json:"weights"`
	Adapter     int64  `json:"adapter"`
	Optimizer   int64  `json:"gradients_and_moments"`
	Step        int64  `json:"results_of_a_step"`
	Evaluations int64  `json:"evaluations"`
	Teacher     int64  `json:"teacher,omitempty"` // that stays open
	Program     int64  `json:"program"`
	All         int64  `json:"all"`
	Available   int64  `json:"available"`
}

// Run writes the plan. It returns an error if the run does not fit.
func (c *planCommand) Run(ctx context.Context, out io.Writer) error {
	return c.plan(ctx, out, c.Probe, c.JSON)
}

// A rehearsal has what a run would begin with, for commands that look at the run and write none of its files.
type rehearsal struct {
	devices *placement.Choice
	subject *subject
	sets    *training.Sets
	options train.Options
	done    int // steps of the run in the folder
}

// rehearse opens what a run would begin with. need says why a run without steps gives the command nothing to look at.
func (p *trainCommand) rehearse(ctx context.Context, need string) (*rehearsal, error) {
	if err := p.check(); err != nil {
		return nil, err
	}
	if p.OnlyWrite {
		return nil, errors.New("--only-write-lora " + need + "; leave it out")
	}
	if err := p.Prepare(p.Log()); err != nil {
		return nil, err
	}
	r := &rehearsal{}
	if err := p.openRehearsal(ctx, r); err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

func (p *trainCommand) openRehearsal(ctx context.Context, r *rehearsal) (err error) {
	if r.done, err = p.lookIntoFolder(); err != nil {
		return err
	}
	if r.devices, err = p.Choose(nil); err != nil {
		return err
	}
	if r.subject, err = p.open(layout.Layout{}); err != nil {
		return err
	}
	if r.sets, err = p.loadToFit(ctx, r.devices, r.subject); err != nil {
		r.sets = nil // closed
		return cli.Interrupted(ctx, err, "nothing is lost")
	}
	r.options, err = p.options(r.sets.Train)
	return err
}

// Close closes the data and the model.
func (r *rehearsal) Close() {
	if r.sets != nil {
		r.sets.Close()
	}
	if r.subject != nil {
		r.subject.Close()
	}
}

// plan reports what the run would need, and writes no files.
func (p *trainCommand) plan(ctx context.Context, out io.Writer, probe time.Duration, asJSON bool) error {
	r, err := p.rehearse(ctx, "trains nothing, so there is nothing to plan")
	if err != nil {
		return err
	}
	defer r.Close()
	defer p.teachers.close()
	if err := p.prepareTeachers(ctx, r.devices, r.subject.model, r.sets); err != nil {
		return err
	}
	plan, planned, err := p.planMemory(r.devices, r.subject, r.sets, r.options)
	if err != nil {
		return err
	}
	plan.Done = min(r.done, plan.Steps)
	switch {
	case probe == 0:
		plan.noTime = "not measured"
	case !plan.Fits:
		plan.noTime = "not measured: the run does not fit"
	default:
		if r.subject, err = p.spreadToProbe(r.subject, planned); err != nil {
			return err
		}
		if err := p.probe(ctx, plan, planned, probe); err != nil {
			return cli.Interrupted(ctx, err, "nothing is lost")
		}
	}
	if asJSON {
		err = json.NewEncoder(out).Encode(plan)
	} else {
		err = plan.write(out)
	}
	return cmp.Or(err, plan.check())
}

// lookIntoFolder uses the token cache and the checkpoint in --run-dir, if there are any, and returns the number
// of steps done. It writes only tokens that the cache lacks.
func (p *trainCommand) lookIntoFolder() (done int, err error) {
	name := "--checkpoint-in"
	if p.RunDir != "" && run.Is(p.RunDir) {
		if p.CheckpointIn == "" {
			p.CheckpointIn, name = filepath.Join(p.RunDir, run.Checkpoint), "the checkpoint"
		}
		p.CacheDir = cmp.Or(p.CacheDir, filepath.Join(p.RunDir, run.Cache))
	}
	if !cli.IsFile(p.CheckpointIn) {
		return 0, nil
	}
	summary, err := train.Summarize(p.CheckpointIn)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", name, err)
	}
	return summary.Steps, nil
}

// planMemory plans everything that needs no measured step.
func (p *trainCommand) planMemory(devices *placement.Choice, s *subject, sets *training.Sets, o train.Options) (*runPlan, *train.Plan, error) {
	l, err := p.layout(devices, s, sets, o)
	if err != nil {
		return nil, nil, err
	}
	planned := &train.Plan{Layout: l}
	if err := p.describePlan(planned, s, sets, o); err != nil {
		return nil, nil, err
	}
	o = planned.Options
	sampler, err := p.newSampler(s.model, sets.IsChat)
	if err != nil {
		return nil, nil, err
	}
	samples, err := sampler.memory(l, planned.Trained.Adapters)
	if err != nil {
		return nil, nil, err
	}
	besideSamples := *planned
	besideSamples.Available = slices.Clone(planned.Available)
	if err := sampler.reserve(&besideSamples); err != nil {
		return nil, nil, err
	}
	memory, checkpointing, err := besideSamples.Memory()
	if err != nil {
		return nil, nil, p.NameFlags(err)
	}
	memory.Evaluations = memory.Evaluations.Plus(samples)
	tutor, err := p.teacherMemory(devices, l, sets)
	if err != nil {
		return nil, nil, err
	}
	for i, n := range tutor {
		planned.Available[i] -= n
	}
	d := sets.Train
	plan := &runPlan{
		Fits: memory.Fits(planned.Available), Checkpointing: checkpointing == train.CheckpointingOn, Recomputed: memory.Recomputed,
		Samples: d.NumSamples(), Rows: d.Len(), Tokens: d.NumTokens(), RowsOfStep: o.Batch * o.Accumulate, Steps: planned.Steps(),
		Parameters: s.adapter.NumParameters(), Batch: p.Batch, GradAcc: p.GradAcc, Ctx: p.Ctx, isPacked: d.IsPacked(),
	}
	plan.Devices = plannedDevices(planned, memory, tutor)
	missing, err := missing(devices, *planned)
	if err != nil {
		return nil, nil, err
	}
	plan.Missing, plan.missing = missing.Devices, missing.String()
	if plan.LargestBatch, plan.more, err = planned.LargestBatch(); err != nil {
		return nil, nil, err
	}
	if p.samplesPerRow() == 1 { // otherwise a row has two samples
		if plan.LongestSample, err = planned.LongestSample(); err != nil {
			return nil, nil, err
		}
	}
	p.planFiles(plan, sets.Valid != nil)
	planned.Options.Checkpointing, planned.Options.Keep = checkpointing, memory.Keep
	return plan, planned, nil
}

// plannedDevices lists the memory of each device; tutor is the teacher's.
func plannedDevices(planned *train.Plan, memory train.MemoryEstimate, tutor []int64) []plannedDevice {
	var list []plannedDevice
	total := memory.Total()
	for i, name := range devicesOf(planned.Layout) {
		list = append(list, plannedDevice{
			Name: name, Weights: memory.Weights[i], Adapter: memory.Adapters[i], Optimizer: memory.Optimizer[i], Step: memory.Step[i],
			Evaluations: memory.Evaluations[i], Teacher: tutor[i], All: total[i] + tutor[i], Available: planned.Available[i] + tutor[i],
		})
	}
	list[len(list)-1].Program = planned.Program
	return list
}

// missing returns the ops of the run that the devices named by flags lack.
func missing(devices *placement.Choice, p train.Plan) (placement.MissingOps, error) {
	needs := estimate.New(devices.Devices()...)
	if !devices.IsCPU() {
		if err := train.AddEstimate(needs, p.Model, p.Trained, p.Data, p.Options, p.Evaluated...); err != nil {
			return placement.MissingOps{}, err
		}
	}
	return devices.Missing(needs), nil
}

// planFiles adds the sizes of the adapter and of all saves that remain.
func (p *trainCommand) planFiles(plan *runPlan, hasValid bool) {
	plan.AdapterBytes = 4 * plan.Parameters
	checkpoint := 3 * plan.AdapterBytes // with the two moments of Adam
	hasFolder := p.RunDir != "" || p.LoRAOut == ""
	if !hasFolder && p.CheckpointOut == "" {
		checkpoint = 0
	}
	saves, kept := 1, 1
	if p.SaveEvery > 0 {
		saves = (plan.Steps + p.SaveEvery - 1) / p.SaveEvery
	}
	switch {
	case p.KeepLast > 0:
		kept = p.KeepLast
	case p.KeepLast < 0 && hasFolder:
		kept = run.Kept
	case p.KeepLast < 0 && strings.Contains(p.LoRAOut, p.PatternFnIt):
		kept = saves
	}
	plan.RunFilesBytes = int64(max(1, min(saves, kept))) * (plan.AdapterBytes + checkpoint)
	if hasValid {
		plan.RunFilesBytes += plan.AdapterBytes // the best adapter
	}
}

// spreadToProbe opens the model and the adapter again if devices hold layers. The layers to be measured are on
// the devices.
func (p *trainCommand) spreadToProbe(s *subject, planned *train.Plan) (*subject, error) {
	if planned.Layout.IsCPU() {
		return s, nil
	}
	l, err := planned.ProbeLayout()
	if err != nil {
		return s, err
	}
	s.Close()
	again, err := p.open(l)
	if err != nil {
		return s, err
	}
	planned.Model, planned.Trained.Adapters = again.model, again.adapter.WithScale(1)
	return again, nil
}

// probe measures steps for a duration.
func (p *trainCommand) probe(ctx context.Context, plan *runPlan, planned *train.Plan, long time.Duration) error {
	e, err := device.New(device.Options{Layout: planned.Model.Layout(), Threads: p.ThreadCount()})
	if err != nil {
		return err
	}
	defer e.Close()
	planned.Options.Engine = e
	if !planned.Layout.IsCPU() {
		if plan.multiplier, err = e.Multiplier(planned.Model.Sizes(), planned.Options.ComputeType); err != nil {
			return err
		}
	}
	took, err := planned.StepTime(ctx, long)
	if errors.Is(err, train.ErrNotMeasured) {
		plan.noTime = fmt.Sprintf("not measured: %v than %v; a longer --probe measures it", err, long)
		return nil
	}
	if err != nil {
		return p.NameFlags(err)
	}
	plan.StepSeconds, plan.Timed = took.Seconds, timed{took.Layers, took.OfLayers, took.Rows, took.OfRows}
	plan.RunSeconds = plan.StepSeconds * float64(plan.Steps-plan.Done)
	if p.MaxTime != nil {
		plan.RunSeconds = min(plan.RunSeconds, p.MaxTime.Seconds())
	}
	return nil
}
