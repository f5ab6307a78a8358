package training

import (
	"context"
	"fmt"
	"strings"

	"github.com/goggml/ggml/examples/internal/cli"
	"github.com/goggml/ggml/llm/data"
)

// Inspect checks the training data as a run reads it, and returns some of its samples.
func (f *DataFlags) Inspect(ctx context.Context, s Source, samples int) (*data.Inspection, error) {
	files, err := f.filesOf(trainFlag, f.TrainData)
	if err != nil {
		return nil, cli.DataError(trainFlag, strings.Join(f.TrainData, " "), err)
	}
	o, err := f.loadOptions(s, trainFlag, files)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", trainFlag, err)
	}
	o.Packed = f.Packing
	held := f.validSplits()
	if f.ValidData != "" {
		held = []string{f.ValidData}
		if _, err := data.Expand(held); err != nil {
			return nil, cli.DataError("--valid-data", f.ValidData, err)
		}
	}
	i, err := data.Inspect(ctx, s.Tokenizer, files, data.InspectOptions{LoadOptions: o, Held: held, Samples: samples})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", trainFlag, withFlag(err))
	}
	return i, nil
}

// FindingText returns the text of a finding, with the flags of its remedies.
func FindingText(f data.Finding) string { return f.Named(flagOfOption) }
