package run

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/goggml/ggml/internal/filelink"
)

// A Run reads the folder of a run, even while a process writes it.
type Run struct {
	Path     string
	Manifest Manifest
}

const maxLine = 1 << 20 // bytes per line of the metrics

var errNil = errors.New("the run is nil")

// A NotRunError reports a path that is not the folder of a run.
type NotRunError struct {
	Path   string
	IsFile bool
}

// Error describes the path.
func (e *NotRunError) Error() string {
	if e.IsFile {
		return e.Path + " is a file; name the folder of a run"
	}
	return e.Path + " is not the folder of a run: it has no " + manifest
}

// Open reads the manifest of a run's folder.
func Open(path string) (*Run, error) {
	if path == "" {
		return nil, errors.New("the run has no folder: its path is empty")
	}
	m, found, err := ReadManifest(path)
	switch {
	case err != nil:
		return nil, err
	case found:
		return &Run{path, m}, nil
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("there is no run %s: no such folder", path)
	}
	return nil, &NotRunError{path, !info.IsDir()}
}

// depth is the number of folder levels that List searches.
const depth = 2

// List opens the runs in a folder and up to two levels below, in the order of their names. err joins the errors of
// runs that cannot be opened.
func List(folder string) ([]*Run, error) {
	if _, err := os.ReadDir(folder); err != nil {
		return nil, err
	}
	var list []*Run
	err := walk(folder, depth, func(path string) error {
		r, err := Open(path)
		if err == nil {
			list = append(list, r)
		}
		return err
	})
	return list, err
}

// walk visits the folders of runs.
func walk(folder string, depth int, visit func(path string) error) error {
	if _, err := os.Stat(filepath.Join(folder, manifest)); err == nil {
		return visit(folder)
	}
	if depth == 0 {
		return nil
	}
	entries, err := os.ReadDir(folder)
	if errors.Is(err, os.ErrPermission) {
		return nil
	}
	errs := []error{err}
	for _, e := range entries {
		if path := filepath.Join(folder, e.Name()); !strings.HasPrefix(e.Name(), ".") && isFolder(path) {
			errs = append(errs, walk(path, depth-1, visit))
		}
	}
	return errors.Join(errs...)
}

// AdapterPath returns the best adapter on held-out data, or else the last one.
func (r *Run) AdapterPath() (string, error) {
	if r == nil {
		return "", errNil
	}
	best, last := r.file(r.Manifest.Best), r.file(r.Manifest.Adapter)
	// If the history has no best step, an earlier run in this folder wrote the file of the best adapter.
	if p, err := r.Progress(); exists(best) && (err != nil || p.Evaluated && p.BestStep > 0) {
		return best, nil
	}
	if exists(last) {
		return last, nil
	}
	return "", &NoResultError{r.Path}
}

// A NoResultError reports a run that has saved nothing yet.
type NoResultError struct{ Path string }

// Error says when the first result will be saved.
func (e *NoResultError) Error() string {
	return fmt.Sprintf("the run in %s has no adapter yet; it writes one at its first save, or at its end", e.Path)
}

func (r *Run) file(path string) string { return filelink.FromFolder(r.Path, path) }

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// Metrics iterates over the lines of steps and evaluations so far. It skips an incomplete last line, which is still
// being written; a broken line yields an error, and iteration continues.
func (r *Run) Metrics() iter.Seq2[Line, error] {
	return func(yield func(Line, error) bool) {
		if r == nil {
			yield(Line{}, errNil)
			return
		}
		if r.Manifest.Metrics == "" {
			yield(Line{}, fmt.Errorf("%s has no history", r.Path))
			return
		}
		file, info, err := filelink.Open(r.MetricsPath())
		if err != nil {
			yield(Line{}, err)
			return
		}
		defer file.Close()
		if info.Size() > filelink.MaxMetrics {
			yield(Line{}, fmt.Errorf("%s is larger than %d bytes", file.Name(), filelink.MaxMetrics))
			return
		}
		for lines, n := bufio.NewReaderSize(file, maxLine), 1; ; n++ {
			text, err := readLine(lines)
			switch {
			case err == io.EOF:
				return
			case err != nil && err != bufio.ErrBufferFull:
				yield(Line{}, err)
				return
			}
			line := Line{}
			if err == bufio.ErrBufferFull {
				err = fmt.Errorf("it is longer than %d bytes", maxLine)
			} else {
				line, err = ParseLine(text)
			}
			if err != nil {
				err = &lineError{file.Name(), n, err}
			}
			if !yield(line, err) {
				return
			}
		}
	}
}

// A lineError reports a line that cannot be parsed.
type lineError struct {
	path string
	n    int
	err  error
}

func (e *lineError) Error() string { return fmt.Sprintf("%s:%d: %v", e.path, e.n, e.err) }
func (e *lineError) Unwrap() error { return e.err }

// readLine reads a line; it returns [bufio.ErrBufferFull] if the line is too long.
func readLine(r *bufio.Reader) ([]byte, error) {
	line, err := r.ReadSlice('\n')
	tooLong := err == bufio.ErrBufferFull
	for err == bufio.ErrBufferFull {
		_, err = r.ReadSlice('\n')
	}
	if tooLong && err == nil {
		err = bufio.ErrBufferFull
	}
	return line, err
}

// MetricsPath returns the path of the metrics, or "" if the run writes none.
func (r *Run) MetricsPath() string {
	if r == nil || r.Manifest.Metrics == "" {
		return ""
	}
	return r.file(r.Manifest.Metrics)
}

// Progress says how far a run has come.
type Progress struct {
	Step      int
	Loss      float64 // training loss of the last step
	Evaluated bool    // there is a best evaluation
	BestLoss  float64 // loss on held-out data
	BestStep  int
	Taken     time.Duration // duration of all starts of the run, without the time between them
	Broken    int           // number of lines that cannot be parsed

	// Starts are the times of the commands that began or continued the run, see [Run.Starts]; without them Taken
	// stays 0.
	Starts []time.Time
	last   time.Time
}

// Add adds a line of the history.
func (p *Progress) Add(line Line) {
	p.addTime(line.Time)
	p.Step = max(p.Step, line.Step)
	if line.Loss != nil {
		p.Loss = *line.Loss
	}
	if line.EvalLoss != nil && (!p.Evaluated || *line.EvalLoss < p.BestLoss) {
		p.Evaluated, p.BestLoss, p.BestStep = true, *line.EvalLoss, line.Step
	}
}

// addTime adds the time since the line before, or since the start of the command that followed it.
func (p *Progress) addTime(text string) {
	at, err := time.Parse(time.RFC3339, text)
	if err != nil || !at.After(p.last) {
		return
	}
	from := p.last
	for _, start := range p.Starts {
		if start.After(from) && !start.After(at) {
			from = start
		}
	}
	if !from.IsZero() {
		p.Taken += at.Sub(from)
	}
	p.last = at
}

// Progress reads the history of the run. Broken lines are skipped and reported in err.
func (r *Run) Progress() (p Progress, err error) {
	p.Starts = r.Starts()
	for line, fault := range r.Metrics() {
		if fault != nil {
			err = cmp.Or(err, fault)
			if broken := (*lineError)(nil); errors.As(fault, &broken) {
				p.Broken++
			}
			continue
		}
		p.Add(line)
	}
	return p, err
}

// Time returns when the run began; see [Run.Starts] for when it was continued.
func (r *Run) Time() (time.Time, error) {
	if r == nil {
		return time.Time{}, errNil
	}
	path := filepath.Join(r.Path, Commands)
	text, err := filelink.Read(path, filelink.MaxText)
	if err != nil {
		return time.Time{}, err
	}
	if starts := startsIn(text); len(starts) > 0 {
		return starts[0], nil
	}
	return time.Time{}, fmt.Errorf("%s has no time", path)
}

// Starts returns when the run began and each time that it was continued, as far as the folder records it.
func (r *Run) Starts() []time.Time {
	if r == nil {
		return nil
	}
	text, _ := filelink.Read(filepath.Join(r.Path, Commands), filelink.MaxText) // another program's run may lack the file
	return startsIn(text)
}

// startsIn returns the times of commands; of a command with several lines, the first line has it.
func startsIn(commands []byte) (list []time.Time) {
	for line := range strings.Lines(string(commands)) {
		when, _, _ := strings.Cut(line, " ")
		if at, err := time.Parse(time.RFC3339, when); err == nil {
			list = append(list, at)
		}
	}
	return list
}
