package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/goggml/ggml/examples/internal/cli"
	"github.com/goggml/ggml/examples/internal/placement"
	"github.com/goggml/ggml/examples/internal/training"
	"github.com/goggml/ggml/llm/data"
	"github.com/goggml/ggml/llm/device"
	"github.com/goggml/ggml/llm/run"
	"github.com/goggml/ggml/llm/train"
)

// defaultProbe is how long steps are measured where nothing says it.
const defaultProbe = 5 * time.Second

// planCommand says what a run would take, before it.
type planCommand struct {
	trainCommand
	Probe time.Duration `name:"probe" basic:"" range:"[0,)" default:"5s" help:"How long steps are measured, for the time of the run; 0s for no measurement." group:"Report"`
	JSON  bool          `name:"json" basic:"" help:"Write the report as JSON." group:"Report"`
}

// A runPlan is what a run would take. Sizes are in bytes, times in seconds.
type runPlan struct {
	Devices       []plannedDevice `json:"devices"`
	Missing       []missingOps    `json:"missing_ops"`
	Fits          bool            `json:"fits"`
	Checkpointing bool            `json:"gradient_checkpointing"`
	LargestBatch  int             `json:"largest_batch"`
	LongestSample int             `json:"longest_ctx"`

	Samples       int   `json:"samples"`
	Rows          int   `json:"rows"`
	Tokens        int   `json:"tokens"`
	RowsOfStep    int   `json:"rows_a_step"`
	Steps         int   `json:"steps"`
	Parameters    int64 `json:"adapter_parameters"`
	AdapterBytes  int64 `json:"adapter_bytes"`
	RunFilesBytes int64 `json:"run_files_bytes"`

	StepSeconds float64 `json:"step_seconds,omitempty"` // 0 where it was not measured
	RunSeconds  float64 `json:"run_seconds,omitempty"`
	noTime      string  // why it was not

	batch, ctx int // of the flags
	isPacked   bool
}

// A plannedDevice is the memory of a device, by what takes it.
type plannedDevice struct {
	Name        string `json:"name"`
	Weights     int64  `json:"weights"`
	Adapter     int64  `json:"adapter"`
	Optimizer   int64  `json:"gradients_and_moments"`
	Step        int64  `json:"results_of_a_step"`
	Evaluations int64  `json:"evaluations"`
	All         int64  `json:"all"`
	Available   int64  `json:"available"`
}

// missingOps are the ops of the run that a device lacks.
type missingOps struct {
	Device string   `json:"device"`
	Ops    []string `json:"ops"`
}

// Run writes the plan. It fails where the run does not fit.
func (c *planCommand) Run(ctx context.Context, out io.Writer) error {
	return c.plan(ctx, out, c.Probe, c.JSON)
}

// plan says what the run would take, and makes nothing of it.
func (p *trainCommand) plan(ctx context.Context, out io.Writer, probe time.Duration, asJSON bool) error {
	if err := p.check(); err != nil {
		return err
	}
	if p.OnlyWrite {
		return errors.New("--only-write-lora trains nothing, so there is nothing to plan; leave it out")
	}
	if err := p.Prepare(p.Log()); err != nil {
		return err
	}
	devices, err := p.Choose(nil)
	if err != nil {
		return err
	}
	s, err := p.open(device.Layout{})
	if err != nil {
		return err
	}
	defer func() { s.Close() }()
	sets, err := p.loadData(ctx, s.model)
	if err != nil {
		return cli.Interrupted(ctx, err, "nothing is lost")
	}
	defer sets.Close()
	options, err := p.options(sets.Train)
	if err != nil {
		return err
	}
	plan, layout, err := p.planMemory(devices, s, sets, options)
	if err != nil {
		return err
	}
	switch {
	case probe == 0:
		plan.noTime = "not measured"
	case !plan.Fits:
		plan.noTime = "not measured: the run does not fit"
	default:
		if !layout.IsCPU() {
			s.Close()
			again, err := p.open(layout)
			if err != nil {
				return err
			}
			s = again
		}
		if err := p.probe(ctx, plan, s, sets.Train, options, probe); err != nil {
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

// planMemory says all that needs no step.
func (p *trainCommand) planMemory(devices *placement.Choice, s *subject, sets *training.Sets, o train.Options) (*runPlan, device.Layout, error) {
	trained := train.Trainables{Adapters: s.adapter.WithScale(1)}
	l, err := p.layout(devices, s, sets, o)
	if err != nil {
		return nil, l, err
	}
	e, err := device.New(device.Options{Layout: l, Threads: p.ThreadCount()})
	if err != nil {
		return nil, l, err
	}
	defer e.Close()
	if o.ComputeType, err = p.computeType(e); err != nil {
		return nil, l, err
	}
	prospect := train.Prospect{Layout: l, Model: s.model, Trained: trained, Data: sets.Train, Options: o, Available: e.AvailableMemory()}
	if sets.Valid != nil {
		prospect.Evaluated = []*data.Dataset{sets.Valid}
	}
	memory, checkpointing, err := prospect.Memory()
	if err != nil {
		return nil, l, p.NameFlags(err)
	}
	d := sets.Train
	plan := &runPlan{
		Fits: memory.Fits(prospect.Available), Checkpointing: checkpointing == train.CheckpointingOn, Missing: []missingOps{},
		Samples: d.NumSamples(), Rows: d.Len(), Tokens: d.NumTokens(), RowsOfStep: o.Batch * o.Accumulate, Steps: prospect.Steps(),
		Parameters: s.adapter.NumParameters(), batch: p.Batch, ctx: p.Ctx, isPacked: d.IsPacked(),
	}
	total := memory.Total()
	for i, d := range e.Devices() {
		plan.Devices = append(plan.Devices, plannedDevice{
			Name: d.Name(), Weights: memory.Weights[i], Adapter: memory.Adapters[i], Optimizer: memory.Optimizer[i], Step: memory.Step[i],
			Evaluations: memory.Evaluations[i], All: total[i], Available: prospect.Available[i],
		})
	}
	if plan.Missing, err = missing(devices, prospect); err != nil {
		return nil, l, err
	}
	if plan.LargestBatch, err = prospect.LargestBatch(); err != nil {
		return nil, l, err
	}
	if plan.LongestSample, err = prospect.LongestSample(); err != nil {
		return nil, l, err
	}
	p.planFiles(plan, sets.Valid != nil)
	return plan, l, nil
}

// missing are the ops of the run that the devices lack which flags name.
func missing(devices *placement.Choice, p train.Prospect) ([]missingOps, error) {
	list := []missingOps{}
	if devices.IsCPU() {
		return list, nil
	}
	demand := device.NewDemand(devices.Devices()...)
	if err := train.AddDemand(demand, p.Model, p.Trained, p.Data, p.Options, p.Evaluated...); err != nil {
		return nil, err
	}
	for _, d := range devices.Devices() {
		if ops := demand.Lacks(d); len(ops) > 0 {
			list = append(list, missingOps{d.Name(), ops})
		}
	}
	return list, nil
}

// planFiles adds the sizes of the adapter, and of all saves that stay.
func (p *trainCommand) planFiles(plan *runPlan, hasValid bool) {
	plan.AdapterBytes = 4 * plan.Parameters
	checkpoint := 3 * plan.AdapterBytes // with two moments
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
		plan.RunFilesBytes += plan.AdapterBytes // the best one
	}
}

// probed is how many batches are measured at most.
const probed = 16

// probe measures steps of one batch, of which the first warms up, for as long as it says at most.
func (p *trainCommand) probe(ctx context.Context, plan *runPlan, s *subject, d *data.Dataset, o train.Options, long time.Duration) error {
	e, err := device.New(device.Options{Layout: s.model.Layout(), Threads: p.ThreadCount()})
	if err != nil {
		return err
	}
	defer e.Close()
	o.Engine = e
	if o.ComputeType, err = p.computeType(e); err != nil {
		return err
	}
	o.Batch = min(o.Batch, max(1, o.Epochs)*d.Len())
	o.Accumulate, o.Epochs, o.Schedule.Steps, o.DataOrigin = 1, 0, 1<<20, nil
	t, err := p.NewTrainer(s.model, train.Trainables{Adapters: s.adapter.WithScale(1)}, d, o)
	if err != nil {
		return err
	}
	defer t.Close()
	within, stop := context.WithTimeout(ctx, long)
	defer stop()
	var took time.Duration
	tokens := 0
	for n := 0; ; n++ {
		began := time.Now()
		m, err := t.Step(within)
		switch {
		case err != nil && (within.Err() == nil || ctx.Err() != nil):
			return err
		case err != nil && tokens == 0:
			plan.noTime = fmt.Sprintf("not measured: two batches take longer than %v; a longer --probe measures it", long)
			return nil
		case err != nil || n > probed:
			rows := float64(d.NumTokens()-d.NumSamples()) / float64(d.Len()) // tokens that are predicted
			plan.StepSeconds = took.Seconds() / float64(tokens) * rows * float64(min(plan.RowsOfStep, max(1, p.Epochs)*d.Len()))
			plan.RunSeconds = plan.StepSeconds * float64(plan.Steps)
			if p.MaxTime != nil {
				plan.RunSeconds = min(plan.RunSeconds, p.MaxTime.Seconds())
			}
			return nil
		case n > 0:
			took += time.Since(began)
			tokens += m.RowTokens
		}
	}
}

// check says that the run does not fit, and what to do.
func (r *runPlan) check() error {
	if r.Fits {
		return nil
	}
	for _, d := range r.Devices {
		if d.All <= d.Available {
			continue
		}
		remedy := "a smaller model, or fewer layers on the device"
		switch {
		case r.LargestBatch > 0 && r.LargestBatch < r.batch:
			remedy = fmt.Sprintf("--batch %d fits, with a larger --grad-acc for as many samples a step", r.LargestBatch)
		case r.LargestBatch >= r.batch:
			remedy = "--use-checkpointing fits"
		case r.LongestSample > 0 && r.LongestSample < r.ctx:
			remedy = fmt.Sprintf("--ctx %d fits", r.LongestSample)
		}
		return fmt.Errorf("the run does not fit: it takes %s of %s, which has %s available; %s", device.Bytes(d.All), d.Name, device.Bytes(d.Available), remedy)
	}
	return nil
}

func (r *runPlan) write(w io.Writer) error {
	var b strings.Builder
	row := func(name string, of func(plannedDevice) string) {
		fmt.Fprintf(&b, "%-24s", name)
		for _, d := range r.Devices {
			fmt.Fprintf(&b, " %12s", of(d))
		}
		b.WriteByte('\n')
	}
	row("memory", func(d plannedDevice) string { return d.Name })
	for _, part := range []struct {
		name string
		of   func(plannedDevice) int64
	}{
		{"weights", func(d plannedDevice) int64 { return d.Weights }},
		{"adapter", func(d plannedDevice) int64 { return d.Adapter }},
		{"gradients and moments", func(d plannedDevice) int64 { return d.Optimizer }},
		{"results of a step", func(d plannedDevice) int64 { return d.Step }},
		{"evaluations", func(d plannedDevice) int64 { return d.Evaluations }},
		{"all", func(d plannedDevice) int64 { return d.All }},
		{"available", func(d plannedDevice) int64 { return d.Available }},
	} {
		row(part.name, func(d plannedDevice) string { return device.Bytes(part.of(d)) })
	}
	b.WriteByte('\n')
	if len(r.Missing) > 0 {
		fmt.Fprintf(&b, "%-24s %s\n", "missing on", "ops, which the CPU computes, with copies to and from it; a newer plugin may have them")
		for _, m := range r.Missing {
			fmt.Fprintf(&b, "%-24s %s\n", m.Device, strings.Join(m.Ops, ", "))
		}
		b.WriteByte('\n')
	}
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%-24s %s\n", name, fmt.Sprintf(format, args...))
	}
	line("fits", "%s, %s", map[bool]string{true: "yes", false: "no"}[r.Fits], map[bool]string{true: "with gradient checkpointing", false: "without gradient checkpointing"}[r.Checkpointing])
	more := ""
	if r.LargestBatch == train.MostPlannedRows {
		more = " or more"
	}
	line("largest that fits", "--batch %d%s, or with --batch %d --ctx %d", r.LargestBatch, more, r.batch, r.LongestSample)
	if r.isPacked {
		line("data", "%s of %s in %s", cli.Count(r.Samples, "sample"), cli.Count(r.Tokens, "token"), cli.Count(r.Rows, "row"))
	} else {
		line("data", "%s of %s", cli.Count(r.Samples, "sample"), cli.Count(r.Tokens, "token"))
	}
	line("run", "%s of %s", cli.Count(r.Steps, "step"), cli.Count(r.RowsOfStep, "row"))
	line("adapter", "%s, %s", cli.Count(int(r.Parameters), "parameter"), device.Bytes(r.AdapterBytes))
	line("files of the run", "%s, without the cache of tokens", device.Bytes(r.RunFilesBytes))
	if r.noTime != "" {
		line("time", "%s", r.noTime)
	} else {
		line("time", "%s a step, %s for all steps; evaluations come on top", seconds(r.StepSeconds), seconds(r.RunSeconds))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// seconds writes a time with about three digits.
func seconds(s float64) string {
	d := time.Duration(s * float64(time.Second))
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%.3g s", s)
	case d < time.Hour:
		return d.Round(time.Second).String()
	}
	return strings.TrimSuffix(d.Round(time.Minute).String(), "0s")
}
