package training

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"time"

	"github.com/alecthomas/kong"
	"golang.org/x/sync/errgroup"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/examples/internal/cli"
)

// A RunFolder has all that a run writes, and what tells what it was: the flags that were
// in effect, each command line that began or continued it, and the hashes of what was read.
type RunFolder struct{ Path string } // "" for none

// Files of the folder.
const (
	folderResult     = "adapter.gguf"
	folderCheckpoint = "checkpoint.gguf"
	folderMetrics    = "metrics.jsonl"
	folderLoss       = "loss"
	folderConfig     = "config.yaml"
	folderCommands   = "commands.txt"
	folderManifest   = "manifest.json"
)

// keptInFolder is how many of the newest saves stay in a folder.
const keptInFolder = 3

// Place makes the folder, and gives the outputs that no flag names their place in it.
func (r RunFolder) Place(f *Flags, result *string) error {
	if r.Path == "" {
		return nil
	}
	if err := os.MkdirAll(r.Path, 0o777); err != nil {
		return fmt.Errorf("--run-dir: %w", err)
	}
	for _, output := range []struct {
		path *string
		name string
	}{
		{result, folderResult}, {&f.CheckpointOut, folderCheckpoint}, {&f.CheckpointIn, folderCheckpoint},
		{&f.Metrics, folderMetrics}, {&f.LossCurve, folderLoss},
	} {
		if *output.path == "" {
			*output.path = filepath.Join(r.Path, output.name)
		}
	}
	if f.KeepLast < 0 {
		f.KeepLast = keptInFolder
	}
	return nil
}

// A manifest tells what a run computed with, and on what.
type manifest struct {
	Program string         `json:"program"`
	GGML    string         `json:"ggml"`
	Files   []manifestFile `json:"files"`
}

type manifestFile struct {
	Flag   string `json:"flag"`
	Path   string `json:"path"`
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
}

// Describe writes what the run is, or adds its continuation. A file that is not what it was
// when the run began is an error.
func (r RunFolder) Describe(f *Flags, flags []*kong.Flag, inputs []cli.File) error {
	if r.Path == "" {
		return nil
	}
	now, err := newManifest(append(inputs, f.files()...))
	if err != nil {
		return err
	}
	if err := r.compare(f, now); err != nil {
		return err
	}
	text, err := json.MarshalIndent(now, "", "  ")
	if err != nil {
		return err
	}
	var config bytes.Buffer
	if err := cli.WriteConfig(&config, flags); err != nil {
		return err
	}
	err = errors.Join(
		r.replace(folderManifest, append(text, '\n')),
		r.replace(folderConfig, config.Bytes()),
		r.appendCommand(),
	)
	if err != nil {
		return fmt.Errorf("--run-dir: %w", err)
	}
	return nil
}

// compare demands the files of the run that the folder has a checkpoint of.
func (r RunFolder) compare(f *Flags, now *manifest) error {
	if _, err := os.Stat(f.CheckpointIn); err != nil {
		return nil // a new run
	}
	path := filepath.Join(r.Path, folderManifest)
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var before manifest
	if err == nil {
		err = json.Unmarshal(text, &before)
	}
	if err != nil {
		return fmt.Errorf("--run-dir: %s: %w", path, err)
	}
	was := map[string]string{}
	for _, file := range before.Files {
		was[file.Flag+" "+file.Path] = file.SHA256
	}
	for _, file := range now.Files {
		if sum, known := was[file.Flag+" "+file.Path]; known && sum != file.SHA256 {
			return fmt.Errorf("%s %s is not the file that the run in %s began with: its SHA-256 is %s, and was %s; restore it, or begin a run in another folder", file.Flag, file.Path, r.Path, file.SHA256, sum)
		}
	}
	return nil
}

func newManifest(inputs []cli.File) (*manifest, error) {
	m := &manifest{Program: moduleVersion(), GGML: ggml.Version()}
	for _, in := range inputs {
		if info, err := os.Stat(in.Path); err == nil && info.Mode().IsRegular() {
			m.Files = append(m.Files, manifestFile{Flag: in.Flag, Path: in.Path, Bytes: info.Size()})
		}
	}
	var group errgroup.Group
	for i := range m.Files {
		group.Go(func() (err error) {
			m.Files[i].SHA256, err = hashFile(m.Files[i].Path)
			return err
		})
	}
	return m, group.Wait()
}

func hashFile(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	h := sha256.New()
	if _, err := io.Copy(h, file); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// moduleVersion is the version of this module that the program was built from.
func moduleVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	version := info.Main.Path + " " + info.Main.Version
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			version += " " + s.Value
		}
	}
	return version
}

// replace writes a file of the folder beside, and renames it.
func (r RunFolder) replace(name string, text []byte) error {
	path := filepath.Join(r.Path, name)
	beside := path + ".new"
	if err := os.WriteFile(beside, text, 0o666); err != nil {
		return errors.Join(err, os.Remove(beside))
	}
	return os.Rename(beside, path)
}

// appendCommand adds the command line of this process.
func (r RunFolder) appendCommand() error {
	file, err := os.OpenFile(filepath.Join(r.Path, folderCommands), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o666)
	if err != nil {
		return err
	}
	var words []string
	for _, arg := range os.Args {
		words = append(words, cli.ShellQuote(arg))
	}
	_, err = fmt.Fprintf(file, "%s  %s\n", time.Now().UTC().Format(time.RFC3339), strings.Join(words, " "))
	return errors.Join(err, file.Close())
}
