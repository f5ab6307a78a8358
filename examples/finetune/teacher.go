package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/goggml/ggml/examples/internal/cli"
	"github.com/goggml/ggml/examples/internal/placement"
	"github.com/goggml/ggml/examples/internal/progress"
	"github.com/goggml/ggml/examples/internal/training"
	"github.com/goggml/ggml/llm/data"
	"github.com/goggml/ggml/llm/distill"
	"github.com/goggml/ggml/llm/lossgraph"
	"github.com/goggml/ggml/llm/model"
	"github.com/goggml/ggml/llm/train"
)

// teacherFlags make the loss the divergence from a teacher's probabilities. Their names are from TRL's GKD trainer
// and from ms-swift, unless a name means something else here.
type teacherFlags struct {
	Teacher     []string `name:"teacher" sep:"none" aliases:"teacher-model,teacher-model-name-or-path" placeholder:"[NAME=]FILE" help:"GGUF model whose probabilities of the next token are imitated, at the trained tokens of the data, instead of the answers alone: knowledge distillation. If its vocabulary is not the vocabulary of --model-base, it is imitated where tokens of both begin and end at the same bytes. Its scores are computed once before training, and kept in --cache-dir. Given several times, with names, a record chooses its teacher by the key teacher; one without the key has the first." group:"Teacher" basic:""`
	TeacherLoRA []string `name:"teacher-lora" aliases:"teacher-adapters" sep:"none" placeholder:"[NAME=]FILE[=SCALE]" help:"GGUF adapter of the teacher of that name, or of the first, or the folder of a run. Can be given several times. The teacher may be --model-base itself, with an adapter." group:"Teacher"`
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
func (p *trainCommand) lossName() string {
	f := &p.teacherFlags
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
	return name + ", teacher " + p.teachers.described()
}

// checkTeacher reports flags that contradict the teacher.
func (p *trainCommand) checkTeacher() error {
	if p.isTaught() {
		if p.prefers() {
			return fmt.Errorf("--teacher: the loss is the divergence from the teacher, and --loss %s is another; leave one of them out", p.Loss)
		}
		if p.Beta != 0 && p.Beta != 0.1 {
			return fmt.Errorf("--beta %v: beside a teacher it is --teacher-beta; --beta belongs to losses that compare answers", p.Beta)
		}
		if err := p.checkOnPolicy(); err != nil {
			return err
		}
		return p.nameTeachers()
	}
	return unset("distillation; name the teacher with --teacher", []flagState{
		{"teacher-lora", len(p.TeacherLoRA) > 0}, {"teacher-top-k", p.TopK != 0 && p.TopK != 64}, {"teacher-beta", p.TeacherBeta != 0},
		{"temperature", p.Temperature != 0 && p.Temperature != 1}, {"sft-alpha", p.SFTAlpha != 0},
		{"on-policy", p.OnPolicy != 0}, {"on-policy-tokens", p.OnPolicyTokens != 0 && p.OnPolicyTokens != 128},
	})
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
	if p.answers != nil || p.teachers.haveScores() {
		t.Of = func(s data.Sample) (train.Taught, error) {
			if said, has := p.answers.Of(s); has {
				return said, nil
			}
			return p.teachers.of(s).scores.Of(s)
		}
	}
	return train.Loss{Name: p.lossName(), Teacher: t}
}

// teach computes the teachers' scores of all samples that have answers of the data, or reads them from the cache. A
// teacher is open only meanwhile, unless it scores answers of the student later.
func (p *trainCommand) teach(ctx context.Context, devices *placement.Choice, student *model.Model, sets *training.Sets) (err error) {
	defer func() {
		if err != nil {
			p.teachers.close()
		}
	}()
	if err := p.prepareTeachers(ctx, devices, student, sets); err != nil {
		return err
	}
	for _, t := range p.teachers {
		if err := t.teach(ctx, p.scoredSets(sets)); err != nil {
			return err
		}
	}
	return nil
}

// prepareTeachers looks at all teachers before the first one computes for hours: a missing file ends the run, and so does one
// that does not go with the student.
func (p *trainCommand) prepareTeachers(ctx context.Context, devices *placement.Choice, student *model.Model, sets *training.Sets) (err error) {
	if !p.isTaught() {
		return nil
	}
	if err := p.measureAnswers(sets.Train); err != nil {
		return err
	}
	if err := p.teachers.checkUsed(sets); err != nil {
		return err
	}
	for _, t := range p.teachers {
		if t.sum, err = t.key(); err != nil {
			return err
		}
	}
	longest := p.teacherContext(sets)
	for _, t := range p.teachers {
		t.devices, t.student, t.longest = devices, student, longest
		if err := t.prepare(ctx, sets, p.scoredSets(sets)); err != nil {
			return err
		}
	}
	return nil
}

// scoredSets returns the data sets whose answers teachers score before the training.
func (p *trainCommand) scoredSets(sets *training.Sets) (list []*data.Dataset) {
	if p.OnPolicy < 1 {
		list = append(list, sets.Train)
	}
	if sets.Valid != nil {
		list = append(list, sets.Valid)
	}
	return list
}

// teach computes the scores of the samples that the teacher has, or reads them.
func (t *teacher) teach(ctx context.Context, list []*data.Dataset) (err error) {
	p := t.p
	if p.OnPolicy > 0 {
		if err := t.open(); err != nil {
			return err
		}
	} else {
		defer t.closeModel()
	}
	if len(list) == 0 {
		fmt.Fprintf(p.Log(), "teacher: %s; it scores the answers of the model\n", t.who())
		return nil
	}
	line, o := progress.Later{W: p.Log(), Options: progress.Options{Unit: "tok"}}, t.scoresOptions()
	o.Progress = func(done, total int) {
		if line.Done == 0 {
			line.Done = int64(done) // most of it is of an earlier run
		}
		line.Update(int64(done), int64(total), "teacher")
	}
	t.scores, err = distill.Open(ctx, t.asked, o, list...)
	if err = errors.Join(err, line.Close()); err != nil {
		return err
	}
	fmt.Fprintf(p.Log(), "teacher: %s; scores of %s, %s\n", t.who(), cli.Count(t.scores.Len(), "sample"), origin(t.scores))
	return nil
}

// scoresOptions are the settings of the file of scores.
func (t *teacher) scoresOptions() distill.Options {
	return distill.Options{
		Folder: t.p.CacheDir, Key: t.sum + t.own.Key(), Names: t.p.teachers.namesOf(t), ScorerOptions: t.scorerOptions(),
		Warn: func(message string) { fmt.Fprintln(t.p.Log(), message) },
	}
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
