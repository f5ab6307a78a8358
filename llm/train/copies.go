package train

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/llm/layout"
	"github.com/goggml/ggml/llm/weightcache"
)

// buildWithCopies rebuilds the graph of a step with copies of frozen weights. Each device has the
// copies that Options.WeightCopies requests, or as many as fit beside a step without copies.
// Nothing is allocated yet.
func (t *Trainer) buildWithCopies() error {
	want := t.options.WeightCopies
	if want == nil && !t.engine.TakesCopies() || want != nil && *want == weightcache.None {
		return nil
	}
	need, err := t.measure()
	if err != nil {
		return err
	}
	most := weightcache.All
	kept := slices.Repeat([]weightcache.Tier{*cmp.Or(want, &most)}, len(need))
	if err := t.keepCopies(kept); err != nil || want != nil {
		return err
	}
	fits := slices.Clone(kept)
	for i, room := range t.room() {
		for fits[i] > weightcache.None && !hasRoom(t.copies.SizesOf(fits[i])[i], room-need[i]) {
			fits[i]--
		}
	}
	if slices.Equal(fits, kept) {
		return nil
	}
	return t.keepCopies(fits)
}

// hasRoom reports whether there are copies to make and they fit.
func hasRoom(copies, room int64) bool { return copies > 0 && copies <= room }

// keepCopies rebuilds the graph of a step with copies of the given tier on each device.
func (t *Trainer) keepCopies(kept []weightcache.Tier) error {
	c, err := weightcache.New(t.m, t.engine, t.options.ComputeType, kept)
	if err != nil {
		return err
	}
	t.copies.Close()
	t.copies = c
	return t.buildGraphs(t.checkpointing, t.keep)
}

// copySizes returns the memory of the copies on each device.
func (t *Trainer) copySizes() layout.Sizes {
	var sizes layout.Sizes
	for i, tier := range t.copies.Tiers() {
		sizes = append(sizes, t.copies.SizesOf(tier)[i])
	}
	return sizes
}

// makeCopies allocates and fills the copies of weights.
func (t *Trainer) makeCopies() error {
	if t.copies == nil {
		return nil
	}
	if err := t.copies.Allocate(); err != nil {
		return err
	}
	return t.copies.Fill(context.Background())
}

// resumeCopies limits the copies to the checkpoint's tiers, if the options leave the choice to the
// trainer and the number of devices is the same: adapters in copies round differently.
func (t *Trainer) resumeCopies(g *ggml.GGUF) error {
	text, err := ggml.GGUFValue[string](g, freeKeys+string(SettingWeightCopies))
	is, was := t.copies.Tiers(), parseKept(text)
	if t.options.WeightCopies != nil || err != nil || len(was) != len(is) {
		return nil
	}
	least := slices.Clone(is)
	for i := range least {
		least[i] = min(is[i], was[i]) // copies that do not fit here are not made
	}
	if slices.Equal(least, is) {
		return nil
	}
	if err := t.keepCopies(least); err != nil {
		return err
	}
	return t.makeCopies()
}

// keptWords lists the devices' tiers as checkpoints have them, such as "both, none".
func (t *Trainer) keptWords() string {
	var words []string
	for _, k := range t.copies.Tiers() {
		words = append(words, k.String())
	}
	return cmp.Or(strings.Join(words, ", "), weightcache.None.String())
}

func parseKept(words string) []weightcache.Tier {
	var list []weightcache.Tier
	for _, word := range strings.Split(words, ", ") {
		for k := weightcache.None; k <= weightcache.All; k++ {
			if k.String() == word {
				list = append(list, k)
			}
		}
	}
	return list
}

// WeightCopies describes the copies of frozen weights on devices and their memory, such as "weights in
// bf16, also transposed, on CUDA0: 4.1 GiB"; "" if there are none.
func (t *Trainer) WeightCopies() string { return t.copies.String() }
