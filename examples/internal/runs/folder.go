// Package runs is the folder that a training run leaves: what is in it, and how other
// commands take a model, its adapter and what goes with them from there.
package runs

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/goggml/ggml/examples/internal/cli"
	"github.com/goggml/ggml/internal/filelink"
)

// Names of the files in a folder, where no flag gives others.
const (
	Adapter    = "adapter.gguf"
	Best       = "adapter-best.gguf"
	Checkpoint = "checkpoint.gguf"
	Metrics    = "metrics.jsonl"
	Loss       = "loss"
	Cache      = "cache"
	Config     = "config.yaml"
	Commands   = "commands.txt"
	manifest   = "manifest.json"
	Lock       = ".lock"
)

// A Manifest tells what a run computed with, on what, and where its results are. Paths are
// as in its configuration: relative in the folder, absolute outside of it.
type Manifest struct {
	Program string  `json:"program"`
	GGML    string  `json:"ggml"`
	Date    string  `json:"date"` // that chat templates see
	Seed    *int64  `json:"seed"`
	Steps   int     `json:"steps"` // of the whole run
	Adapter string  `json:"adapter"`
	Best    string  `json:"best"` // the adapter of the best evaluation, if there is one
	Metrics string  `json:"metrics"`
	Files   []Input `json:"files"`
}

// An Input is a file that a run read.
type Input struct {
	Flag   string `json:"flag"`
	Path   string `json:"path"`
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
}

// ReadManifest reads that of a folder; there is none in a folder of no run.
func ReadManifest(folder string) (m Manifest, found bool, err error) {
	path := filepath.Join(folder, manifest)
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) || err != nil && !isFolder(folder) {
		return m, false, nil
	}
	// A run of before a file could have another name has these.
	m = Manifest{Adapter: Adapter, Best: Best, Metrics: Metrics}
	if err == nil {
		err = json.Unmarshal(text, &m)
	}
	if err != nil {
		return m, false, fmt.Errorf("%s: %w", path, err)
	}
	return m, true, nil
}

// Write replaces the manifest of a folder.
func (m *Manifest) Write(folder string) error {
	text, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	return Replace(filepath.Join(folder, manifest), append(text, '\n'))
}

// Replace writes a file beside, and renames it.
func Replace(path string, text []byte) error {
	path, err := filelink.Target(path)
	if err != nil {
		return err
	}
	beside := path + ".new"
	if err := os.WriteFile(beside, text, 0o666); err != nil {
		os.Remove(beside)
		return cli.NameFile(err, path)
	}
	return os.Rename(beside, path)
}

func isFolder(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}
