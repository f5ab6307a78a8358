package run

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/goggml/ggml/internal/filelink"
)

// A File is one that a run writes.
type File struct {
	Name string // what errors call it, such as a flag; may be ""
	Path string // "" where it is not written
}

func (f File) named(err error) error {
	if err != nil && f.Name != "" {
		return fmt.Errorf("%s: %w", f.Name, err)
	}
	return err
}

// A SavedFile is a file that a run writes at each save. Its name may hold a word for the
// step (ITERATION): then each save has a file of its own, and Latest stands for the word
// in the name of the last one. The names of kept files without such a word get the step
// before their extension.
type SavedFile struct {
	File
	Iteration, Latest string // words of the name
	// Keep is how many files of earlier saves stay: the newest; -1 stands for all where the
	// name holds the word, and none else.
	Keep int
}

// numbered reports whether saves have files of their own.
func (f SavedFile) numbered() bool {
	return filelink.IsReplaced(f.LatestPath()) && (f.Keep > 0 || f.Keep < 0 && f.hasWord())
}

func (f SavedFile) hasWord() bool {
	return f.Iteration != "" && strings.Contains(filepath.Base(f.Path), f.Iteration)
}

// with puts a text in the place of the word, or before the extension.
func (f SavedFile) with(text string) string {
	folder, name := filepath.Split(f.Path)
	if f.hasWord() {
		return folder + strings.ReplaceAll(name, f.Iteration, text)
	}
	ext := filepath.Ext(name)
	return folder + strings.TrimSuffix(name, ext) + "-" + text + ext
}

// LatestPath is the file of the last save.
func (f SavedFile) LatestPath() string {
	if f.hasWord() {
		return f.with(f.Latest)
	}
	return f.Path
}

// Writes reports whether a path is a file of a save: the last one, the best, or the one of some step.
func (f SavedFile) Writes(path string) bool {
	folder, err := os.Stat(filepath.Dir(f.LatestPath()))
	other, otherErr := os.Stat(filepath.Dir(path))
	if f.Path == "" || err != nil || otherErr != nil || !os.SameFile(folder, other) {
		return false
	}
	name := filepath.Base(path)
	_, isNumbered := f.stepOf(name)
	return isNumbered && f.numbered() || name == filepath.Base(f.LatestPath()) || name == filepath.Base(f.BestPath())
}

// BestPath is the file of the best evaluation.
func (f SavedFile) BestPath() string { return f.with("best") }

// Save writes the file of a step, and removes those that are too many.
func (f SavedFile) Save(step int, write func(path string) error) error {
	if write == nil {
		return f.named(errors.New("there is no function that writes it: it is nil"))
	}
	if !f.numbered() {
		return f.named(write(f.LatestPath()))
	}
	own := f.with(fmt.Sprint(step))
	if err := write(own); err != nil {
		return f.named(err)
	}
	if err := filelink.Link(own, f.LatestPath()); err != nil {
		// Some file systems have no links.
		if err := write(f.LatestPath()); err != nil {
			return f.named(err)
		}
	}
	return f.named(f.prune(step))
}

// prune removes the files of the oldest saves up to a step.
func (f SavedFile) prune(step int) error {
	if f.Keep < 0 {
		return nil
	}
	steps, err := f.savedSteps()
	if err != nil {
		return err
	}
	steps = slices.DeleteFunc(steps, func(s int) bool { return s > step }) // of another run
	for _, old := range steps[:max(0, len(steps)-f.Keep)] {
		if err := os.Remove(f.with(fmt.Sprint(old))); err != nil {
			return err
		}
	}
	return nil
}

// savedSteps lists the steps of which there are files, in their order.
func (f SavedFile) savedSteps() ([]int, error) {
	entries, err := os.ReadDir(filepath.Dir(f.Path))
	if err != nil {
		return nil, err
	}
	var steps []int
	for _, e := range entries {
		if step, ok := f.stepOf(e.Name()); ok {
			steps = append(steps, step)
		}
	}
	slices.Sort(steps)
	return steps, nil
}

// stepOf is the step in the name of the file of a save.
func (f SavedFile) stepOf(name string) (step int, ok bool) {
	const mark = "\x00"
	before, after, _ := strings.Cut(filepath.Base(f.with(mark)), mark)
	middle, begins := strings.CutPrefix(name, before)
	middle, ends := strings.CutSuffix(middle, after)
	step, err := strconv.Atoi(middle)
	return step, begins && ends && err == nil && strconv.Itoa(step) == middle
}
