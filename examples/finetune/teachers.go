package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goggml/ggml/examples/internal/adapters"
	"github.com/goggml/ggml/examples/internal/cli"
	"github.com/goggml/ggml/examples/internal/runs"
	"github.com/goggml/ggml/examples/internal/training"
	"github.com/goggml/ggml/llm/data"
)

// teachers are the teachers of a run. The first one scores records that name none.
type teachers []*teacher

// isTaught reports whether the loss is the divergence from a teacher.
func (f *teacherFlags) isTaught() bool { return len(f.Teacher) > 0 }

// nameTeachers reads the names of teachers and of their adapters.
func (p *trainCommand) nameTeachers() error {
	p.teachers, p.Teachers = nil, nil
	for _, arg := range p.Teacher {
		t := &teacher{p: p, path: arg}
		if name, path, has := cutName(arg); has {
			t.name, t.path = name, path
		}
		switch {
		case t.name == "" && len(p.teachers) > 0:
			return fmt.Errorf("--teacher %s: only the first teacher may be without a name; give it as NAME=%s, and records choose it by the key teacher", arg, arg)
		case t.name != "" && slices.Contains(p.Teachers, t.name):
			return fmt.Errorf("--teacher %s: another teacher has the name %s", arg, t.name)
		case t.name != "":
			p.Teachers = append(p.Teachers, t.name)
		}
		p.teachers = append(p.teachers, t)
	}
	for _, arg := range p.TeacherLoRA {
		if err := p.teachers.addAdapter(arg); err != nil {
			return err
		}
	}
	return nil
}

// addAdapter gives an adapter to the teacher of its name, or to the first.
func (l teachers) addAdapter(arg string) error {
	of, file := l[0], arg
	if name, path, has := cutName(arg); has {
		if i := slices.IndexFunc(l, func(t *teacher) bool { return t.name == name }); i >= 0 {
			of, file = l[i], path
		}
	}
	a, err := adapters.Parse("--teacher-lora", file)
	if err != nil {
		return err
	}
	if name, _, has := cutName(a.Path); has {
		return fmt.Errorf("--teacher-lora %s: there is neither this file nor a --teacher %s=FILE", arg, name)
	}
	of.lora = append(of.lora, a)
	return nil
}

// cutName splits NAME=FILE. If NAME is empty or is the beginning of a path, or a file of the whole name exists, has is false.
func cutName(arg string) (name, path string, has bool) {
	name, path, has = strings.Cut(arg, "=")
	_, err := os.Lstat(arg)
	return name, path, has && name != "" && !strings.ContainsAny(name, `/\`) && err != nil
}

// of returns the teacher of a sample.
func (l teachers) of(s data.Sample) *teacher {
	for _, t := range l {
		if t.name == s.Teacher {
			return t
		}
	}
	return l[0]
}

// namesOf returns the names of a teacher in samples; nil if it has all samples.
func (l teachers) namesOf(t *teacher) []string {
	switch {
	case len(l) == 1:
		return nil
	case t == l[0] && t.name != "":
		return []string{"", t.name}
	}
	return []string{t.name}
}

// checkUsed reports a teacher that scores no sample.
func (l teachers) checkUsed(sets *training.Sets) error {
	if len(l) == 1 {
		return nil
	}
	used := map[*teacher]bool{}
	for _, d := range []*data.Dataset{sets.Train, sets.Valid} {
		for i := 0; i < d.Len() && len(used) < len(l); i++ {
			row, err := d.Row(i)
			if err != nil {
				return err
			}
			for _, s := range row {
				used[l.of(s)] = true
			}
		}
	}
	for _, t := range l {
		if !used[t] {
			remedy := "leave the key out of some records"
			if t.name != "" {
				remedy = fmt.Sprintf("name it in records, \"teacher\": %q", t.name)
			}
			return fmt.Errorf("--teacher %s: no sample has this teacher; %s, or leave the teacher out", t.named(t.path), remedy)
		}
	}
	return nil
}

// files returns the files of all teachers.
func (l teachers) files() (list []cli.File) {
	for _, t := range l {
		list = append(list, t.files()...)
	}
	return list
}

// files returns the files of a teacher.
func (t *teacher) files() []cli.File {
	list := []cli.File{{Flag: "--teacher", Path: t.path}}
	for _, a := range t.lora {
		if path, err := runs.AdapterIn(a.Path); err == nil { // opening it reports the error
			list = append(list, cli.File{Flag: "--teacher-lora", Path: path})
		}
	}
	return list
}

// key identifies a teacher by the content of its files.
func (t *teacher) key() (string, error) {
	sum, err := t.p.Sum(t.files())
	if err != nil {
		return "", fmt.Errorf("--teacher: %w", err)
	}
	for _, a := range t.lora {
		sum += fmt.Sprintf(" %v", a.Scale)
	}
	return sum, nil
}

// named returns a text after the name of the teacher.
func (t *teacher) named(text string) string {
	if t.name != "" {
		return t.name + "=" + text
	}
	return text
}

// who names the teacher with its adapters.
func (t *teacher) who() string {
	parts := []string{t.named(t.path)}
	for _, a := range t.lora {
		part := a.Path
		if a.Scale != 1 {
			part += fmt.Sprintf("=%v", a.Scale)
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, " with ")
}

// String names the models, and says how much of the data one of another vocabulary scores.
func (l teachers) String() string {
	var names []string
	for _, t := range l {
		name := filepath.Base(t.path)
		if t.alignment != nil {
			name += fmt.Sprintf(" (its own vocabulary matches %.1f %% of the trained tokens)", 100*t.aligned)
		}
		names = append(names, name)
	}
	return strings.Join(slices.Compact(names), ", ")
}

// described names the teachers with the content of their files, once it is known.
func (l teachers) described() string {
	var list []string
	for _, t := range l {
		text := t.named(filepath.Base(t.path))
		if t.sum != "" {
			text += " " + t.sum[:8]
		}
		list = append(list, text)
	}
	return strings.Join(list, ", ")
}

func (l teachers) haveScores() bool {
	return slices.ContainsFunc(l, func(t *teacher) bool { return t.scores != nil })
}

// close closes all teachers and their scores.
func (l teachers) close() {
	for _, t := range l {
		t.close()
	}
}
