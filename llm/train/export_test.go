package train

import "github.com/goggml/ggml"

// Moments are those of parameter i.
func Moments(t *Trainer, i int) map[string]*ggml.Tensor {
	return map[string]*ggml.Tensor{"first": t.opt.first[i], "second": t.opt.second[i]}
}
