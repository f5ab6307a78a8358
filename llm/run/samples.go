package run

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io/fs"
	"slices"

	"github.com/goggml/ggml/internal/filelink"
)

// A Sample is a model's answer to a prompt after a step, a line of [Samples].
type Sample struct {
	Step   int    `json:"step"` // 0: the model before training
	Prompt string `json:"prompt"`
	Text   string `json:"text"`
}

// Samples reads the samples of the run, and skips broken lines.
func (r *Run) Samples() ([]Sample, error) {
	if r == nil {
		return nil, errNil
	}
	return readSamples(r.file(Samples))
}

func readSamples(path string) ([]Sample, error) {
	text, err := filelink.Read(path, filelink.MaxText)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var list []Sample
	for line := range bytes.Lines(text) {
		var s Sample
		if json.Unmarshal(line, &s) == nil && s.Prompt != "" {
			list = append(list, s)
		}
	}
	return list, err
}

// AddSample adds a sample of a run that has done the given number of steps. It drops existing samples of this and of
// later steps, which the run repeats after it continues from a checkpoint.
func (f *Folder) AddSample(s Sample, done int) error {
	if err := f.acquire("Folder.AddSample"); err != nil {
		return err
	}
	defer f.access.Release()
	list, err := readSamples(f.File(Samples))
	if err != nil {
		return err
	}
	list = append(slices.DeleteFunc(list, func(other Sample) bool {
		return other.Step > done || other.Step == s.Step && other.Prompt == s.Prompt
	}), s)
	slices.SortStableFunc(list, func(a, b Sample) int { return cmp.Compare(a.Step, b.Step) })
	var text bytes.Buffer
	lines := json.NewEncoder(&text)
	for _, s := range list {
		if err := lines.Encode(s); err != nil {
			return err
		}
	}
	return filelink.Replace(f.File(Samples), text.Bytes())
}
