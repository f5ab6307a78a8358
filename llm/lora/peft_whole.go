package lora

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/llm/safetensors"
)

// A wholeTensor is saved in full, not as a pair: PEFT saves the embeddings, and the output with its bias, if they
// are adapted or the vocabulary was resized, and the modules of modules_to_save.
type wholeTensor struct {
	*safetensors.Tensor
	base string // the model's tensor, with equal values unless it was trained
}

// baseOf returns the name of the model's tensor for a whole tensor, or "".
func (r *peftReader) baseOf(t *safetensors.Tensor) string {
	dot := strings.LastIndexByte(t.Name, '.')
	if dot < 0 {
		return ""
	}
	module := strings.TrimSuffix(strings.TrimPrefix(t.Name[:dot], peftPrefix), ".base_layer")
	a := r.m.Architecture()
	base := map[string]string{a.EmbeddingModule() + ".weight": tokenEmbd, a.OutputModule() + ".weight": outputName, a.OutputModule() + ".bias": "output.bias"}[modulePath(a, module)+t.Name[dot:]]
	if base == outputName && r.m.Config().Tied {
		base = tokenEmbd
	}
	if r.m.Weight(base) == nil {
		return ""
	}
	return base
}

// whole records a tensor that belongs to no pair.
func (r *peftReader) whole(t *safetensors.Tensor, base string) {
	shape := r.m.Weight(base).Shape()
	slices.Reverse(shape)
	if !slices.Equal(t.Shape, shape) {
		r.fault("tensor %s has the shape %v, but the model's is %v: their vocabularies differ; %s", t.Name, t.Shape, shape, mergeRemedy)
		return
	}
	r.wholes = append(r.wholes, wholeTensor{t, base})
}

// checkWhole compares whole tensors with the model's. They must be equal, because an adapter of llama.cpp cannot
// contain them.
func (r *peftReader) checkWhole() {
	for _, w := range r.wholes {
		row, err := r.otherRow(w)
		switch {
		case err != nil:
			r.fault("tensor %s: %v", w.Name, err)
		case row >= 0:
			r.fault("tensor %s is trained: its row %d differs from %s in the model, and an adapter cannot contain whole tensors; %s", w.Name, row, w.base, mergeRemedy)
		default:
			r.notices = append(r.notices, fmt.Sprintf("tensor %s is left out, because it equals %s of the model", w.Name, w.base))
		}
	}
}

// wholeTolerance is the tolerated distance of a row from the model's, relative to the rounding error: other versions
// of quantisation programs round slightly differently.
const wholeTolerance = 1.1

// otherRow returns the first row that differs from the model's, or −1 if all are equal. Both the model's tensor and
// the saved one may be rounded to their types: rows are equal if their distance is at most the rounding error.
func (r *peftReader) otherRow(w wholeTensor) (int64, error) {
	if !w.Type.IsSupported() {
		return 0, fmt.Errorf("it has type %s; F32, F16 and BF16 are supported", w.Type)
	}
	values, err := r.file.Float32s(*w.Tensor)
	if err != nil {
		return 0, err
	}
	base := r.m.Weight(w.base)
	typ, rowLen, rows := base.Type(), base.Dim(0), base.NumRows()
	if !typ.CanQuantize() || typ.NeedsImportance() {
		return 0, fmt.Errorf("it cannot be compared with %s, which has the type %v", w.base, typ)
	}
	ours, rounded, raw := make([]float32, rowLen), make([]float32, rowLen), make([]byte, typ.RowSize(rowLen))
	precision := map[safetensors.Type]float64{safetensors.F16: 1.0 / (1 << 11), safetensors.BF16: 1.0 / (1 << 8)}[w.Type]
	for i := range rows {
		theirs := values[i*rowLen:][:rowLen]
		if err := ggml.Quantize(raw, typ, theirs, ggml.QuantizeOptions{}); err != nil {
			return 0, err
		}
		if err := ggml.Dequantize(rounded, typ, raw); err != nil {
			return 0, err
		}
		if _, err := base.ReadAt(raw, i*int64(len(raw))); err != nil {
			return 0, err
		}
		if err := ggml.Dequantize(ours, typ, raw); err != nil {
			return 0, err
		}
		if distance(ours, theirs) > wholeTolerance*distance(rounded, theirs)+precision*norm(theirs) {
			return i, nil
		}
	}
	return -1, nil
}

func distance(a, b []float32) float64 {
	sum := 0.0
	for i := range a {
		d := float64(a[i]) - float64(b[i])
		sum += d * d
	}
	return math.Sqrt(sum)
}

func norm(a []float32) float64 { return distance(a, make([]float32, len(a))) }
