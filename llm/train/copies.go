package train

import (
	"cmp"
	"context"
	"slices"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/llm/device"
	"github.com/goggml/ggml/llm/model"
)

// buildWithCopies builds the graph of a step once more, with copies of frozen weights: of those of each
// device as much as Options.WeightCopies says, or as fits beside a step without copies into four fifths
// of its memory. Nothing is allocated yet.
func (t *Trainer) buildWithCopies() error {
	want := t.options.WeightCopies
	if want == nil && !t.engine.TakesCopies() || want != nil && *want == model.KeptNone {
		return nil
	}
	need, err := t.need()
	if err != nil {
		return err
	}
	need[len(need)-1] += t.mapped()
	most := model.KeptFolded
	kept := slices.Repeat([]model.Kept{*cmp.Or(want, &most)}, len(need))
	if err := t.keepCopies(kept); err != nil || want != nil {
		return err
	}
	fits := t.tiersThatFit(need)
	if slices.Equal(fits, kept) {
		return nil
	}
	return t.keepCopies(fits)
}

// tiersThatFit are the most that each device can keep beside what a step needs. Adapters are folded on
// all or on none, so that it is one fact of a run by what it rounds.
func (t *Trainer) tiersThatFit(need device.Sizes) []model.Kept {
	available := availableMemory(t.engine)
	fits := func(device int, k model.Kept) bool {
		return need[device]+t.copies.SizesOf(k)[device] <= available[device]/5*4
	}
	kept, folded := make([]model.Kept, len(need)), true
	for i := range kept {
		folded = folded && fits(i, model.KeptFolded)
		for k := model.KeptMatrix; k <= model.KeptBoth && fits(i, k); k++ {
			kept[i] = k
		}
	}
	if folded {
		return slices.Repeat([]model.Kept{model.KeptFolded}, len(need))
	}
	return kept
}

// keepCopies builds the graph of a step with so much on each device.
func (t *Trainer) keepCopies(kept []model.Kept) error {
	c, err := t.m.NewCopies(t.engine, t.options.ComputeType, kept)
	if err != nil {
		return err
	}
	t.copies.Close()
	t.copies = c
	return t.buildGraphs(t.checkpointing)
}

// makeCopies allocates the copies of weights, and fills them.
func (t *Trainer) makeCopies() error {
	if t.copies == nil {
		return nil
	}
	if err := t.copies.Allocate(); err != nil {
		return err
	}
	return t.copies.Fill(context.Background())
}

// resumeCopies folds no adapters where the run of a checkpoint did not, if that is left to the trainer:
// rounding is the same then.
func (t *Trainer) resumeCopies(g *ggml.GGUF) error {
	was, err := ggml.GGUFValue[string](g, freeKeys+idFolded)
	if t.options.WeightCopies != nil || err != nil || was == folded(t.copies.HasFolded()) || !t.copies.HasFolded() {
		return nil // it does not fit here, or is the same
	}
	if err := t.keepCopies(slices.Repeat([]model.Kept{model.KeptBoth}, len(t.engine.Devices()))); err != nil {
		return err
	}
	return t.makeCopies()
}

// folded is where adapters are added up, as checkpoints have it.
func folded(on bool) string {
	if on {
		return "in products with weights"
	}
	return "apart"
}

// WeightCopies says what devices keep of frozen weights, and in how much memory, such as "weights in bf16,
// also transposed, on CUDA0: 4.1 GiB"; "" is nothing.
func (t *Trainer) WeightCopies() string { return t.copies.String() }
