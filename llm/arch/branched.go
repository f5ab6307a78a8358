package arch

import (
	"fmt"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/state"
)

// CheckBranched requires a model that can train several answers behind one prompt: causal attention alone
// carries information between tokens. A recurrent state would have to branch too.
func (a *Architecture) CheckBranched() error {
	const remedy = "give each answer its own sample, with its own prompt"
	if err := a.CheckCausal(remedy); err != nil {
		return err
	}
	c := ggml.NewContext() // of tensors without memory
	defer c.Close()
	a = a.get()
	layers, err := a.NewStates(func(int) state.Options {
		return state.Options{NewTensor: c.NewTensor, Type: ggml.F32, Slots: 1, Length: 1, Batch: 1}
	})
	if err != nil {
		return err
	}
	for i, layer := range layers {
		for _, s := range layer.All() {
			if _, isCache := s.(*state.KV); !isCache {
				return fmt.Errorf("layer %d of the architecture %s keeps more than keys and values, so answers cannot share a prompt: %s", i, a.config.Arch, remedy)
			}
		}
	}
	return nil
}
