package train

import "github.com/goggml/ggml"

// Moments returns the moments of parameter i.
func Moments(t *Trainer, i int) map[string]*ggml.Tensor {
	return map[string]*ggml.Tensor{"first": t.opt.first[i], "second": t.opt.second[i]}
}

// saving returns a RunOptions.OnSave that saves the state of a run to a file.
func saving(t *Trainer, path string) func() error {
	return func() error { return t.SaveCheckpoint(path) }
}

// Saving exports saving to external tests.
var Saving = saving
