package training

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/goggml/ggml/examples/internal/cli"
	"github.com/goggml/ggml/llm/run"
)

// Result returns the file that the run writes at each save.
func (f *RunFlags) Result(name, path string) run.SavedFile {
	return run.SavedFile{File: run.File{Name: name, Path: path}, Iteration: f.PatternFnIt, Latest: f.FnLatest, Keep: f.KeepLast}
}

// Checkpoint returns the file of --checkpoint-out.
func (f *RunFlags) Checkpoint() run.SavedFile {
	return f.Result(f.Named("checkpoint-out"), f.CheckpointOut)
}

// LatestFile returns a saved file under its latest name.
func LatestFile(f run.SavedFile) cli.File { return cli.File{Flag: f.Name, Path: f.LatestPath()} }

// TakeOutputs reports, before the work starts, an output that cannot be written, that would replace an input,
// another output, or the checkpoint of a run that is not continued, or that another process is writing. It
// includes the files of Flags. Other processes may write the outputs once the locks are closed.
func (f *Flags) TakeOutputs(inputs []cli.File, result run.SavedFile) (*cli.OutputLocks, error) {
	inputs = append(inputs, f.Files()...)
	for _, saved := range []run.SavedFile{result, f.Checkpoint()} {
		for _, in := range inputs {
			if in.Path != "" && in.Path != saved.LatestPath() && saved.Writes(in.Path) {
				return nil, fmt.Errorf("saves of %s %s would replace %s %s; give it another name", saved.Name, saved.Path, in.Flag, in.Path)
			}
		}
	}
	outputs := []cli.File{LatestFile(result), {Flag: f.Named("metrics"), Path: f.Metrics}}
	if f.LossCurve != "" {
		for _, format := range []string{".svg", ".png"} {
			outputs = append(outputs, cli.File{Flag: f.Named("loss-curve"), Path: f.LossCurve + format})
		}
	}
	own := []string{f.events} // folders of this run
	if f.CheckpointIn != "" {
		own = append(own, filepath.Dir(f.CheckpointIn))
	}
	old := cli.File{Flag: f.Named("checkpoint-in"), Path: f.CheckpointIn}
	if err := cli.CheckOutputs(append(inputs[:len(inputs):len(inputs)], old), outputs, own...); err != nil {
		return nil, err
	}
	// Only the checkpoint may replace the file that it continues.
	checkpoint := LatestFile(f.Checkpoint())
	if err := cli.CheckOutputs(append(inputs, outputs...), []cli.File{checkpoint}, own...); err != nil {
		return nil, err
	}
	locks, err := cli.LockOutputs(append(outputs, checkpoint))
	if err != nil {
		return nil, err
	}
	if info, err := os.Stat(checkpoint.Path); err == nil && info.Mode().IsRegular() && !cli.SameFile(checkpoint.Path, f.CheckpointIn) {
		locks.Close()
		return nil, fmt.Errorf("%s %s would replace the checkpoint of another run; %s continues that run; if you do not need it, delete the file", checkpoint.Flag, checkpoint.Path, cli.ShellArg("--checkpoint-in", checkpoint.Path))
	}
	return locks, nil
}
