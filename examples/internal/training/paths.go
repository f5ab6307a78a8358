package training

import (
	"fmt"
	"os"

	"github.com/goggml/ggml/examples/internal/cli"
)

// CheckOutputs finds out before the work, not after it, that an output cannot
// be written, or would replace an input, another output, or the checkpoint of
// a run that is not continued. The files of Flags are taken into account.
func (f *Flags) CheckOutputs(inputs, outputs []cli.File) error {
	for _, path := range f.TrainData {
		inputs = append(inputs, cli.File{Flag: "--train-data", Path: path})
	}
	inputs = append(inputs, cli.File{Flag: "--valid-data", Path: f.ValidData})
	if f.LossCurve != "" {
		outputs = append(outputs, cli.File{Flag: "--loss-curve", Path: f.LossCurve + ".svg"}, cli.File{Flag: "--loss-curve", Path: f.LossCurve + ".png"})
	}
	old := cli.File{Flag: "--checkpoint-in", Path: f.CheckpointIn}
	if err := cli.CheckOutputs(append(inputs[:len(inputs):len(inputs)], old), outputs); err != nil {
		return err
	}
	// Only the checkpoint may be the file of the one that it continues.
	if err := cli.CheckOutputs(append(inputs, outputs...), []cli.File{{Flag: "--checkpoint-out", Path: f.CheckpointOut}}); err != nil {
		return err
	}
	if info, err := os.Stat(f.CheckpointOut); err == nil && info.Mode().IsRegular() && !cli.SameFile(f.CheckpointOut, f.CheckpointIn) {
		return fmt.Errorf("--checkpoint-out %[1]s would replace another run, which --checkpoint-in %[1]s continues; if you do not need it, delete the file", f.CheckpointOut)
	}
	return nil
}
