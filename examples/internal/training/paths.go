package training

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/goggml/ggml/examples/internal/cli"
)

// A Path is a file that a flag names.
type Path struct{ Flag, Path string }

// CheckOutputs finds out before the work, not after it, that an output cannot
// be written, or would replace an input, another output, or the checkpoint of
// a run that is not continued. The files of Flags are taken into account.
func (f *Flags) CheckOutputs(inputs, outputs []Path) error {
	for _, path := range f.TrainData {
		inputs = append(inputs, Path{"--train-data", path})
	}
	inputs = append(inputs, Path{"--valid-data", f.ValidData})
	if f.LossCurve != "" {
		outputs = append(outputs, Path{"--loss-curve", f.LossCurve + ".svg"}, Path{"--loss-curve", f.LossCurve + ".png"})
	}
	for i, out := range outputs {
		others := append(inputs, outputs[:i]...)
		if err := check(out, append(others, Path{"--checkpoint-in", f.CheckpointIn})); err != nil {
			return err
		}
	}
	if err := check(Path{"--checkpoint-out", f.CheckpointOut}, append(inputs, outputs...)); err != nil {
		return err
	}
	if old, err := os.Stat(f.CheckpointOut); err == nil && old.Mode().IsRegular() && !same(f.CheckpointOut, f.CheckpointIn) {
		return fmt.Errorf("--checkpoint-out %[1]s would replace another run, which --checkpoint-in %[1]s continues; if you do not need it, delete the file", f.CheckpointOut)
	}
	return nil
}

func check(out Path, others []Path) error {
	if out.Path == "" {
		return nil
	}
	for _, other := range others {
		if same(out.Path, other.Path) {
			return fmt.Errorf("%s %s is the file of %s too; give it another name", out.Flag, out.Path, other.Flag)
		}
	}
	if err := cli.CheckWritable(out.Path); err != nil {
		return fmt.Errorf("%s %s cannot be written: %w", out.Flag, out.Path, err)
	}
	return nil
}

// same reports whether two paths lead to one regular file, or would.
func same(a, b string) bool {
	if b == "" {
		return false
	}
	x, err := os.Stat(a)
	if err != nil {
		a, errA := filepath.Abs(a)
		b, errB := filepath.Abs(b)
		return errA == nil && errB == nil && a == b
	}
	y, err := os.Stat(b)
	return err == nil && x.Mode().IsRegular() && os.SameFile(x, y)
}
