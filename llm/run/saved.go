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

// A File is a file that a run writes.
type File struct {
	Name string // name in errors, such as a flag; may be ""
	Path string // "" if it is not written
}

func (f File) named(err error) error {
	if err != nil && f.Name != "" {
		return fmt.Errorf("%s: %w", f.Name, err)
	}
	return err
}

// A SavedFile is a file that a run writes at each save. If its name contains the word Iteration, each save has its
// own file, with the step in place of the word, and the last one has Latest in its place. Without the word, kept
// files have the step before their extension.
type SavedFile struct {
	File
	Iteration, Latest string // placeholder in the name, and its value for the last save
	// Keep is the number of newest saves that stay. -1 means all if the name contains the word, and none otherwise.
	Keep int
}

// numbered reports whether each save has its own file.
func (f SavedFile) numbered() bool {
	return filelink.IsReplaced(f.LatestPath()) && (f.Keep > 0 || f.Keep < 0 && f.hasWord())
}

func (f SavedFile) hasWord() bool {
	return f.Iteration != "" && strings.Contains(filepath.Base(f.Path), f.Iteration)
}

// with replaces the word by text, or inserts text before the extension.
func (f SavedFile) with(text string) string {
	folder, name := filepath.Split(f.Path)
	if f.hasWord() {
		return folder + strings.ReplaceAll(name, f.Iteration, text)
	}
	ext := filepath.Ext(name)
	return folder + strings.TrimSuffix(name, ext) + "-" + text + ext
}

// LatestPath returns the path of the last save.
func (f SavedFile) LatestPath() string {
	if f.hasWord() {
		return f.with(f.Latest)
	}
	return f.Path
}

// Writes reports whether a path is a file of a save: the last one, the best, or a step's.
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

// BestPath returns the path of the save with the best evaluation.
func (f SavedFile) BestPath() string { return f.with("best") }

// Save writes the file of a step, and removes old saves beyond Keep.
func (f SavedFile) Save(step int, write func(path string) error) error {
	if write == nil {
		return f.named(errors.New("the function that writes it is nil"))
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

// prune removes the oldest saves, of steps up to the given one, beyond Keep.
func (f SavedFile) prune(step int) error {
	if f.Keep < 0 {
		return nil
	}
	steps, err := f.savedSteps()
	if err != nil {
		return err
	}
	steps = slices.DeleteFunc(steps, func(s int) bool { return s > step }) // files of an earlier run
	for _, old := range steps[:max(0, len(steps)-f.Keep)] {
		if err := os.Remove(f.with(fmt.Sprint(old))); err != nil {
			return err
		}
	}
	return nil
}

// savedSteps lists the steps that have files, in ascending order.
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

// stepOf parses the step in the name of a save's file.
func (f SavedFile) stepOf(name string) (step int, ok bool) {
	const mark = "\x00"
	before, after, _ := strings.Cut(filepath.Base(f.with(mark)), mark)
	middle, begins := strings.CutPrefix(name, before)
	middle, ends := strings.CutSuffix(middle, after)
	step, err := strconv.Atoi(middle)
	return step, begins && ends && err == nil && strconv.Itoa(step) == middle
}
