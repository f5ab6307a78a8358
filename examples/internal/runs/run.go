// Package runs reads from the folder of a training run what commands need: the model, its adapter and their
// settings.
package runs

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/goggml/ggml/examples/internal/cli"
	"github.com/goggml/ggml/llm/run"
)

// A Run is the folder of a run, with its flags.
type Run struct {
	*run.Run
	config *cli.Settings
}

// Open reads the files that describe a run.
func Open(path string) (*Run, error) {
	r, err := run.Open(path)
	var other *run.NotRunError
	switch {
	case errors.As(err, &other) && other.IsFile:
		return nil, fmt.Errorf("%w, such as the --run-dir of finetune train", err)
	case errors.As(err, &other):
		return nil, fmt.Errorf("%w; a run writes it into its --run-dir", err)
	case err != nil:
		return nil, err
	}
	return withConfig(r)
}

func withConfig(r *run.Run) (*Run, error) {
	config, err := cli.ReadSettings(filepath.Join(r.Path, run.Config))
	if errors.Is(err, os.ErrNotExist) { // written by another program
		config, err = &cli.Settings{}, nil
	}
	return &Run{r, config}, err
}

// Values returns the values of a flag in the run's configuration, or nil if it is not set. Paths are valid from
// the working directory.
func (r *Run) Values(flag string) []string { return r.config.Values(flag) }

// Value returns the value of a single-valued flag, or "" if it is not set.
func (r *Run) Value(flag string) string {
	if values := r.Values(flag); len(values) > 0 {
		return values[0]
	}
	return ""
}

// Paths returns the values of a flag that names files.
func (r *Run) Paths(flag string) []string {
	var list []string
	for _, path := range r.Values(flag) {
		list = append(list, r.config.Path(path))
	}
	return list
}

// Model returns the file of the model that the run trained.
func (r *Run) Model() (string, error) {
	paths := r.Paths("model-base")
	if len(paths) == 0 {
		return "", fmt.Errorf("%s does not name the model of the run; give it with --model", filepath.Join(r.Path, run.Config))
	}
	if _, err := os.Stat(paths[0]); err != nil {
		return "", fmt.Errorf("the model of %s, %s, no longer exists; give its new path with --model", r.Path, paths[0])
	}
	return paths[0], nil
}

// Overrides returns the flags with which the run changed hyper-parameters of the model. The adapter needs them,
// and a file merged from both lacks them.
func (r *Run) Overrides() string {
	var list []string
	for _, flag := range []string{"norm-rms-eps", "rope-freq-base", "rope-freq-scale"} {
		if value := r.Value(flag); value != "" {
			list = append(list, cli.ShellArg("--"+flag, value))
		}
	}
	return strings.Join(list, " ")
}

// AdapterPath returns the adapter that is best on held-out data, or the last one without such data.
func (r *Run) AdapterPath() (string, error) {
	path, err := r.Run.AdapterPath()
	var none *run.NoResultError
	if errors.As(err, &none) {
		return "", fmt.Errorf("the run in %s has no adapter yet; it writes one at its first save (--save-every) or at its end", r.Path)
	}
	return path, err
}

// AdapterIn returns the adapter of a run's folder, and any other path unchanged.
func AdapterIn(path string) (string, error) {
	if !run.Is(path) {
		return path, nil
	}
	r, err := Open(path)
	if err != nil {
		return "", err
	}
	return r.AdapterPath()
}
