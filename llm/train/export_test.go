package train

import "github.com/goggml/ggml"

// Moments returns the moments of parameter i.
func Moments(t *Trainer, i int) map[string]*ggml.Tensor {
	return map[string]*ggml.Tensor{"first": t.opt.first[i], "second": t.opt.second[i]}
}

// saving saves the state of a run to a file, for RunOptions.OnSave.
func saving(t *Trainer, path string) func() error {
	return func() error { return t.SaveCheckpoint(path) }
}

// Saving is for the tests outside.
var Saving = saving
