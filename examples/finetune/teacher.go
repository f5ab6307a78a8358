package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/goggml/ggml/examples/internal/adapters"
	"github.com/goggml/ggml/examples/internal/cli"
	"github.com/goggml/ggml/examples/internal/placement"
	"github.com/goggml/ggml/examples/internal/progress"
	"github.com/goggml/ggml/examples/internal/runs"
	"github.com/goggml/ggml/examples/internal/training"
	"github.com/goggml/ggml/llm/data"
	"github.com/goggml/ggml/llm/device"
	"github.com/goggml/ggml/llm/distill"
	"github.com/goggml/ggml/llm/estimate"
	"github.com/goggml/ggml/llm/infer"
	"github.com/goggml/ggml/llm/layout"
	"github.com/goggml/ggml/llm/lossgraph"
	"github.com/goggml/ggml/llm/model"
	"github.com/goggml/ggml/llm/train"
)

// teacherFlags make the loss the divergence from a teacher's probabilities. Their names are those of TRL's GKD trainer
// and of ms-swift, where these do not mean something else here.
type teacherFlags struct {
	Teacher     string   `name:"teacher" aliases:"teacher-model,teacher-model-name-or-path" placeholder:"FILE" help:"GGUF model whose probabilities of the next token are imitated, at the trained tokens of the data, instead of the answers alone: knowledge distillation. It has the vocabulary of --model-base. Its scores are computed once before training, and kept in --cache-dir." group:"Teacher" basic:""`
	TeacherLoRA []string `name:"teacher-lora" aliases:"teacher-adapters" sep:"none" placeholder:"FILE[=SCALE]" help:"GGUF adapter of the teacher, or the folder of a run. Can be given several times. The teacher may be --model-base itself, with an adapter." group:"Teacher"`
	TopK        int      `name:"teacher-top-k" aliases:"gkd-logits-topk" setting:"loss" range:"[1,)" default:"64" help:"The teacher's most likely tokens that are imitated one by one; all others together count as one more. The scores take about seven bytes of disk for each of them, at each trained token." group:"Teacher"`
	TeacherBeta float64  `name:"teacher-beta" setting:"loss" range:"[0,1]" default:"0" help:"Divergence between the probabilities, as beta of TRL's GKD trainer: 0 is the forward KL divergence, by which all that the teacher says gets likely; 1 the reverse one, by which what it does not say gets unlikely; between, the generalised Jensen-Shannon divergence." group:"Teacher"`
	Temperature float64  `name:"temperature" setting:"loss" range:"(0,)" default:"1" help:"Divides the logits of teacher and model before their probabilities are compared: more than 1 shows more of the less likely tokens." group:"Teacher"`
	SFTAlpha    float64  `name:"sft-alpha" setting:"loss" range:"[0,)" default:"0" help:"Weight of the cross-entropy of the answers in the data, which is added to the divergence." group:"Teacher"`
	onPolicyFlags
}

// settings returns the loss beside the teacher.
func (f *teacherFlags) settings() lossgraph.Teacher {
	return lossgraph.Teacher{TopK: f.TopK, Temperature: float32(f.Temperature), Beta: float32(f.TeacherBeta), CrossEntropy: float32(f.SFTAlpha)}
}

// lossName describes the loss for checkpoints and reports.
func (f *teacherFlags) lossName() string {
	name := "forward KL"
	switch {
	case f.TeacherBeta == 1:
		name = "reverse KL"
	case f.TeacherBeta > 0:
		name = fmt.Sprintf("Jensen-Shannon divergence, beta %v", f.TeacherBeta)
	}
	name += fmt.Sprintf(" of the %d most likely tokens", f.TopK)
	if f.Temperature != 1 {
		name += fmt.Sprintf(", temperature %v", f.Temperature)
	}
	if f.SFTAlpha > 0 {
		name += fmt.Sprintf(", with %v of cross-entropy", f.SFTAlpha)
	}
	if f.OnPolicy > 0 {
		name += fmt.Sprintf(", %v of it on-policy with up to %d tokens", f.OnPolicy, f.OnPolicyTokens)
	}
	return name + ", teacher " + filepath.Base(f.Teacher)
}

// checkTeacher reports flags that contradict the teacher.
func (p *trainCommand) checkTeacher() error {
	if p.Teacher != "" {
		if p.prefers() {
			return fmt.Errorf("--teacher: the loss is the divergence from the teacher, and --loss %s is another; leave one of them out", p.Loss)
		}
		if p.Beta != 0 && p.Beta != 0.1 {
			return fmt.Errorf("--beta %v: beside a teacher it is --teacher-beta; --beta belongs to losses that compare answers", p.Beta)
		}
		return p.checkOnPolicy()
	}
	return unset("distillation; name the teacher with --teacher", []flagState{
		{"teacher-lora", len(p.TeacherLoRA) > 0}, {"teacher-top-k", p.TopK != 0 && p.TopK != 64}, {"teacher-beta", p.TeacherBeta != 0},
		{"temperature", p.Temperature != 0 && p.Temperature != 1}, {"sft-alpha", p.SFTAlpha != 0},
		{"on-policy", p.OnPolicy != 0}, {"on-policy-tokens", p.OnPolicyTokens != 0 && p.OnPolicyTokens != 128},
	})
}

// teacherFiles returns the files of the teacher.
func (f *teacherFlags) teacherFiles() []cli.File {
	if f.Teacher == "" {
		return nil
	}
	list := []cli.File{{Flag: "--teacher", Path: f.Teacher}}
	for _, arg := range f.TeacherLoRA {
		if a, err := adapters.Parse("--teacher-lora", arg); err == nil {
			if path, err := runs.AdapterIn(a.Path); err == nil { // opening it reports the error
				list = append(list, cli.File{Flag: "--teacher-lora", Path: path})
			}
		}
	}
	return list
}

// taughtLoss returns the loss beside the teacher. Without scores, it takes the time and memory of the run's.
func (p *trainCommand) taughtLoss() train.Loss {
	t := &train.Teacher{Teacher: p.settings(), Of: func(s data.Sample) (t train.Taught, err error) {
		for range s.Targets() {
			for i := range p.TopK {
				t.Tokens, t.Probs = append(t.Tokens, int32(i)), append(t.Probs, 1/float32(p.TopK+1))
			}
			t.Probs = append(t.Probs, 1/float32(p.TopK+1))
		}
		return t, nil
	}}
	if p.OnPolicy > 0 {
		t.Longest = p.longestAnswer
		t.Rows = func(_ context.Context, _ int, rows []data.Row) ([]data.Row, error) { return rows, nil }
	}
	if p.answers != nil {
		t.Rows = p.answers.Rows
	}
	if p.scores != nil || p.answers != nil {
		t.Of = func(s data.Sample) (train.Taught, error) {
			if said, has := p.answers.Of(s); has {
				return said, nil
			}
			return p.scores.Of(s)
		}
	}
	return train.Loss{Name: p.lossName() + p.teacherSum, Teacher: t}
}

// teach computes the teacher's scores of all samples that have answers of the data, or reads them from the cache. The
// teacher is open only meanwhile, unless it scores answers of the student later.
func (p *trainCommand) teach(ctx context.Context, devices *placement.Choice, student *model.Model, sets *training.Sets) (err error) {
	if p.Teacher == "" {
		return nil
	}
	key, err := p.teacherKey()
	if err != nil {
		return err
	}
	p.teacherSum = " " + key[:8]
	if err := p.measureAnswers(sets.Train); err != nil {
		return err
	}
	p.tutor = &teacher{p: p, devices: devices, student: student, longest: p.teacherContext(sets)}
	defer func() {
		if p.OnPolicy == 0 || err != nil {
			p.tutor.close()
			p.tutor = nil
		}
	}()
	if p.OnPolicy > 0 {
		if err := p.tutor.open(); err != nil {
			return err
		}
	}
	line := progress.Later{W: p.Log(), Options: progress.Options{Unit: "tok"}}
	o := distill.Options{
		Folder: p.CacheDir, Key: key,
		ScorerOptions: distill.ScorerOptions{TopK: p.TopK, Temperature: p.Temperature, Vocab: student.Config().Vocab},
		Warn:          func(message string) { fmt.Fprintln(p.Log(), message) },
		Progress: func(done, total int) {
			if line.Done == 0 {
				line.Done = int64(done) // most of it is of an earlier run
			}
			line.Update(int64(done), int64(total), "teacher")
		},
	}
	var list []*data.Dataset
	if p.OnPolicy < 1 {
		list = append(list, sets.Train)
	}
	if sets.Valid != nil {
		list = append(list, sets.Valid)
	}
	who := strings.Join(append([]string{p.Teacher}, p.TeacherLoRA...), " with ")
	if len(list) == 0 {
		fmt.Fprintf(p.Log(), "teacher: %s; it scores the answers of the model\n", who)
		return nil
	}
	p.scores, err = distill.Open(ctx, p.tutor.asked, o, list...)
	if err = errors.Join(err, line.Close()); err != nil {
		return err
	}
	fmt.Fprintf(p.Log(), "teacher: %s; scores of %s, %s\n", who, cli.Count(p.scores.Len(), "sample"), origin(p.scores))
	return nil
}

// origin says how many scores the cache had.
func origin(s *distill.Scores) string {
	switch n := s.FromCache(); n {
	case s.Len():
		return "from the cache"
	case 0:
		return "computed"
	default:
		return fmt.Sprintf("%d of them from the cache", n)
	}
}

// teacherKey identifies the teacher by the content of its files.
func (p *trainCommand) teacherKey() (string, error) {
	args, err := adapters.ParseAll("--teacher-lora", p.TeacherLoRA)
	if err != nil {
		return "", err
	}
	sum, err := p.Sum(p.teacherFiles())
	if err != nil {
		return "", fmt.Errorf("--teacher: %w", err)
	}
	for _, a := range args {
		sum += fmt.Sprintf(" %v", a.Scale)
	}
	return sum, nil
}

// A teacher opens the teacher's model when its scores are not in the cache.
type teacher struct {
	p        *trainCommand
	devices  *placement.Choice
	student  *model.Model
	longest  int // tokens of a sample
	model    *model.Model
	adapters adapters.Set
	engine   *device.Engine
	session  *infer.Session
	scorer   *distill.Scorer
}

// load loads the model with its adapters.
func (t *teacher) load(l layout.Layout) (err error) {
	args, err := adapters.ParseAll("--teacher-lora", t.p.TeacherLoRA)
	if err != nil {
		return err
	}
	if t.model, err = model.Load(t.p.Teacher, model.LoadOptions{Layout: l}); err != nil {
		return cli.ModelError("--teacher", t.p.Teacher, err)
	}
	t.adapters, err = adapters.Open(args, t.model)
	return err
}

// asked returns the scorer, and opens it first if needed.
func (t *teacher) asked() (*distill.Scorer, error) {
	if t.scorer == nil {
		if err := t.open(); err != nil {
			return nil, err
		}
	}
	return t.scorer, nil
}

func (t *teacher) open() error {
	p := t.p
	if err := t.load(layout.Layout{}); err != nil {
		return err
	}
	if err := distill.CheckVocabulary(t.student.Tokenizer, t.model.Tokenizer); err != nil {
		return fmt.Errorf("--teacher %s: %w", p.Teacher, err)
	}
	if n := t.model.Config().Context; t.longest > n {
		return fmt.Errorf("--teacher %s: a sample has %s, and the teacher was trained on %d; shorten the samples with --ctx %d", p.Teacher, cli.Count(t.longest, "token"), n, n)
	}
	l, err := t.devices.Lay(p.Log(), t.model, func(to *estimate.Memory) error {
		return infer.AddEstimate(to, t.model, infer.SessionOptions{Context: t.longest, Adapters: t.adapters.Weights()})
	})
	if err != nil {
		return fmt.Errorf("--teacher: %w", err)
	}
	if !l.IsCPU() {
		t.adapters.Close()
		t.model.Close()
		if err := t.load(l); err != nil {
			return err
		}
	}
	if t.engine, err = device.New(device.Options{Layout: t.model.Layout(), Threads: p.ThreadCount()}); err != nil {
		return err
	}
	if t.session, err = infer.NewSession(t.model, infer.SessionOptions{Context: t.longest, Adapters: t.adapters.Weights(), Engine: t.engine}); err != nil {
		return fmt.Errorf("--teacher: %w", err)
	}
	t.scorer, err = distill.NewScorer(t.session, distill.ScorerOptions{TopK: p.TopK, Temperature: p.Temperature, Vocab: t.student.Config().Vocab})
	if err != nil {
		return fmt.Errorf("--teacher-top-k: %w", err)
	}
	return nil
}

// close frees the memory of the teacher.
func (t *teacher) close() {
	if t == nil {
		return
	}
	t.session.Close()
	if t.engine != nil {
		t.engine.Close()
	}
	t.adapters.Close()
	if t.model != nil {
		t.model.Close()
	}
}
