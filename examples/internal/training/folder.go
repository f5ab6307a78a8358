package training

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/goggml/ggml/examples/internal/cli"
	"github.com/goggml/ggml/llm/run"
)

// A RunFolder holds all that a run writes, and its description: the flags in effect, each command line that
// started or continued it, and the hashes of its inputs.
type RunFolder struct {
	*run.Folder                   // nil if there is none
	isOwn       bool              // no flag named it
	placed      map[string]string // descriptions of files in the folder, by flag
	inputs      []run.Input
	date        string
	seed        int64
}

// OpenRunFolder creates the folder if it does not exist, and locks it for this process. Of several processes,
// only the one that writes does so.
func (f *Flags) OpenRunFolder(path string) (*RunFolder, error) {
	if path == "" || !f.Group().Writes() {
		return &RunFolder{}, nil
	}
	folder, err := run.Create(path)
	if err != nil {
		return nil, fmt.Errorf("--run-dir: %w", err)
	}
	return &RunFolder{Folder: folder}, nil
}

// ownFolders is the parent of the folders of runs whose flags name none.
const ownFolders = "runs"

// OpenOwnFolder creates a folder for a run whose flags name none. It is named after the model and the data. To
// continue the run, the folder must be named by a flag.
func OpenOwnFolder(model, data string) (*RunFolder, error) {
	folder, err := run.CreateNew(ownFolders, stem(model)+"-"+stem(data))
	if err != nil {
		return nil, fmt.Errorf("cannot create a folder for the run in %s (--run-dir names another place): %w", ownFolders, err)
	}
	return &RunFolder{Folder: folder, isOwn: true}, nil
}

// stem returns the name of a file without folder and extension.
func stem(path string) string {
	if path == "-" {
		return "stdin"
	}
	name := filepath.Base(filepath.Clean(path))
	if short := strings.TrimSuffix(name, filepath.Ext(name)); short != "" {
		name = short
	}
	const longest = 60 // most file systems limit a name to 255 bytes
	runes := []rune(strings.Trim(name, ".-"))
	return string(runes[:min(len(runes), longest)])
}

// Name reports the folder of a run whose flags name none, otherwise "".
func (r *RunFolder) Name() string {
	if !r.isOwn {
		return ""
	}
	return fmt.Sprintf("the run is in %s; %s continues it", r.Path, cli.ShellArg("--run-dir", r.Path))
}

// An Output is a file of a run: the flag that names it, a description, its path, and its name in the run's
// folder.
type Output struct {
	Flag, What string
	Path       *string
	Name       string
}

// Place puts the outputs that no flag names into the folder. A continued run keeps its seed and its date,
// unless flags set them.
func (r *RunFolder) Place(f *Flags, result Output) error {
	if r.Folder == nil {
		return nil
	}
	r.placed = map[string]string{}
	for _, output := range []Output{
		result, {"checkpoint-out", "checkpoint", &f.CheckpointOut, run.Checkpoint},
		{"checkpoint-in", "checkpoint", &f.CheckpointIn, run.Checkpoint}, {"metrics", "metrics", &f.Metrics, run.Metrics},
		{"loss-curve", "loss curve", &f.LossCurve, run.Loss}, {"cache-dir", "cache", &f.CacheDir, run.Cache},
	} {
		if *output.Path == "" {
			*output.Path = r.File(output.Name)
			r.placed[output.Flag] = output.What
		}
	}
	f.placed, f.events = r.placed, r.Path
	if r.isOwn {
		f.ownFolder = r.Path
	}
	if f.KeepLast < 0 {
		f.KeepLast = run.Kept
	}
	before, err := r.Continued(f.CheckpointIn)
	if err != nil {
		return fmt.Errorf("--run-dir: %w", err)
	}
	if f.Seed < 0 && before.Seed != nil {
		f.Seed = *before.Seed
	}
	f.TemplateDate = cmp.Or(f.TemplateDate, before.Date, time.Now().Format(time.DateOnly))
	return nil
}

// Check returns an error if a file has changed since the run of the folder started.
func (r *RunFolder) Check(f *Flags, inputs []cli.File) error {
	if r.Folder == nil {
		return nil
	}
	r.date, r.seed = f.TemplateDate, f.Seed
	before, err := r.Continued(f.CheckpointIn)
	if err != nil {
		return fmt.Errorf("--run-dir: %w", err)
	}
	var read []run.Input
	for _, file := range append(inputs, f.Files()...) {
		read = append(read, run.Input{Name: file.Flag, Path: file.Path})
	}
	r.inputs, err = r.CheckInputs(before, &f.hashes, read)
	return err
}

// A Description describes a run.
type Description struct {
	Flags    []*kong.Flag            // in effect
	Resolved map[string]cli.Resolved // values of flags that leave a choice to the run
	Steps    int
	Result   run.SavedFile
	Metrics  string
}

// Describe writes the description of the run that starts or continues now; call Check first. It omits flags of
// files inside the folder, so that a run with the same configuration in another folder gets its own files.
func (r *RunFolder) Describe(d Description) error {
	if r.Folder == nil {
		return nil
	}
	var config bytes.Buffer
	flags := slices.DeleteFunc(slices.Clone(d.Flags), func(f *kong.Flag) bool { return r.placed[f.Name] != "" })
	if err := cli.WriteConfig(&config, flags, cli.ConfigOptions{Folder: r.Path, Resolved: d.Resolved}); err != nil {
		return err
	}
	var words []string
	for _, arg := range os.Args {
		words = append(words, cli.ShellQuote(arg))
	}
	err := r.Folder.Describe(run.Manifest{
		Date: r.date, Seed: &r.seed, Steps: d.Steps, Adapter: d.Result.LatestPath(), Best: d.Result.BestPath(), Metrics: d.Metrics, Files: r.inputs,
	})
	if err == nil {
		err = r.WriteConfig(config.Bytes())
	}
	if err == nil {
		err = r.AddCommand(strings.Join(words, " "))
	}
	if err != nil {
		return fmt.Errorf("--run-dir: %w", err)
	}
	return nil
}
