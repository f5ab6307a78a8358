package runs

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/goggml/ggml/examples/internal/cli"
)

// A Run is the folder of a run as others see it.
type Run struct {
	Path     string
	Manifest Manifest
	config   *cli.Settings
}

// Open reads what a folder says of its run.
func Open(path string) (*Run, error) {
	m, found, err := ReadManifest(path)
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, notRun(path)
	}
	r := &Run{Path: path, Manifest: m}
	if r.config, err = cli.ReadSettings(filepath.Join(path, Config)); err != nil {
		return nil, err
	}
	return r, nil
}

// notRun says why a path is none of a run.
func notRun(path string) error {
	switch info, err := os.Stat(path); {
	case err != nil:
		return fmt.Errorf("there is no run %s: no such folder", path)
	case !info.IsDir():
		return fmt.Errorf("%s is a file; name the folder of a run, which --run-dir of finetune train made", path)
	}
	return fmt.Errorf("%s is no folder of a run: it has no %s, which a run writes where --run-dir names the folder", path, manifest)
}

// Is reports whether a path is the folder of a run.
func Is(path string) bool {
	_, found, err := ReadManifest(path)
	return found && err == nil
}

// Values are those of a flag in the configuration of the run, none where it is not given.
// Paths are usable from the working directory.
func (r *Run) Values(flag string) []string { return r.config.Values(flag) }

// Value is that of a flag with one, "" where it is not given.
func (r *Run) Value(flag string) string {
	if values := r.Values(flag); len(values) > 0 {
		return values[0]
	}
	return ""
}

// Paths are the values of a flag that names files.
func (r *Run) Paths(flag string) []string {
	var list []string
	for _, path := range r.Values(flag) {
		list = append(list, cli.FromFolder(r.config.Folder, path))
	}
	return list
}

// Model is the file of the model that the run trained on.
func (r *Run) Model() (string, error) {
	paths := r.Paths("model-base")
	if len(paths) == 0 {
		return "", fmt.Errorf("%s does not say which model the run is of; name it by --model", filepath.Join(r.Path, Config))
	}
	if _, err := os.Stat(paths[0]); err != nil {
		return "", fmt.Errorf("the model of %s, %s, is not there any more; say by --model where it is", r.Path, paths[0])
	}
	return paths[0], nil
}

// Overrides are the flags by which the run changed hyper-parameters of the model, and its
// adapter goes with them: no file that is made of both has them.
func (r *Run) Overrides() string {
	var list []string
	for _, flag := range []string{"norm-rms-eps", "rope-freq-base", "rope-freq-scale"} {
		if value := r.Value(flag); value != "" {
			list = append(list, cli.ShellArg("--"+flag, value))
		}
	}
	return strings.Join(list, " ")
}

// AdapterPath is the best adapter on held-out data, or else the last one.
func (r *Run) AdapterPath() (string, error) {
	best, last := r.file(r.Manifest.Best), r.file(r.Manifest.Adapter)
	// Where the history knows the best step, a file of another run that began here is not taken.
	if p, err := r.Progress(); exists(best) && (err != nil || p.Evaluated && p.BestStep > 0) {
		return best, nil
	}
	if exists(last) {
		return last, nil
	}
	return "", fmt.Errorf("the run in %s has no adapter yet; it writes one at its first save (--save-every), or at its end", r.Path)
}

// AdapterIn is the adapter of a run folder, and of any other path the path itself.
func AdapterIn(path string) (string, error) {
	if !Is(path) {
		return path, nil
	}
	r, err := Open(path)
	if err != nil {
		return "", err
	}
	return r.AdapterPath()
}

func (r *Run) file(path string) string { return cli.FromFolder(r.Path, path) }

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// Progress is how far a run has come.
type Progress struct {
	Step      int
	Loss      float64 // of training, in the last step
	Evaluated bool    // whether there is a best evaluation
	BestLoss  float64 // on held-out data
	BestStep  int
}

// Progress reads the history of the run.
func (r *Run) Progress() (p Progress, err error) {
	if r.Manifest.Metrics == "" {
		return p, fmt.Errorf("%s has no history", r.Path)
	}
	file, err := os.Open(r.file(r.Manifest.Metrics))
	if err != nil {
		return p, err
	}
	defer file.Close()
	for lines := json.NewDecoder(bufio.NewReader(file)); ; {
		var line struct {
			Step     int      `json:"step"`
			Loss     *float64 `json:"loss"`
			EvalLoss *float64 `json:"eval_loss"`
		}
		// A line that is being written ends in the middle.
		if err := lines.Decode(&line); err == io.EOF || errors.Is(err, io.ErrUnexpectedEOF) {
			return p, nil
		} else if err != nil {
			return p, fmt.Errorf("%s: %w", file.Name(), err)
		}
		p.Step = max(p.Step, line.Step)
		if line.Loss != nil {
			p.Loss = *line.Loss
		}
		if line.EvalLoss != nil && (!p.Evaluated || *line.EvalLoss < p.BestLoss) {
			p.Evaluated, p.BestLoss, p.BestStep = true, *line.EvalLoss, line.Step
		}
	}
}

// Time is when the run was begun or continued last.
func (r *Run) Time() (time.Time, error) {
	text, err := os.ReadFile(filepath.Join(r.Path, Commands))
	if err != nil {
		return time.Time{}, err
	}
	commands := strings.Split(strings.TrimSpace(string(text)), "\n")
	for i := len(commands) - 1; i >= 0; i-- { // of several lines, the first has the time
		when, _, _ := strings.Cut(commands[i], " ")
		if at, err := time.Parse(time.RFC3339, when); err == nil {
			return at, nil
		}
	}
	return time.Time{}, fmt.Errorf("%s has no time", filepath.Join(r.Path, Commands))
}
