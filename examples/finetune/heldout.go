package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"

	"github.com/goggml/ggml/examples/internal/cli"
	"github.com/goggml/ggml/examples/internal/inference"
	"github.com/goggml/ggml/examples/internal/runs"
	"github.com/goggml/ggml/examples/internal/training"
	"github.com/goggml/ggml/llm/data"
	"github.com/goggml/ggml/llm/estimate"
	"github.com/goggml/ggml/llm/model"
	"github.com/goggml/ggml/llm/run"
	"github.com/goggml/ggml/llm/train"
)

// heldOutFlags select the held-out data, for kong.
type heldOutFlags struct {
	Data []string `name:"data" basic:"" aliases:"valid-data,eval-data" needed:"" sep:"none" placeholder:"FILE" help:"Held-out data: text or records, as train takes them; by default the run's. Can be given several times, and each is measured." group:"Data"`
	Max  int      `name:"samples" basic:"" aliases:"valid-samples" range:"-1|[1,)" default:"-1" help:"Samples of each to evaluate, at most, spread evenly; -1 for all." group:"Data"`
	training.TextFlags
	training.RecordFlags

	names  []string // of the data sets that load read
	copies []int    // number of copies that distinct removed, per data set

	encoded []*data.Dataset // what load read, for samples of a length of a model
	forPath string
	length  int
	judge   judge
}

// close closes the data.
func (f *heldOutFlags) close() {
	for _, d := range f.encoded {
		d.Close()
	}
	f.encoded, f.judge = nil, judge{}
}

// measure loads a model and the held-out data, and opens an evaluator. Flags that are not given come from the
// runs.
func (f *heldOutFlags) measure(ctx context.Context, flags *inference.ModelFlags, of []*runs.Run,
	with func(m *inference.Model, e *train.Evaluator, sets []*data.Dataset) error,
) error {
	length := 0
	m, err := flags.Load(func(to *estimate.Memory, m *inference.Model) (err error) {
		if length, err = lengthOf(flags.Ctx, m.Model, of); err != nil {
			return err
		}
		full := data.New(length, []data.Sample{{Tokens: make([]int32, length+1)}})
		return train.AddEvaluationEstimate(to, m.Model, m.Options.Adapters, train.EvaluatorOptions{}, full)
	})
	if err != nil {
		return err
	}
	defer m.Close()
	if err := train.CheckModel(m.Model); err != nil {
		return err
	}
	if length, err = lengthOf(flags.Ctx, m.Model, of); err != nil {
		return err
	}
	sets, err := f.encode(ctx, m.Model, length, of)
	if err != nil {
		return cli.Interrupted(ctx, err, "nothing is lost")
	}
	e, err := train.NewEvaluator(m.Model, train.EvaluatorOptions{Engine: m.Options.Engine})
	if err != nil {
		return err
	}
	defer e.Close()
	return cli.Interrupted(ctx, with(m, e, sets), "nothing is lost")
}

// lengthOf returns the sample length: --ctx, else the run's, else the model's default.
func lengthOf(ctx int, m *model.Model, of []*runs.Run) (int, error) {
	for _, run := range of {
		if run == nil || ctx != 0 {
			continue
		}
		var err error
		if ctx, err = strconv.Atoi(cmp.Or(run.Value("ctx"), "0")); err != nil {
			return 0, fmt.Errorf("%s: ctx: %w", run.Path, err)
		}
	}
	return sampleLength(ctx, m)
}

// encode reads the held-out data in samples of a length, unless it did so for the same model. close closes them.
func (f *heldOutFlags) encode(ctx context.Context, m *model.Model, length int, of []*runs.Run) (_ []*data.Dataset, err error) {
	if f.encoded != nil && cli.SameFile(m.Path, f.forPath) && length == f.length {
		return f.encoded, nil
	}
	f.close()
	f.forPath, f.length = m.Path, length
	f.encoded, err = f.load(ctx, m, length, of)
	return f.encoded, err
}

// load reads the held-out data in samples of a length: the data that flags name, or what the first run held
// out. For a run that prefers answers, the chosen ones are a data set, and all are another, which its loss measures.
func (f *heldOutFlags) load(ctx context.Context, m *model.Model, length int, of []*runs.Run) (sets []*data.Dataset, err error) {
	var loss lossFlags
	for _, run := range of {
		if run == nil || loss.prefers() {
			continue
		}
		if loss, err = lossOf(run); err != nil {
			return nil, err
		}
	}
	all, err := f.loadAll(ctx, m, length, of, loss.answers())
	if err != nil || !loss.prefers() {
		return all, err
	}
	f.judge = judge{lossFlags: loss, judges: map[*data.Dataset]bool{}}
	var names []string
	for i, d := range all {
		chosen, err := d.Preferred()
		if err != nil {
			return append(sets, all[i:]...), err
		}
		sets, names = append(sets, chosen, d), append(names, chosenName(f.names[i]), f.names[i])
		f.judge.judges[d] = true
	}
	f.names = names
	return sets, nil
}

func (f *heldOutFlags) loadAll(ctx context.Context, m *model.Model, length int, of []*runs.Run, answers training.Answers) (sets []*data.Dataset, err error) {
	read := training.DataFlags{Ctx: length, TextFlags: f.TextFlags, RecordFlags: f.RecordFlags, ValidMax: f.Max, Answers: answers}
	paths := f.Data
	if len(paths) == 0 {
		paths = of[0].Paths("valid-data")
	}
	if len(paths) == 0 {
		d, err := f.loadSplit(ctx, m, read, of[0])
		return []*data.Dataset{d}, err
	}
	f.names = paths
	for _, path := range paths {
		d, err := read.LoadHeldOut(ctx, source(m), "--data", path)
		if err != nil {
			return sets, err
		}
		sets = append(sets, d)
	}
	return sets, nil
}

// distinct removes copies from data sets: each sample counts once.
func (f *heldOutFlags) distinct(sets []*data.Dataset) (list []*data.Dataset, err error) {
	f.copies = nil
	for _, d := range sets {
		distinct, err := d.Distinct()
		if err != nil {
			return nil, err
		}
		if f.judge.judges[d] {
			f.judge.judges[distinct] = true
		}
		list, f.copies = append(list, distinct), append(f.copies, d.Len()-distinct.Len())
	}
	return list, nil
}

// loadSplit reads what a run held out of its training data.
func (f *heldOutFlags) loadSplit(ctx context.Context, m *model.Model, read training.DataFlags, of *runs.Run) (*data.Dataset, error) {
	split, err1 := strconv.ParseFloat(cmp.Or(of.Value("valid-split"), "0"), 64)
	seed, err2 := strconv.ParseInt(cmp.Or(of.Value("seed"), "0"), 10, 64)
	if err := errors.Join(err1, err2); err != nil {
		return nil, fmt.Errorf("%s: %w", of.Path, err)
	}
	read.TrainData, read.ValidSplit = of.Paths("train-data"), split
	checkpoint := filepath.Join(of.Path, run.Checkpoint)
	if paths := of.Paths("checkpoint-out"); len(paths) > 0 {
		checkpoint = paths[0]
	}
	d, name, err := read.HeldOut(ctx, source(m), uint64(seed), checkpoint)
	if err != nil {
		return nil, err
	}
	if d == nil {
		return nil, fmt.Errorf("the run in %s has no held-out data; name data with --data", of.Path)
	}
	f.names = []string{name}
	return d, nil
}
