package run

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/goggml/ggml/internal/filelink"
	"github.com/goggml/ggml/internal/plainjson"
	"github.com/goggml/ggml/llm/data"
)

// A Manifest describes a run: its inputs, where it ran, and where its results are. Paths are relative inside the
// folder and absolute outside of it.
type Manifest struct {
	Program string  `json:"program"`
	GGML    string  `json:"ggml"`
	Date    string  `json:"date"` // the date that chat templates see
	Seed    *int64  `json:"seed"`
	Steps   int     `json:"steps"` // of the whole run
	Adapter string  `json:"adapter"`
	Best    string  `json:"best"` // the adapter with the best evaluation, if any
	Metrics string  `json:"metrics"`
	Files   []Input `json:"files"`
	State   State   `json:"state,omitempty"` // how the run last ended; "" while it runs, or if it was killed
}

// An Input is a file that a run reads.
type Input struct {
	Name   string `json:"flag"` // what the user calls it, such as a flag
	Path   string `json:"path"`
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
}

// ReadManifest reads the manifest of a folder; found is false if there is no run.
func ReadManifest(folder string) (m Manifest, found bool, err error) {
	path := filepath.Join(folder, manifest)
	text, err := filelink.Read(path, filelink.MaxText)
	if errors.Is(err, fs.ErrNotExist) || err != nil && !isFolder(folder) {
		return m, false, nil
	}
	// Older manifests lack these names, which were fixed then.
	m = Manifest{Adapter: Adapter, Best: Best, Metrics: Metrics}
	if err == nil {
		err = plainjson.Unmarshal(text, &m)
	}
	if err != nil {
		return m, false, fmt.Errorf("%s cannot be read: %w; restore it, or begin a run in another folder", path, filelink.SystemError(err))
	}
	return m, true, nil
}

func (m *Manifest) write(folder string) error {
	text, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	return filelink.Replace(filepath.Join(folder, manifest), append(text, '\n'))
}

// Is reports whether path is the folder of a run.
func Is(path string) bool {
	_, found, err := ReadManifest(path)
	return found && err == nil
}

func isFolder(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// A ChangedError reports an input that has changed since the run began.
type ChangedError struct {
	Folder string
	Input         // the present file
	Was    string // SHA-256 when the run began
}

// Error names the file, both hashes and the remedy.
func (e *ChangedError) Error() string {
	return fmt.Sprintf("%s %s is not the file that the run in %s began with: its SHA-256 is %s, but was %s; restore it, or begin a run in another folder",
		e.Name, e.Path, e.Folder, e.SHA256, e.Was)
}

// CheckInputs returns the regular files of read with their sizes, hashes, and paths as in the manifest. It returns a
// [*ChangedError] if a file differs from the one in the manifest before.
func (f *Folder) CheckInputs(before Manifest, hashes *data.Hashes, read []Input) ([]Input, error) {
	var list []Input
	var paths []string
	for _, in := range read {
		if info, err := os.Stat(in.Path); err == nil && info.Mode().IsRegular() {
			in.Bytes = info.Size()
			list, paths = append(list, in), append(paths, in.Path)
		}
	}
	sums, err := hashes.Of(paths...)
	if err != nil {
		return nil, err
	}
	was := map[string]string{}
	for _, in := range before.Files {
		was[in.Name+" "+in.Path] = in.SHA256
	}
	for i := range list {
		list[i].SHA256 = sums[i]
		path := filelink.ToFolder(f.Path, list[i].Path)
		if sum, known := was[list[i].Name+" "+path]; known && sum != sums[i] {
			return nil, &ChangedError{Folder: f.Path, Input: list[i], Was: sum}
		}
		list[i].Path = path
	}
	return list, nil
}
