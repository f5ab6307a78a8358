package training

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/goggml/ggml/examples/internal/cli"
	"github.com/goggml/ggml/examples/internal/parquet"
	"github.com/goggml/ggml/examples/internal/progress"
	"github.com/goggml/ggml/llm/chat"
	"github.com/goggml/ggml/llm/data"
	"github.com/goggml/ggml/llm/tokenizer"
)

// DataFlags select the training data.
type DataFlags struct {
	TrainData    []string `name:"train-data" setting:"data" aliases:"data,dataset-name,local-dataset" sep:"none" placeholder:"FILE" help:"What to train on: text, or records as JSON lines, Parquet or CSV (messages, conversations, instructions, prompts with completions, texts); a file, a folder with train, valid and test, a pattern, or - for standard input. May be given several times: texts one after the other are one text." group:"Data" basic:""`
	ValidData    string   `name:"valid-data" aliases:"eval-dataset" placeholder:"FILE" help:"Held-out data, whose loss is reported during the run; by default the split valid of a folder of --train-data." group:"Data" basic:""`
	ValidSplit   float64  `name:"valid-split" range:"[0,1)" default:"0" help:"Fraction of the training data to hold out instead of --valid-data, such as 0.05; 0 for none. Copies of a record stay on one side." group:"Data" basic:""`
	ValidMax     int      `name:"valid-samples" range:"-1|[1,)" default:"64" help:"Held-out samples to evaluate, at most, spread evenly; -1 for all." group:"Data"`
	ValidBatches *int     `name:"valid-batches" aliases:"val-batches" range:"-1|[1,65536]" placeholder:"N" help:"Held-out samples to evaluate, at most, in batches of --batch samples; -1 for all. It replaces --valid-samples." group:"Data"`
	MaxSamples   int      `name:"max-samples" range:"-1|[1,)" default:"-1" unset:"-1" help:"Train on only the first records, at most this many; -1 for all." group:"Data"`
	Ctx          int      `name:"ctx" setting:"sample length" aliases:"max-seq-length,max-length,cutoff-len,model-max-length" range:"[0,2147483647]" short:"c" default:"${ctx}" help:"Tokens of a sample, at most${ctx_why}." group:"Data" basic:""`
	TextFlags
	RecordFlags
	RowFlags
	ShowSample bool   `name:"show-sample" default:"true" negatable:"" help:"Show the first sample of records, with its trained parts marked." group:"Data"`
	CacheDir   string `name:"cache-dir" placeholder:"DIR" help:"Folder that keeps the tokens of the data, and the log-probabilities of a reference, for the next start; by default cache in --run-dir, else they are not kept." group:"Data"`

	offsetSeed uint64      // seed of --sample-random-offsets, see Flags.Prepare
	splits     data.Splits // the files of TrainData, once its folders were listed
	hashes     data.Hashes
	splitByRow bool // the resumed run may have copies of a row on both sides of --valid-split
	quiet      bool // another process prints the reports

	Answers  Answers  `kong:"-"`
	Teachers []string `kong:"-"` // that records may name
}

// Answers selects the records that a loss of preferences reads, see [data.LoadOptions]; other losses leave it empty.
type Answers struct{ Pairs, Labels, Mismatched bool }

// TextFlags are the flags that turn text into samples.
type TextFlags struct {
	SampleStart        string `name:"sample-start" run:"" placeholder:"STRING" help:"Start a sample wherever this string occurs; without it samples follow each other through the text." group:"Text"`
	IncludeSampleStart bool   `name:"include-sample-start" run:"" help:"Keep the --sample-start string in the samples." group:"Text"`
	Escape             bool   `name:"escape" run:"" help:"Interpret \\n, \\t, \\\\ and the like in --sample-start." group:"Text"`
	Overlapping        bool   `name:"overlapping-samples" run:"" help:"Let a sample that is shorter than --ctx continue past the start of the next." group:"Text"`
	RandomOffsets      bool   `name:"sample-random-offsets" run:"" help:"Begin samples at random offsets, which --seed decides; combine with --fill-with-next-samples for continuous text." group:"Text"`
	FillWithNext       bool   `name:"fill-with-next-samples" run:"" help:"Fill a sample that is shorter than --ctx with the samples that follow." group:"Text"`
	SeparateWithBOS    bool   `name:"separate-with-bos" run:"" default:"true" negatable:"" help:"Begin each sample at a --sample-start with the BOS token." group:"Text"`
	SeparateWithEOS    bool   `name:"separate-with-eos" run:"" default:"true" negatable:"" help:"End each such sample with the EOS token." group:"Text"`
}

// RecordFlags are the flags that turn records into samples.
type RecordFlags struct {
	TrainOn      string   `name:"train-on" basic:"" run:"" enum:"assistant,last,completion,all" default:"assistant" help:"Part of a conversation to train on: all that the assistant says, its last message, what follows the last message of others, or all. In a prompt with a completion, that is the completion, or with all both." group:"Chat"`
	RawPrompts   bool     `name:"raw-prompts" run:"" help:"Train prompts with completions, and instructions, as plain text instead of as chat turns by the template." group:"Chat"`
	EmptyBlocks  string   `name:"empty-reasoning" run:"" enum:"prompt,train,mask" default:"prompt" help:"Whether to train the empty reasoning block that some templates write into answers without reasoning: prompt trains the part that the generation prompt lacks, train trains all of it, mask trains none of it." group:"Chat"`
	ChatTemplate string   `name:"chat-template" basic:"" run:"" placeholder:"FILE" help:"Chat template (Jinja), by default the one of the model." group:"Chat"`
	TemplateDate string   `name:"template-date" run:"" placeholder:"YYYY-MM-DD" help:"Date for chat templates that contain the date; by default today, or the first day of a run that --run-dir continues." group:"Chat"`
	TemplateVar  []string `name:"template-var" run:"" sep:"none" placeholder:"KEY=VALUE" help:"Variable of the chat template, as JSON or as text, such as enable_thinking=false. Can be given several times." group:"Chat"`
	Keys         []string `name:"key" basic:"" run:"" sep:"none" placeholder:"KEY=NAME" help:"Name of a key in the records: messages=dialog, prompt=question. Can be given several times." group:"Chat"`
	Roles        []string `name:"role" run:"" sep:"none" placeholder:"NAME=ROLE" help:"Meaning of a role in the records: agent=assistant. Can be given several times." group:"Chat"`
	Template     string   `name:"template" placeholder:"NAME" help:"LLaMA-Factory's name of the chat template, such as llama3 or qwen: the model's template must be of this kind." group:"Chat"`
	TooLong      string   `name:"too-long" run:"" enum:"cut,split,drop" default:"cut" help:"What to do with records of more than --ctx tokens: cut, split (into several), or drop. Their number is reported." group:"Chat"`
	SkipBroken   bool     `name:"skip-broken" basic:"" run:"" help:"Skip faulty records, and report their number, instead of stopping." group:"Chat"`

	seesDate bool // whether the template uses the date; set once it is read
}

// RowFlags are the flags that pack samples into rows of batches. Evaluations have one sample per row.
type RowFlags struct {
	Packing    bool `name:"packing" aliases:"neat-packing" help:"Put several samples into a row of --ctx tokens: faster if they are short. They do not attend to each other." group:"Chat" basic:""`
	GroupByLen bool `name:"group-by-length" setting:"rows grouped by length" help:"Put samples of similar length into a batch, so that short ones need no padding to a long one." group:"Chat"`
}

// A Source is what reading data needs to know about the model.
type Source struct {
	Path      string               // of the model
	Tokenizer *tokenizer.Tokenizer // with its chat template
	Context   int                  // positions that the model was trained on; 0 if any --ctx is valid
}

// Sets are the data sets of a run.
type Sets struct {
	Train, Valid *data.Dataset // Valid may be nil
	ValidName    string
	IsChat       bool // the training data went through a chat template
	closers      []*data.Loaded
}

// Close closes the data files.
func (s *Sets) Close() {
	for _, d := range s.closers {
		d.Close()
	}
}

// trainFlag is the flag of the training data. --max-samples limits only this data.
const trainFlag = "--train-data"

// Load reads the training data, and the held-out data, if any.
func (f *DataFlags) Load(ctx context.Context, s Source) (*Sets, error) {
	sets := &Sets{ValidName: f.ValidData}
	if err := f.load(ctx, s, sets); err != nil {
		sets.Close()
		return nil, err
	}
	return sets, nil
}

func (f *DataFlags) load(ctx context.Context, s Source, sets *Sets) error {
	d, err := f.read(ctx, s, trainFlag, f.TrainData)
	if err != nil {
		return err
	}
	sets.Train, sets.closers = d.Data, append(sets.closers, d)
	sets.IsChat = d.Stats.NotesOf(data.Rendered) != nil
	if f.ShowSample && !d.IsText {
		if err := showFirst(f.Log(), s.Tokenizer, d.Data); err != nil {
			return fmt.Errorf("--train-data: %w", err)
		}
	}
	if err := f.hold(ctx, s, sets); err != nil {
		return err
	}
	if sets.Valid != nil {
		sets.Valid = sets.Valid.Limit(f.ValidMax)
	}
	if !f.Packing {
		if f.Answers == (Answers{}) {
			suggestPacking(f.Log(), sets.Train)
		}
		return nil
	}
	if sets.Train, err = sets.Train.Packed(0); err != nil {
		return fmt.Errorf("--packing: %w", err)
	}
	return nil
}

// hold takes the held-out data from a file, from a split of a folder, or from the training data.
func (f *DataFlags) hold(ctx context.Context, s Source, sets *Sets) (err error) {
	switch {
	case f.ValidData != "" && f.ValidSplit > 0:
		return errors.New("--valid-data and --valid-split both choose the held-out data; leave one of them out")
	case f.ValidSplit > 0:
		sets.ValidName = "held out"
		split := sets.Train.Split
		if f.splitByRow {
			split = sets.Train.SplitByRow
		}
		sets.Train, sets.Valid, err = split(f.ValidSplit)
		if err != nil {
			return fmt.Errorf("--valid-split %v: %w", f.ValidSplit, err)
		}
		return nil
	}
	valid := f.validSources()
	if len(valid) == 0 {
		return nil
	}
	sets.ValidName = valid[0]
	d, err := f.read(ctx, s, "--valid-data", valid)
	if err != nil {
		return err
	}
	sets.Valid, sets.closers = d.Data, append(sets.closers, d)
	return f.WarnShared("--valid-data", sets.Valid, sets.Train)
}

// WarnShared warns of held-out samples that are also in the training data; trained is nil if it is not loaded.
func (f *DataFlags) WarnShared(flag string, held, trained *data.Dataset) error {
	n, err := held.Shared(trained)
	if n > 0 {
		fmt.Fprintf(f.Log(), "%s: warning: %d of %s are in the training data too: their loss says nothing about new data\n", flag, n, cli.Count(held.Len(), "sample"))
	}
	return err
}

// trainFiles returns the files of --train-data; it expands folders once.
func (f *DataFlags) trainFiles() (data.Splits, error) {
	if f.splits.Train != nil {
		return f.splits, nil
	}
	var err error
	f.splits, err = data.Expand(f.TrainData)
	return f.splits, err
}

// validSplits returns the valid splits in folders of training data.
func (f *DataFlags) validSplits() []string {
	splits, _ := f.trainFiles() // the read of the training data reports the error
	return splits.Valid
}

// validSources returns the sources of held-out data, unless it is a part of the training data.
func (f *DataFlags) validSources() []string {
	if f.ValidData != "" {
		return []string{f.ValidData}
	}
	return f.validSplits()
}

// hasValid reports whether there is held-out data.
func (f *DataFlags) hasValid() bool { return f.ValidSplit > 0 || len(f.validSources()) > 0 }

// HeldOut reads the data that a run with this seed holds out and names it; it returns nil if the run holds none
// out. The checkpoint of the run may be missing.
func (f *DataFlags) HeldOut(ctx context.Context, s Source, seed uint64, checkpoint string) (held *data.Dataset, name string, err error) {
	f.offsetSeed, f.splitByRow = seed, splitsByRow(checkpoint)
	sets := &Sets{ValidName: f.ValidData}
	defer func() {
		if err != nil {
			sets.Close()
		}
	}()
	if f.ValidSplit > 0 {
		d, err := f.read(ctx, s, trainFlag, f.TrainData)
		if err != nil {
			return nil, "", err
		}
		sets.Train, sets.closers = d.Data, append(sets.closers, d)
	}
	if err := f.hold(ctx, s, sets); err != nil || sets.Valid == nil {
		return nil, "", err
	}
	return sets.Valid.Limit(f.ValidMax), sets.ValidName, nil
}

// LoadHeldOut reads more held-out data, given by a flag.
func (f *DataFlags) LoadHeldOut(ctx context.Context, s Source, flag, path string) (*data.Dataset, error) {
	d, err := f.read(ctx, s, flag, []string{path})
	if err != nil {
		return nil, err
	}
	return d.Data.Limit(f.ValidMax), nil
}

// read loads a data set from sources, and reports how many records became samples.
func (f *DataFlags) read(ctx context.Context, s Source, flag string, sources []string) (*data.Loaded, error) {
	files, err := f.filesOf(flag, sources)
	if err != nil {
		return nil, cli.DataError(flag, strings.Join(sources, " "), err)
	}
	o, err := f.loadOptions(s, flag, files)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", flag, err)
	}
	line := progress.Later{W: f.Log(), Options: progress.Options{Unit: "B", Brief: true}}
	o.Progress = func(p data.Progress) {
		what := cli.Count(p.Examples, "example")
		if p.IsText {
			what = cli.Count(p.Samples, "sample")
		}
		line.Update(p.Bytes, p.Total, what+", "+cli.Count(p.Tokens, "token"))
	}
	d, err := data.Load(ctx, s.Tokenizer, files, o)
	if err = errors.Join(err, line.Close()); err != nil {
		d.Close()
		return nil, fmt.Errorf("%s: %w", flag, withFlag(err))
	}
	if !d.IsText {
		describe(f.Log(), flag, d)
	}
	return d, nil
}

func (f *DataFlags) filesOf(flag string, sources []string) ([]string, error) {
	if flag == trainFlag {
		splits, err := f.trainFiles()
		return splits.Train, err
	}
	splits, err := data.Expand(sources)
	return splits.Train, err
}

func (f *DataFlags) loadOptions(s Source, flag string, files []string) (data.LoadOptions, error) {
	o := data.LoadOptions{
		Length: f.Ctx, Context: s.Context, Text: f.textOptions(), TooLong: data.LongSamples(f.TooLong), SkipBroken: f.SkipBroken,
		Pairs: f.Answers.Pairs, Labels: f.Answers.Labels, Mismatched: f.Answers.Mismatched,
		Cache: f.CacheDir, Hashes: &f.hashes,
		Warn: func(message string) { fmt.Fprintln(f.Log(), message) },
	}
	if flag == trainFlag {
		o.MaxExamples = max(0, f.MaxSamples)
	}
	if data.IsPlainText(files[0]) {
		return o, nil
	}
	var err error
	if o.Read, err = f.readOptions(); err == nil {
		o.Read.Teachers = f.Teachers
		o.Encode, err = f.encoderOptions(s)
	}
	return o, err
}

func (f *DataFlags) textOptions() data.TextOptions {
	start := f.SampleStart
	if f.Escape {
		start = strings.NewReplacer(`\n`, "\n", `\t`, "\t", `\r`, "\r", `\\`, `\`, `\"`, `"`, `\'`, "'").Replace(start)
	}
	return data.TextOptions{
		SampleStart: start, IncludeSampleStart: f.IncludeSampleStart,
		Overlapping: f.Overlapping, FillWithNext: f.FillWithNext, RandomOffsets: f.RandomOffsets, Seed: f.offsetSeed,
		SeparateBOS: f.SeparateWithBOS, SeparateEOS: f.SeparateWithEOS,
	}
}

// describe prints how many records were read, and warnings worth knowing before a long run.
func describe(w io.Writer, flag string, d *data.Loaded) {
	s := d.Stats
	text := fmt.Sprintf("%s: %s, %s, %s, %d of them trained", flag,
		cli.Count(s.Examples, "example"), cli.Count(s.Samples, "sample"), cli.Count(s.Tokens, "token"), s.Targets)
	for _, count := range []struct {
		n    int
		what string
	}{
		{s.Cut, "too long and cut"}, {s.Split, "too long and split"}, {s.Dropped, "too long and dropped"}, {s.Empty, "without a trained token"},
		{d.Copies, "repeated"}, {d.Contradictions, "contradicting an earlier one"},
	} {
		if count.n > 0 {
			text += fmt.Sprintf("; %d %s", count.n, count.what)
		}
	}
	if s.FromCache {
		text += "; from the cache"
	}
	fmt.Fprintln(w, text)
	if report := d.Broken.String(); report != "" {
		fmt.Fprintln(w, report)
	}
	for _, warning := range d.Warnings {
		fmt.Fprintf(w, "%s: warning: %s\n", flag, warning.Named(flagOfOption))
	}
}

func (f *RecordFlags) readOptions() (data.ReadOptions, error) {
	o := data.ReadOptions{Readers: map[string]data.RecordReader{".parquet": parquet.Records}}
	var err error
	if o.Keys, err = pairs("--key", f.Keys); err != nil {
		return o, err
	}
	o.Roles, err = pairs("--role", f.Roles)
	return o, err
}

// pairs parses KEY=VALUE arguments.
func pairs(flag string, args []string) (map[string]string, error) {
	m := map[string]string{}
	for _, arg := range args {
		key, value, ok := strings.Cut(arg, "=")
		if !ok || key == "" || value == "" {
			return nil, fmt.Errorf("%s %s: expected two names with = between them", flag, arg)
		}
		m[key] = value
	}
	return m, nil
}

func (f *RecordFlags) encoderOptions(s Source) (o data.EncoderOptions, err error) {
	if err := f.checkTemplateName(s); err != nil {
		return o, err
	}
	if f.TemplateDate != "" {
		if o.Now, err = time.ParseInLocation(time.DateOnly, f.TemplateDate, time.Local); err != nil {
			return o, fmt.Errorf("--template-date %s: give a day as YYYY-MM-DD, such as 2026-03-31", f.TemplateDate)
		}
	}
	if o.TrainOn, err = chat.ParseMode(f.TrainOn); err != nil {
		return o, fmt.Errorf("--train-on: %w", err)
	}
	o.RawPrompts = f.RawPrompts
	if o.EmptyReasoning, err = chat.ParseEmptyReasoning(f.EmptyBlocks); err != nil {
		return o, fmt.Errorf("--empty-reasoning: %w", err)
	}
	if o.Variables, err = cli.Variables("--template-var", f.TemplateVar); err != nil {
		return o, err
	}
	if f.ChatTemplate != "" {
		if o.Template, err = cli.ReadTemplate("--chat-template", f.ChatTemplate); err != nil {
			return o, err
		}
	} else if s.Tokenizer.ChatTemplate() != "" {
		if o.Template, err = data.ModelTemplate(s.Path, s.Tokenizer); err != nil {
			return o, err
		}
	}
	f.seesDate = o.Template != nil && o.Template.UsesTime()
	return o, nil
}

// Files returns the input files with their flags.
func (f *DataFlags) Files() []cli.File {
	var list []cli.File
	splits, err := f.trainFiles()
	if err != nil {
		splits.Train = f.TrainData // the read reports the error
	}
	for _, file := range splits.Train {
		list = append(list, cli.File{Flag: trainFlag, Path: file})
	}
	return append(list, cli.File{Flag: "--valid-data", Path: f.ValidData}, cli.File{Flag: "--chat-template", Path: f.ChatTemplate})
}

// Sum returns a hash of the contents of input files, with the other parts of split ones.
func (f *DataFlags) Sum(inputs []cli.File) (string, error) {
	var paths []string
	for _, in := range cli.WithParts(inputs) {
		paths = append(paths, in.Path)
	}
	sums, err := f.hashes.Of(paths...)
	return fmt.Sprintf("%x", sha256.Sum256([]byte(strings.Join(sums, " ")))), err
}
