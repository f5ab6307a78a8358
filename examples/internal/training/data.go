package training

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/goggml/ggml/examples/internal/cli"
	"github.com/goggml/ggml/examples/internal/parquet"
	"github.com/goggml/ggml/examples/internal/progress"
	"github.com/goggml/ggml/llm/chat"
	"github.com/goggml/ggml/llm/data"
	"github.com/goggml/ggml/llm/tokenizer"
)

// DataFlags are what is trained on.
type DataFlags struct {
	TrainData    []string `name:"train-data" setting:"data" aliases:"data,dataset-name,local-dataset" sep:"none" placeholder:"FILE" help:"What to train on: text, or records as JSON lines, Parquet or CSV (messages, conversations, instructions, prompts with completions, texts); a file, a folder with train, valid and test, a pattern, or - for standard input. May be given several times: texts one after the other are one text." group:"Data" basic:""`
	ValidData    string   `name:"valid-data" aliases:"eval-dataset" placeholder:"FILE" help:"Held-out data, whose loss is reported during the run; by default the split valid of a folder of --train-data." group:"Data" basic:""`
	ValidSplit   float64  `name:"valid-split" range:"[0,1)" default:"0" help:"Part of the training data that is held out instead of --valid-data, such as 0.05; 0 for none." group:"Data" basic:""`
	ValidMax     int      `name:"valid-samples" range:"-1|[1,)" default:"64" help:"Largest number of samples of held-out data that are evaluated, spread evenly; -1 for all." group:"Data"`
	ValidBatches *int     `name:"valid-batches" aliases:"val-batches" range:"-1|[1,65536]" placeholder:"N" help:"Likewise in batches of --batch samples, instead of --valid-samples; -1 for all." group:"Data"`
	MaxSamples   int      `name:"max-samples" range:"-1|[1,)" default:"-1" unset:"-1" help:"Train on so many records, the first ones; -1 for all." group:"Data"`
	Ctx          int      `name:"ctx" setting:"sample length" aliases:"max-seq-length,max-length,cutoff-len,model-max-length" range:"[0,2147483647]" short:"c" default:"${ctx}" help:"Tokens of a sample, at most${ctx_why}." group:"Data" basic:""`
	TextFlags
	RecordFlags
	RowFlags
	ShowSample bool   `name:"show-sample" default:"true" negatable:"" help:"Show the first sample of records, with what is trained of it marked." group:"Data"`
	CacheDir   string `name:"cache-dir" placeholder:"DIR" help:"Folder that keeps the tokens of the data for the next start; by default cache in --run-dir, else they are not kept." group:"Data"`

	offsetSeed uint64 // of --sample-random-offsets, see Flags.Prepare
	hashes     fileHashes
}

// TextFlags say how text becomes samples.
type TextFlags struct {
	SampleStart        string `name:"sample-start" run:"" placeholder:"STRING" help:"Start a sample wherever this string occurs; without it samples follow each other through the text." group:"Text"`
	IncludeSampleStart bool   `name:"include-sample-start" run:"" help:"Keep the --sample-start string in the samples." group:"Text"`
	Escape             bool   `name:"escape" run:"" help:"Interpret \\n, \\t, \\\\ and the like in --sample-start." group:"Text"`
	Overlapping        bool   `name:"overlapping-samples" run:"" help:"Let a sample that is shorter than --ctx go on beyond the start of the next." group:"Text"`
	RandomOffsets      bool   `name:"sample-random-offsets" run:"" help:"Begin samples at random offsets, which --seed decides; with --fill-with-next-samples for text without an end." group:"Text"`
	FillWithNext       bool   `name:"fill-with-next-samples" run:"" help:"Append to a sample that is shorter than --ctx those that follow." group:"Text"`
	SeparateWithBOS    bool   `name:"separate-with-bos" run:"" default:"true" negatable:"" help:"Begin each sample at a --sample-start with the BOS token." group:"Text"`
	SeparateWithEOS    bool   `name:"separate-with-eos" run:"" default:"true" negatable:"" help:"End each such sample with the EOS token." group:"Text"`
}

// RecordFlags say how records become samples.
type RecordFlags struct {
	TrainOn      string   `name:"train-on" basic:"" run:"" enum:"assistant,last,completion,all" default:"assistant" help:"What of a conversation is trained: all that the assistant says, its last message, what follows the last message of others, or all; of a prompt with a completion: the completion, or with all both." group:"Chat"`
	RawPrompts   bool     `name:"raw-prompts" run:"" help:"Train prompts with completions, and instructions, as the texts that they are, and not as turns of a chat by the template." group:"Chat"`
	EmptyBlocks  string   `name:"empty-reasoning" run:"" enum:"prompt,train,mask" default:"prompt" help:"Whether the empty block of reasoning is trained that some templates write into answers without reasoning: prompt trains what the generation prompt does not have of it, train all of it, mask nothing." group:"Chat"`
	ChatTemplate string   `name:"chat-template" basic:"" run:"" placeholder:"FILE" help:"Chat template (Jinja), by default the one of the model." group:"Chat"`
	TemplateDate string   `name:"template-date" run:"" placeholder:"YYYY-MM-DD" help:"Day that chat templates see which ask for the date; by default today, and in a run that --run-dir continues the day it began." group:"Chat"`
	TemplateVar  []string `name:"template-var" run:"" sep:"none" placeholder:"KEY=VALUE" help:"Variable of the chat template, as JSON or as text, such as enable_thinking=false. Can be given several times." group:"Chat"`
	Keys         []string `name:"key" basic:"" run:"" sep:"none" placeholder:"KEY=NAME" help:"Name that the records have for a key: messages=dialog, prompt=question. Can be given several times." group:"Chat"`
	Roles        []string `name:"role" run:"" sep:"none" placeholder:"NAME=ROLE" help:"Role that a role of the records stands for: agent=assistant. Can be given several times." group:"Chat"`
	Template     string   `name:"template" placeholder:"NAME" help:"Name that LLaMA-Factory has for the chat template, such as llama3 or qwen: the model's has to be of this kind." group:"Chat"`
	TooLong      string   `name:"too-long" run:"" enum:"cut,split,drop" default:"cut" help:"What becomes of records of more than --ctx tokens: cut, split into several, or drop. They are counted." group:"Chat"`
	SkipBroken   bool     `name:"skip-broken" basic:"" run:"" help:"Leave out records with a fault, and count them, instead of ending." group:"Chat"`

	seesDate bool // whether the template does, once it is read
}

// RowFlags say how samples share the rows of batches. Evaluations have one sample a row.
type RowFlags struct {
	Packing    bool `name:"packing" aliases:"neat-packing" help:"Put several samples into a row of --ctx tokens: faster with short ones. They do not see each other." group:"Chat" basic:""`
	GroupByLen bool `name:"group-by-length" setting:"rows grouped by length" help:"Put samples of similar length into a batch, which is then as short as they are." group:"Chat"`
}

// A Source is what data is read for.
type Source struct {
	Path      string               // of the model
	Tokenizer *tokenizer.Tokenizer // with its chat template
	Context   int                  // positions that the model was trained on; 0 if any --ctx will do
}

// Sets are the data of a run.
type Sets struct {
	Train, Valid *data.Dataset // Valid is nil where there is none
	ValidName    string
	IsChat       bool // what is trained went through a chat template
	closers      []*data.Dataset
}

// Close closes the files of the data.
func (s *Sets) Close() {
	for _, d := range s.closers {
		d.Close()
	}
}

// Load reads the training data, and the held-out data if there is any.
func (f *DataFlags) Load(ctx context.Context, s Source) (*Sets, error) {
	sets := &Sets{ValidName: f.ValidData}
	if err := f.load(ctx, s, sets); err != nil {
		sets.Close()
		return nil, err
	}
	return sets, nil
}

func (f *DataFlags) load(ctx context.Context, s Source, sets *Sets) (err error) {
	var stats data.Stats
	if sets.Train, stats, err = f.read(ctx, s, trainFlag, f.TrainData); err != nil {
		return err
	}
	sets.closers = append(sets.closers, sets.Train)
	sets.IsChat = notesOf(stats, data.Rendered) != nil
	if f.ShowSample && f.hasRecords() {
		if err := f.showFirst(ctx, os.Stderr, s, sets.Train); err != nil {
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
		suggestPacking(os.Stderr, sets.Train)
		return nil
	}
	if sets.Train, err = sets.Train.Packed(0); err != nil {
		return fmt.Errorf("--packing: %w", err)
	}
	return nil
}

// hold takes the held-out data from a file, from a split of a folder, or out of what is
// trained.
func (f *DataFlags) hold(ctx context.Context, s Source, sets *Sets) (err error) {
	valid := []string{f.ValidData}
	switch {
	case f.ValidData != "" && f.ValidSplit > 0:
		return errors.New("--valid-data and --valid-split: one of them says what is held out; leave the other out")
	case f.ValidSplit > 0:
		sets.ValidName = "held out"
		sets.Train, sets.Valid, err = sets.Train.Split(f.ValidSplit)
		if err != nil {
			return fmt.Errorf("--valid-split %v: %w", f.ValidSplit, err)
		}
		return nil
	case f.ValidData == "":
		if valid = f.validSplits(); len(valid) == 0 {
			return nil
		}
		sets.ValidName = valid[0]
	}
	if sets.Valid, _, err = f.read(ctx, s, "--valid-data", valid); err != nil {
		return err
	}
	sets.closers = append(sets.closers, sets.Valid)
	return nil
}

// validSplits are those of folders of training data.
func (f *DataFlags) validSplits() []string {
	var list []string
	for _, source := range f.TrainData {
		if info, err := os.Stat(source); err != nil || !info.IsDir() {
			continue
		}
		if splits, err := data.Folder(source); err == nil {
			list = append(list, splits.Valid...)
		}
	}
	return list
}

// hasValid reports whether there is held-out data.
func (f *DataFlags) hasValid() bool {
	return f.ValidData != "" || f.ValidSplit > 0 || len(f.validSplits()) > 0
}

// HeldOut reads what a run of a seed holds out, nil if nothing is, and names it.
func (f *DataFlags) HeldOut(ctx context.Context, s Source, seed uint64) (_ *data.Dataset, name string, err error) {
	f.offsetSeed = seed
	sets := &Sets{ValidName: f.ValidData}
	if f.ValidSplit > 0 {
		if sets.Train, _, err = f.read(ctx, s, "--train-data", f.TrainData); err != nil {
			return nil, "", err
		}
	}
	all := sets.Train
	if err := f.hold(ctx, s, sets); err != nil {
		all.Close()
		return nil, "", err
	}
	if sets.Valid == nil {
		return nil, "", nil
	}
	return sets.Valid.Limit(f.ValidMax), sets.ValidName, nil
}

// LoadHeldOut reads further held-out data, of a flag.
func (f *DataFlags) LoadHeldOut(ctx context.Context, s Source, flag, path string) (*data.Dataset, error) {
	d, _, err := f.read(ctx, s, flag, []string{path})
	if err != nil {
		return nil, err
	}
	return d.Limit(f.ValidMax), nil
}

// read makes a data set of sources.
func (f *DataFlags) read(ctx context.Context, s Source, flag string, sources []string) (d *data.Dataset, stats data.Stats, err error) {
	files, err := data.Expand(sources)
	if err != nil {
		return nil, stats, cli.DataError(flag, strings.Join(sources, " "), err)
	}
	text := slices.IndexFunc(files, data.IsPlainText)
	record := slices.IndexFunc(files, func(file string) bool { return !data.IsPlainText(file) })
	switch {
	case text >= 0 && record >= 0:
		return nil, stats, fmt.Errorf("%s: %s is text and %s has records; train on one kind", flag, files[text], files[record])
	case text >= 0:
		d, stats, err = f.readText(ctx, s, files)
	default:
		d, stats, err = f.readRecords(ctx, s, flag, files)
	}
	if err != nil {
		return nil, stats, fmt.Errorf("%s: %w", flag, withFlag(err))
	}
	return d, stats, nil
}

// readText makes samples of the texts in files, one after the other.
func (f *DataFlags) readText(ctx context.Context, s Source, files []string) (d *data.Dataset, stats data.Stats, err error) {
	for _, file := range files {
		if err := cli.CheckRegular(file); err != nil {
			return nil, stats, err
		}
	}
	if f.MaxSamples > 0 {
		return nil, stats, errors.New("--max-samples counts records, and this is text; leave it out")
	}
	o := f.textOptions()
	text := data.TextFiles(files...)
	samples := data.TextSamples(s.Tokenizer, text, o)
	same := func(s data.Sample) (data.Sample, error) { return s, nil }
	vocabulary, err := data.NewEncoder(s.Tokenizer, data.EncoderOptions{})
	if err != nil {
		return nil, stats, err
	}
	prepare, err := f.prepareOptions(files, fmt.Sprintf("%s %+v", vocabulary.Key(), o))
	if err != nil {
		return nil, stats, err
	}
	d, stats, err = data.Prepare(ctx, samples, same, prepare)
	if err != nil {
		return nil, stats, fmt.Errorf("%s: %w", strings.Join(files, ", "), err)
	}
	return d, stats, nil
}

func (f *DataFlags) textOptions() data.TextOptions {
	start := f.SampleStart
	if f.Escape {
		start = strings.NewReplacer(`\n`, "\n", `\t`, "\t", `\r`, "\r", `\\`, `\`, `\"`, `"`, `\'`, "'").Replace(start)
	}
	return data.TextOptions{
		Length: f.Ctx, SampleStart: start, IncludeSampleStart: f.IncludeSampleStart,
		Overlapping: f.Overlapping, FillWithNext: f.FillWithNext, RandomOffsets: f.RandomOffsets, Seed: f.offsetSeed,
		SeparateBOS: f.SeparateWithBOS, SeparateEOS: f.SeparateWithEOS,
	}
}

// prepareOptions keep what is prepared in the cache, if there is one, by the hash of all
// that it is made of: the files, and the key of what encodes them and how.
func (f *DataFlags) prepareOptions(files []string, key string) (data.PrepareOptions, error) {
	o := data.PrepareOptions{
		Length: f.Ctx, TooLong: data.LongSamples(f.TooLong),
		Warn: func(message string) { fmt.Fprintln(os.Stderr, message) },
	}
	// Standard input cannot be compared with that of the time before.
	if f.CacheDir == "" || slices.Contains(files, data.Stdin) {
		return o, nil
	}
	sums, err := f.hashes.of(files...)
	if err != nil {
		return o, err
	}
	o.Cache, o.Key = f.CacheDir, strings.Join(sums, " ")+" "+key
	return o, nil
}

// readRecords makes samples of records, and reports what became of them.
func (f *DataFlags) readRecords(ctx context.Context, s Source, flag string, files []string) (d *data.Dataset, stats data.Stats, err error) {
	read, err := f.readOptions()
	if err != nil {
		return nil, stats, err
	}
	encoder, err := f.encoder(s, read.SkipBroken)
	if err != nil {
		return nil, stats, err
	}
	key := encoder.Key() + " " + read.Key() + fmt.Sprintf(" %q", files) // which warnings name
	isLimited := flag == trainFlag && f.MaxSamples > 0
	if isLimited {
		key += fmt.Sprintf(" first %d", f.MaxSamples)
	}
	options, err := f.prepareOptions(files, key)
	if err != nil {
		return nil, stats, err
	}
	options.SkipBroken = read.SkipBroken
	total := size(files)
	line := progress.New(os.Stderr, progress.Options{Total: total, Unit: "B", Brief: true})
	show := func(bytes int64, now data.Stats) {
		line.Update(bytes, cli.Count(now.Examples, "example")+", "+cli.Count(now.Tokens, "token"))
	}
	read.BytesRead = new(atomic.Int64)
	options.Progress = func(now data.Stats) { show(max(0, min(read.BytesRead.Load(), total-1)), now) } // what is read is not all done
	examples := data.Read(ctx, files, read)
	if isLimited {
		examples = first(f.MaxSamples, examples)
	}
	d, stats, err = data.Prepare(ctx, examples, encoder.Encode, options)
	if err == nil && !stats.FromCache {
		show(max(total, 1), stats)
	}
	if cut := f.checkCut(s, stats); cut != nil {
		d.Close()
		err = cut
	}
	if err := errors.Join(err, line.Close()); err != nil {
		return nil, stats, err
	}
	describe(flag, stats, read.SkipBroken)
	f.warn(os.Stderr, s, flag, stats)
	return d, stats, nil
}

// size adds up files that have one.
func size(files []string) int64 {
	var total int64
	for _, file := range files {
		if info, err := os.Stat(file); err == nil && info.Mode().IsRegular() {
			total += info.Size()
		}
	}
	return total
}

// describe tells what became of examples.
func describe(flag string, s data.Stats, broken *data.Broken) {
	text := fmt.Sprintf("%s: %s, %s, %s, %d of them trained", flag,
		cli.Count(s.Examples, "example"), cli.Count(s.Samples, "sample"), cli.Count(s.Tokens, "token"), s.Targets)
	for _, count := range []struct {
		n    int
		what string
	}{
		{s.Cut, "too long and cut"}, {s.Split, "too long and split"}, {s.Dropped, "too long and dropped"}, {s.Empty, "without a trained token"},
	} {
		if count.n > 0 {
			text += fmt.Sprintf("; %d %s", count.n, count.what)
		}
	}
	if s.FromCache {
		text += "; from the cache"
	}
	fmt.Fprintln(os.Stderr, text)
	if report := broken.String(); report != "" {
		fmt.Fprintln(os.Stderr, report)
	}
}

func (f *RecordFlags) readOptions() (data.ReadOptions, error) {
	o := data.ReadOptions{Readers: map[string]data.RecordReader{".parquet": parquet.Records}}
	var err error
	if o.Keys, err = pairs("--key", f.Keys); err != nil {
		return o, err
	}
	if o.Roles, err = pairs("--role", f.Roles); err != nil {
		return o, err
	}
	if f.SkipBroken {
		o.SkipBroken = &data.Broken{}
	}
	return o, nil
}

// pairs takes KEY=VALUE apart.
func pairs(flag string, args []string) (map[string]string, error) {
	m := map[string]string{}
	for _, arg := range args {
		key, value, ok := strings.Cut(arg, "=")
		if !ok || key == "" || value == "" {
			return nil, fmt.Errorf("%s %s: give it as two names with = between them", flag, arg)
		}
		m[key] = value
	}
	return m, nil
}

func (f *RecordFlags) encoder(s Source, broken *data.Broken) (*data.Encoder, error) {
	o := data.EncoderOptions{SkipBroken: broken}
	err := f.checkTemplateName(s)
	if err != nil {
		return nil, err
	}
	if f.TemplateDate != "" {
		if o.Now, err = time.ParseInLocation(time.DateOnly, f.TemplateDate, time.Local); err != nil {
			return nil, fmt.Errorf("--template-date %s: give a day as YYYY-MM-DD, such as 2026-03-31", f.TemplateDate)
		}
	}
	if o.TrainOn, err = chat.ParseMode(f.TrainOn); err != nil {
		return nil, fmt.Errorf("--train-on: %w", err)
	}
	o.RawPrompts = f.RawPrompts
	if o.EmptyReasoning, err = chat.ParseEmptyReasoning(f.EmptyBlocks); err != nil {
		return nil, fmt.Errorf("--empty-reasoning: %w", err)
	}
	if o.Variables, err = cli.Variables("--template-var", f.TemplateVar); err != nil {
		return nil, err
	}
	if f.ChatTemplate != "" {
		if o.Template, err = cli.ReadTemplate("--chat-template", f.ChatTemplate); err != nil {
			return nil, err
		}
	} else if s.Tokenizer.ChatTemplate() != "" {
		if o.Template, err = data.ModelTemplate(s.Path, s.Tokenizer); err != nil {
			return nil, err
		}
	}
	f.seesDate = o.Template != nil && o.Template.UsesTime()
	return data.NewEncoder(s.Tokenizer, o)
}

// hasRecords reports whether what is trained on are records, and not text.
func (f *DataFlags) hasRecords() bool {
	files, err := data.Expand(f.TrainData)
	return err == nil && len(files) > 0 && !data.IsPlainText(files[0])
}

// files are the inputs with their flags.
func (f *DataFlags) files() []cli.File {
	var list []cli.File
	for _, source := range f.TrainData {
		files, err := data.Expand([]string{source})
		if err != nil {
			files = []string{source} // which reading it tells
		}
		for _, file := range files {
			list = append(list, cli.File{Flag: "--train-data", Path: file})
		}
	}
	return append(list, cli.File{Flag: "--valid-data", Path: f.ValidData}, cli.File{Flag: "--chat-template", Path: f.ChatTemplate})
}
