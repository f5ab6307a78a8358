package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"runtime"
	"slices"
	"time"

	"github.com/alecthomas/kong"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/examples/internal/adapters"
	"github.com/goggml/ggml/examples/internal/cli"
	"github.com/goggml/ggml/examples/internal/training"
	"github.com/goggml/ggml/llm/data"
	"github.com/goggml/ggml/llm/distill"
	"github.com/goggml/ggml/llm/layout"
	"github.com/goggml/ggml/llm/lora"
	"github.com/goggml/ggml/llm/model"
	"github.com/goggml/ggml/llm/run"
	"github.com/goggml/ggml/llm/train"
	"github.com/goggml/ggml/llm/weightcache"
)

// defaultContext is the sample length if neither --ctx nor the model sets a smaller one.
const defaultContext = 2048

type trainCommand struct {
	ModelBase string `name:"model-base" setting:"frozen weights" aliases:"model,model-name-or-path,model-name" short:"m" required:"" placeholder:"FILE" help:"GGUF model to adapt; it is not changed." group:"Adapter" basic:""`
	LoRAOut   string `name:"lora-out" placeholder:"FILE" help:"GGUF adapter to write, after each --save-every and at the end; by default adapter.gguf in --run-dir. The best on --valid-data is kept beside it, with -best in its name." group:"Adapter"`
	OnlyWrite bool   `name:"only-write-lora" help:"Write the adapter of --checkpoint-in without training. Give the same adapter flags as its run." group:"Adapter"`
	adapterFlags
	lossFlags
	teacherFlags

	training.Flags
	Config cli.ConfigFile `name:"config" placeholder:"FILE" help:"YAML file with flags by their names; the command line overrules it." group:"Run" basic:""`
	RunDir string         `name:"run-dir" aliases:"output-dir,adapter-path" placeholder:"DIR" help:"Folder of the run: adapter, checkpoint, metrics, loss curve, flags and command lines. The same command continues the run in it. Without it, and without --lora-out, a new run has a new folder in runs, named after model and data." group:"Run" basic:""`

	DryRun    bool `name:"dry-run" help:"Estimate memory, disk space and time of the run, as finetune plan does, without training." group:"Run"`
	Overwrite bool `name:"overwrite-output-dir" help:"Begin a new run: refuse a --run-dir that already holds a run, instead of continuing it." group:"Run"`

	modelFlags
	ComputeType  string   `name:"compute-type" setting:"compute type" aliases:"products" default:"auto" enum:"auto,f32,bf16,f16,int16,i8" help:"Type in which products with the weights of the model are computed, auto, f32, bf16, f16, int16 or i8: bf16 rounds, and is several times as fast with oneDNN and AMX, or the AVX512-BF16 of AMD; f16 rounds too, and is nearly twice as fast with oneMKL and AVX512-FP16; int16 multiplies in 16-bit integers, which round a tenth as much as bf16; i8 multiplies gradients in 8-bit integers where the processor has VNNI, and forward in bf16 where that is fast, else in 16-bit integers. auto takes what the run that is continued took; else, on the CPU, bf16 or f16 where that is fast, or int16, or f32 without AVX2; and on other devices bf16 if they support it." group:"Computing"`
	CheckCompute bool     `name:"check-compute" help:"Print, instead of training, the cosine between the gradient of each matrix in --compute-type and in f32, for the next step." group:"Computing"`
	Memory       cli.Size `name:"memory" xor:"memory" placeholder:"SIZE" help:"Memory that the run may take on each device, such as 6GiB; on the CPU it is the memory of the process, including mapped weights. What does not fit of a step's results is computed again in the backward pass: the less memory, the slower, but no byte of the run changes. By default, and with auto, a step may take four fifths of the free memory." group:"Computing" basic:""`
	Fit          cli.Size `name:"fit" xor:"memory" placeholder:"SIZE" help:"Like --memory, but the run also chooses how many of the --batch times --grad-acc samples of a step are computed at a time, at most a given --batch, and cuts samples if a single one does not fit and --ctx is not given. auto stands for four fifths of the free memory. The choice is printed, and stays the same when the run continues; by default --fit is off." group:"Computing" basic:""`
	NoRepack     bool     `name:"no-repack" setting:"weight copies" help:"Do not cache copies of the weights, in the compute type and transposed, in the free memory of devices. Weights are then converted for each product: slower, in less memory." group:"Computing"`

	EvalData  []string         `name:"eval-data" sep:"none" placeholder:"FILE" help:"More held-out text, such as of another domain: its loss is reported before and after. Can be given several times." group:"Report"`
	Dashboard dashboardAddress `name:"dashboard" placeholder:"HOST:PORT" help:"Show this run, and the runs beside it, in a browser while it trains. Without a value: any free port, on this machine alone. An address that other machines reach requires a token, which is printed with it." group:"Report" basic:""`
	Prompt    string           `name:"sample-prompt" placeholder:"TEXT" help:"Show the model's answer to this prompt before, at each evaluation and after, or its continuation if text is trained; by default nothing is shown." group:"Report" basic:""`
	Predict   int              `name:"sample-predict" range:"[-1,2147483647]" default:"60" help:"Tokens of the sample, at most; -1 for up to the end of the context." group:"Report"`

	flags   []*kong.Flag    // all flags of the command
	program int64           // memory of the process itself, see train.Plan
	given   map[string]bool // set on the command line or in the file of --config

	keepsLength bool // samples are as long as --ctx says, even with --fit

	teachers teachers // open during training with --on-policy

	answers       *distill.OnPolicy // of the student; nil without --on-policy
	longestAnswer int               // tokens with the prompt
}

// Run trains, or reports what training would need.
func (p *trainCommand) Run(ctx context.Context, out io.Writer) error {
	if p.DryRun {
		return cli.Alone(func(ctx context.Context, out io.Writer) error {
			return p.plan(ctx, out, defaultProbe, false)
		})(ctx, out)
	}
	if p.CheckCompute {
		return cli.Alone(p.checkCompute)(ctx, out)
	}
	ctx, err := p.Join(ctx, &p.LoRAOut)
	if err == nil {
		err = p.run(ctx, out)
	}
	return p.Leave(err)
}

func (p *trainCommand) run(ctx context.Context, out io.Writer) error {
	if p.OnlyWrite && p.Group().Size() > 1 {
		return errors.New("--only-write-lora trains nothing: start it without mpirun, in one process")
	}
	folder, err := p.openFolder()
	if err != nil {
		return err
	}
	defer folder.Close()
	if err := p.check(); err != nil {
		return err
	}
	out = cli.Aside(out, p.LoRAOut, p.Metrics)
	locks, err := p.TakeOutputs(append(p.inputs(), cli.File{Flag: "--config", Path: string(p.Config)}), p.result())
	if err != nil {
		return err
	}
	defer locks.Close()
	devices, err := p.Begin(ctx, &p.DeviceFlags)
	if err != nil {
		return err
	}
	s, err := p.open(layout.Layout{})
	if err != nil {
		return err
	}
	defer func() { s.Close() }()
	if p.LoRAIn != "" {
		adapters.PrintNotices("--lora-in", s.adapter)
	}
	if p.OnlyWrite {
		return p.onlyWrite(s.adapter, out)
	}
	if err := folder.Check(&p.Flags, p.inputs()); err != nil {
		return err
	}
	sets, err := p.loadToFit(ctx, devices, s)
	if err != nil {
		return cli.Interrupted(ctx, err, "nothing was trained yet, and nothing is lost")
	}
	defer sets.Close()
	if err := p.teach(ctx, devices, s.model, sets); err != nil {
		return cli.Interrupted(ctx, err, "nothing was trained yet; the same command continues with the teacher's scores that are in the cache")
	}
	defer p.teachers.close()
	options, err := p.options(sets.Train)
	if err != nil {
		return err
	}
	if err := p.limitStep(devices, s, sets, &options); err != nil {
		return err
	}
	if s, err = p.spread(devices, s, sets, options); err != nil {
		return err
	}
	return p.train(ctx, out, s, sets, options, folder)
}

// openFolder opens the folder of the run, in which outputs lie that no flag names. If no flag names an output, it creates one.
func (p *trainCommand) openFolder() (folder *training.RunFolder, err error) {
	if !p.Group().Writes() || p.RunDir != "" || p.LoRAOut != "" || p.OnlyWrite || len(p.TrainData) == 0 {
		folder, err = p.OpenRunFolder(p.RunDir)
	} else if folder, err = training.OpenOwnFolder(p.ModelBase, p.TrainData[0]); err == nil {
		p.RunDir = folder.Path
	}
	if err != nil {
		return nil, err
	}
	if err := folder.Place(&p.Flags, training.Output{Flag: "lora-out", What: "adapter", Path: &p.LoRAOut, Name: run.Adapter}); err != nil {
		folder.Close()
		return nil, err
	}
	return folder, nil
}

// check reports missing and contradictory flags before anything is read.
func (p *trainCommand) check() error {
	switch {
	case p.OnlyWrite && p.LoRAOut == "":
		return errors.New("missing flags: --lora-out=FILE, or --run-dir=DIR to write into the folder of the run")
	case p.OnlyWrite && p.CheckpointIn == "":
		return errors.New("--only-write-lora needs --run-dir or --checkpoint-in, which hold the adapter")
	case p.Overwrite && cli.IsFile(p.CheckpointIn):
		return fmt.Errorf("--overwrite-output-dir: %s already holds a run, which would continue; remove the folder, or name another", cmp.Or(p.RunDir, p.CheckpointIn))
	case !p.OnlyWrite && len(p.TrainData) == 0:
		return errors.New("missing flags: --train-data=FILE")
	case math.IsInf(float64(float32(p.Rate*p.LoRAPlus)), 0):
		return fmt.Errorf("--lora-plus %v with --adam-alpha %v: their product, the learning rate of B, overflows; lower one of them", p.LoRAPlus, p.Rate)
	}
	return cmp.Or(p.adapterFlags.check(p.given), p.checkTeacher(), p.checkLoss())
}

// result returns the adapter file to write.
func (p *trainCommand) result() run.SavedFile { return p.Result(p.Named("lora-out"), p.LoRAOut) }

// inputs returns the input files, without the files of training.Flags.
func (p *trainCommand) inputs() []cli.File {
	list := []cli.File{{Flag: "--model-base", Path: p.ModelBase}, {Flag: "--lora-in", Path: p.LoRAIn}, {Flag: "--ref-lora", Path: p.RefLoRA}}
	list = append(list, p.teachers.files()...)
	for _, path := range p.EvalData {
		list = append(list, cli.File{Flag: "--eval-data", Path: path})
	}
	return list
}

// flagsInEffect returns the flags that other flags do not disable.
func (p *trainCommand) flagsInEffect() []*kong.Flag {
	return slices.DeleteFunc(slices.Clone(p.flags), func(f *kong.Flag) bool {
		return p.LoRAIn != "" && p.describesNew(f.Name)
	})
}

// resolved returns the values that the run chose for flags that leave a choice.
func (p *trainCommand) resolved(rows, steps int, computeType ggml.Type) map[string]cli.Resolved {
	resolved := p.Flags.Resolved(rows, steps)
	maps.Copy(resolved, p.adapterFlags.resolved())
	resolved["fit"] = cli.Resolved{} // replaced by what it chose
	resolved["compute-type"] = cli.Resolved{Value: computeTypeName(computeType)}
	return resolved
}

// onlyWrite writes the adapter of a checkpoint, without training.
func (p *trainCommand) onlyWrite(a *lora.Adapter, out io.Writer) error {
	var params []*ggml.Tensor
	for _, pair := range a.Pairs() {
		params = append(params, pair.A, pair.B)
	}
	if err := train.LoadParameters(p.CheckpointIn, params); err != nil {
		return fmt.Errorf("%s: %w", p.Named("checkpoint-in"), err)
	}
	path := p.result().LatestPath()
	if err := p.save(a)(path); err != nil {
		return fmt.Errorf("%s: %w", p.Named("lora-out"), err)
	}
	_, err := fmt.Fprintf(out, "adapter: %s\n", path)
	return err
}

func (p *trainCommand) save(a *lora.Adapter) func(path string) error {
	return func(path string) error { return a.Save(path, lora.SaveOptions{}) }
}

// options returns the trainer's options, without its engine.
func (p *trainCommand) options(d *data.Dataset) (train.Options, error) {
	o, err := p.Options(d.Len())
	if err != nil {
		return o, err
	}
	if err := p.measureAnswers(d); err != nil {
		return o, err
	}
	o.Loss, err = p.plannedLoss()
	o.LoRAPlus, o.Dropout, o.NEFTune = p.LoRAPlus, p.Dropout, p.NEFTune
	if p.limit() != "" && !p.given["use-checkpointing"] && !p.given["no-checkpointing"] {
		o.Checkpointing = train.CheckpointingAuto // by the memory that --fit leaves
	}
	if none := weightcache.None; p.NoRepack {
		o.WeightCopies = &none
	}
	return o, err
}

func (p *trainCommand) train(ctx context.Context, out io.Writer, s *subject, sets *training.Sets, options train.Options, folder *training.RunFolder) error {
	m, adapter, trained, valid := s.model, s.adapter, sets.Train, sets.Valid
	e, err := p.openEngine(ctx, m, &options)
	if err != nil {
		return err
	}
	defer e.Close()
	multiplier, err := e.Multiplier(m.Sizes(), options.ComputeType)
	if err != nil {
		return err
	}
	peak, err := p.measurePeak(ctx, e, m.Config(), trained, options) // in memory that the trainer uses later
	if err != nil {
		return cli.Interrupted(ctx, err, "nothing was trained yet, and nothing is lost")
	}
	if err := p.answerItself(s, e, trained); err != nil {
		return err
	}
	if options.Loss, err = p.loss(ctx, e, m, sets, options.ComputeType); err != nil {
		return cli.Interrupted(ctx, err, "nothing was trained yet, and nothing is lost")
	}
	t, err := p.NewTrainer(m, train.Trainables{Adapters: adapter.WithScale(1)}, trained, options)
	if err != nil {
		return err
	}
	defer t.Close()
	if err := p.Resume(ctx, p.Log(), t, p.flags); err != nil {
		return err
	}
	if err := t.CheckGroup(ctx); err != nil {
		return err
	}
	err = folder.Describe(training.Description{
		Flags: p.flagsInEffect(), Resolved: p.resolved(trained.Len(), t.TotalSteps(), options.ComputeType),
		Steps: t.TotalSteps(), Result: p.result(), Metrics: p.Metrics,
	})
	if err != nil {
		return err
	}
	if where := folder.Name(); where != "" {
		fmt.Fprintln(p.Log(), where)
	}
	stop, err := p.serveDashboard(ctx, folder)
	if err != nil {
		return err
	}
	defer stop()
	p.describe(s, trained, t, options, multiplier)
	r, err := p.newReport(ctx, e, m, adapter, sets)
	if err != nil {
		return err
	}
	return p.trainAndReport(ctx, out, trainingRun{trainer: t, valid: valid, report: r, peak: peak, folder: folder, computeType: options.ComputeType})
}

// describe writes what is trained, and how.
func (p *trainCommand) describe(s *subject, trained *data.Dataset, t *train.Trainer, options train.Options, multiplier string) {
	fmt.Fprintf(p.Log(), "model: %s, %.1f M parameters; adapter: %d parameters; data: %s; %s\n",
		s.model.Config().Name, float64(s.model.Config().NumParameters())/1e6, s.adapter.NumParameters(), training.DescribeRows(trained), cli.Count(t.TotalSteps(), "step"))
	if p.isTaught() {
		fmt.Fprintf(p.Log(), "loss: %s\n", options.Loss.Name)
	}
	if p.prefers() {
		fmt.Fprintf(p.Log(), "loss: %s; answers of a pair %s\n", options.Loss.Name, map[bool]string{true: "share its prompt", false: "repeat its prompt"}[t.SharesPrompts()])
	}
	fmt.Fprintf(p.Log(), "compute type: %s, GEMM by %s\n", computeTypeName(options.ComputeType), multiplier)
	if kept := t.WeightCopies(); kept != "" {
		fmt.Fprintf(p.Log(), "weight copies: %s\n", kept)
	}
}

// A trainingRun is a trainer with what follows its steps.
type trainingRun struct {
	trainer     *train.Trainer
	valid       *data.Dataset
	report      *report
	peak        measuredPeak
	folder      *training.RunFolder
	computeType ggml.Type
}

// trainAndReport trains to the end, and measures, samples and describes the adapter before and after.
func (p *trainCommand) trainAndReport(ctx context.Context, out io.Writer, o trainingRun) error {
	t, r, folder := o.trainer, o.report, o.folder
	runtime.LockOSThread() // malloc keeps freed memory for the thread that used it: samples would leave some with each thread
	defer runtime.UnlockOSThread()
	if err := r.measure(ctx, 0); err != nil {
		return cli.Interrupted(ctx, err, "nothing was trained yet, and nothing is lost")
	}
	if err := r.writeSample(folder, run.Sample{Prompt: p.Prompt, Text: r.samples[0]}, t.Steps()); err != nil {
		return err
	}
	result := training.Result{
		SavedFile: p.result(), Write: p.save(r.adapter), Peak: o.peak.at, Ended: folder.End, Note: p.generating(),
		Evaluated: func(step int) string { return r.sampleAfter(ctx, folder, step) },
	}
	began := time.Now()
	if err := p.Flags.Run(ctx, p.Log(), t, o.valid, result); err != nil {
		return err
	}
	p.describeAnswers(time.Since(began))
	t.Close() // the report may need its memory
	if err := r.measure(ctx, t.Steps()); err != nil {
		return cli.Interrupted(ctx, err, fmt.Sprintf("the adapter in %s is complete; only the report is missing", p.result().LatestPath()))
	}
	if n := len(t.Evaluations); n > 0 && t.Evaluations[n-1].Rewards != nil {
		r.texts = append(r.texts, heldOut{path: r.validName, before: t.Evaluations[0], after: t.Evaluations[n-1]})
	}
	if best, ok := t.Best(); ok && best.Step > 0 && best.Step < t.Steps() {
		r.best = &best
	}
	if !p.Group().Writes() {
		return nil
	}
	if t.Steps() > 0 { // without a step it is the base model
		if err := r.writeSample(folder, run.Sample{Step: t.Steps(), Prompt: p.Prompt, Text: r.samples[1]}, t.Steps()); err != nil {
			return err
		}
	}
	compute := fmt.Sprintf("%s, %s, compute type %v", r.m.Layout(), p.describeThreads(), o.computeType)
	if err := r.writeCard(folder, t, compute); err != nil {
		return fmt.Errorf("the run is complete and its result is saved, but %s could not be written: %w", run.Card, err)
	}
	return r.print(out)
}

// describeThreads describes the number of threads.
func (p *trainCommand) describeThreads() string {
	text := cli.Count(cmp.Or(p.ThreadCount(), ggml.DefaultThreads()), "thread")
	if n := p.Group().Size(); n > 1 {
		text += fmt.Sprintf(" in each of %d processes", n)
	}
	return text
}

// loadData reads the data as samples for the model.
func (p *trainCommand) loadData(ctx context.Context, m *model.Model) (_ *training.Sets, err error) {
	if err := train.CheckModel(m); err != nil {
		return nil, err
	}
	if err := checkVocabulary(m); err != nil {
		return nil, err
	}
	if p.Ctx, err = sampleLength(p.Ctx, m); err != nil {
		return nil, err
	}
	return p.Load(ctx, source(m))
}

// checkVocabulary requires that the model's file has a vocabulary.
func checkVocabulary(m *model.Model) error {
	if m.Tokenizer == nil {
		return fmt.Errorf("%s has no vocabulary, so text cannot be turned into tokens", m.Path)
	}
	return nil
}

// sampleLength returns the sample length for a model and a value of --ctx.
func sampleLength(ctx int, m *model.Model) (int, error) {
	switch {
	case ctx == 0:
		return min(defaultContext, m.Config().Context), nil
	case ctx > m.Config().Context:
		return 0, fmt.Errorf("--ctx %d exceeds the %s that %s was trained on", ctx, cli.Count(m.Config().Context, "position"), m.Path)
	}
	return ctx, nil
}

// source returns what reading data needs to know about the model.
func source(m *model.Model) training.Source {
	return training.Source{Path: m.Path, Tokenizer: m.Tokenizer, Context: m.Config().Context}
}
