package training

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/examples/internal/cli"
	"github.com/goggml/ggml/examples/internal/runs"
	"github.com/goggml/ggml/internal/filelink"
	"github.com/goggml/ggml/internal/filelock"
	"github.com/goggml/ggml/llm/data"
)

// A RunFolder has all that a run writes, and what tells what it was: the flags that were
// in effect, each command line that began or continued it, and the hashes of what was read.
// One process at a time has it.
type RunFolder struct {
	Path   string // "" for none
	isOwn  bool   // no flag has named it
	lock   *os.File
	placed []string // flags whose files the folder has a place for
	now    *runs.Manifest
}

// OpenRunFolder makes the folder, if need be, and takes it for this process.
func OpenRunFolder(path string) (*RunFolder, error) {
	r := &RunFolder{Path: path}
	if path == "" {
		return r, nil
	}
	if err := r.open(); err != nil {
		return nil, fmt.Errorf("--run-dir: %w", err)
	}
	return r, nil
}

func (r *RunFolder) open() error {
	if err := filelink.MkdirAll(r.Path, 0o777); err != nil {
		return err
	}
	var err error
	if r.lock, err = os.OpenFile(filepath.Join(r.Path, runs.Lock), os.O_CREATE|os.O_RDWR, 0o666); err != nil {
		return err
	}
	// The lock ends with the process, however that ends. Some file systems have none.
	if err := filelock.Lock(r.lock); errors.Is(err, filelock.ErrLocked) {
		r.lock.Close()
		return fmt.Errorf("another process is writing the run in %s; wait for its end, or name another folder", r.Path)
	}
	return nil
}

// Close lets other processes have the folder.
func (r *RunFolder) Close() error {
	if r.lock == nil {
		return nil
	}
	return errors.Join(r.removeUnused(), r.lock.Close())
}

// keptInFolder is how many of the newest saves stay in a folder.
const keptInFolder = 3

// Place gives the outputs that no flag names their place in the folder. A run that goes on
// has the seed and the date of its beginning, where the flags leave them open.
func (r *RunFolder) Place(f *Flags, result *string) error {
	if r.Path == "" {
		return nil
	}
	for _, output := range []struct {
		flag string
		path *string
		name string
	}{
		{"lora-out", result, runs.Adapter}, {"checkpoint-out", &f.CheckpointOut, runs.Checkpoint},
		{"checkpoint-in", &f.CheckpointIn, runs.Checkpoint}, {"metrics", &f.Metrics, runs.Metrics},
		{"loss-curve", &f.LossCurve, runs.Loss}, {"cache-dir", &f.CacheDir, runs.Cache},
	} {
		if *output.path == "" {
			*output.path = filepath.Join(r.Path, output.name)
			r.placed = append(r.placed, output.flag)
		}
	}
	f.hasFolder = slices.Contains(r.placed, "checkpoint-in")
	if r.isOwn {
		f.ownFolder = r.Path
	}
	if f.KeepLast < 0 {
		f.KeepLast = keptInFolder
	}
	before, err := r.readManifest(f)
	if err != nil {
		return fmt.Errorf("--run-dir: %w", err)
	}
	if f.Seed < 0 && before.Seed != nil {
		f.Seed = *before.Seed
	}
	f.TemplateDate = cmp.Or(f.TemplateDate, before.Date, time.Now().Format(time.DateOnly))
	return nil
}

// Check demands that no file has changed since the run of the folder began.
func (r *RunFolder) Check(f *Flags, inputs []cli.File) error {
	if r.Path == "" {
		return nil
	}
	var err error
	if r.now, err = newManifest(append(inputs, f.files()...), &f.hashes); err != nil {
		return err
	}
	r.now.Date, r.now.Seed = f.TemplateDate, &f.Seed
	before, err := r.readManifest(f)
	if err != nil {
		return fmt.Errorf("--run-dir: %w", err)
	}
	was := map[string]string{}
	for _, file := range before.Files {
		was[file.Flag+" "+file.Path] = file.SHA256
	}
	for i, file := range r.now.Files {
		r.now.Files[i].Path = cli.ToFolder(r.Path, file.Path)
		if sum, known := was[file.Flag+" "+r.now.Files[i].Path]; known && sum != file.SHA256 {
			return fmt.Errorf("%s %s is not the file that the run in %s began with: its SHA-256 is %s, and was %s; restore it, or begin a run in another folder", file.Flag, file.Path, r.Path, file.SHA256, sum)
		}
	}
	return nil
}

// A Description is what a run is.
type Description struct {
	Flags    []*kong.Flag            // in effect
	Resolved map[string]cli.Resolved // what became of flags that leave something to the run
	Steps    int
	Result   SavedFile
	Metrics  string
}

// Describe writes what the run is that begins or goes on now, after Check. Flags whose
// files have their place in the folder are left out: a run in another folder by the same
// configuration has its own.
func (r *RunFolder) Describe(d Description) error {
	if r.Path == "" {
		return nil
	}
	r.now.Steps, r.now.Metrics = d.Steps, cli.ToFolder(r.Path, d.Metrics)
	r.now.Adapter, r.now.Best = cli.ToFolder(r.Path, d.Result.LatestPath()), cli.ToFolder(r.Path, d.Result.BestPath())
	var config bytes.Buffer
	flags := slices.DeleteFunc(slices.Clone(d.Flags), func(f *kong.Flag) bool { return slices.Contains(r.placed, f.Name) })
	if err := cli.WriteConfig(&config, flags, cli.ConfigOptions{Folder: r.Path, Resolved: d.Resolved}); err != nil {
		return err
	}
	err := r.now.Write(r.Path)
	if err == nil {
		err = runs.Replace(filepath.Join(r.Path, runs.Config), config.Bytes())
	}
	if err == nil {
		err = r.appendCommand()
	}
	if err != nil {
		return fmt.Errorf("--run-dir: %w", err)
	}
	return nil
}

// readManifest reads that of the run which the flags continue; it is empty where there is
// none.
func (r *RunFolder) readManifest(f *Flags) (runs.Manifest, error) {
	if _, err := os.Stat(f.CheckpointIn); err != nil {
		return runs.Manifest{}, nil // a new run
	}
	before, _, err := runs.ReadManifest(r.Path)
	return before, err
}

func newManifest(inputs []cli.File, hashes *data.Hashes) (*runs.Manifest, error) {
	m := &runs.Manifest{Program: moduleVersion(), GGML: ggml.Version()}
	var paths []string
	for _, in := range inputs {
		if info, err := os.Stat(in.Path); err == nil && info.Mode().IsRegular() {
			m.Files = append(m.Files, runs.Input{Flag: in.Flag, Path: in.Path, Bytes: info.Size()})
			paths = append(paths, in.Path)
		}
	}
	sums, err := hashes.Of(paths...)
	if err != nil {
		return nil, err
	}
	for i, sum := range sums {
		m.Files[i].SHA256 = sum
	}
	return m, nil
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

// appendCommand adds the command line of this process.
func (r *RunFolder) appendCommand() error {
	var words []string
	for _, arg := range os.Args {
		words = append(words, cli.ShellQuote(arg))
	}
	line := fmt.Sprintf("%s  %s\n", time.Now().UTC().Format(time.RFC3339), strings.Join(words, " "))
	return cli.Append(filepath.Join(r.Path, runs.Commands), []byte(line))
}
