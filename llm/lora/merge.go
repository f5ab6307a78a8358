package lora

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/counted"
	"github.com/goggml/ggml/llm/arch"
	"github.com/goggml/ggml/llm/model"
	"github.com/goggml/ggml/llm/quantize"
)

// Scaled is an adapter and its scale: 1 as trained.
type Scaled struct {
	Adapter *Adapter
	Scale   float32
}

// MergeOptions are the settings of [Merge].
type MergeOptions struct {
	// Type is the type of the matrices in the result; nil keeps each matrix's type. Vectors, such as norms, always
	// keep theirs.
	Type *ggml.Type
	// Mixture, if not nil, assigns types to the matrices by their function, as llama-quantize does; Type must then
	// be nil.
	Mixture *quantize.Mixture
	// Importance has the weights of the columns for matrices that get another type; nil weights all columns the
	// same.
	Importance quantize.Importance
	// Threads is the number of threads; 0 means [ggml.DefaultThreads].
	Threads int
	// Progress, if not nil, is called as bytes of tensors are written.
	Progress func(done, total int64)
}

// MergeTo writes the model with the adapters merged into its weights, W + Σ s·alpha/r·B·A, to a GGUF file. The sum
// is computed in F32 and converted to the type of W, or to another one. Unchanged tensors that keep their type are
// copied byte by byte, and the metadata is kept.
//
// If the model multiplies W·x by a factor before an adapter is added, the merged change is divided by the factor,
// which must not be 0.
//
// If the output is tied to the token embedding and an adapter changes the embedding, the file gets a separate output
// matrix: such an adapter acts on the lookup only.
//
// The file is written beside path and renamed when it is complete. path must be neither the model's file nor an
// adapter's. Cancelling ctx stops the writing. The model and the adapters may be closed meanwhile.
func MergeTo(ctx context.Context, path string, m *model.Model, adapters []Scaled, o MergeOptions) error {
	release, err := retainAll(m, adapters)
	if err != nil {
		return err
	}
	defer release()
	base := []string{m.Path}
	if m.GGUF() != nil {
		base = m.GGUF().Paths()
	}
	if slices.ContainsFunc(base, func(part string) bool { return sameFile(path, part) }) {
		return fmt.Errorf("%s: is the base model itself; give the merged model another name", path)
	}
	for _, s := range adapters {
		if sameFile(path, s.Adapter.path) {
			return fmt.Errorf("%s: is an adapter to be merged; give the merged model another name", path)
		}
	}
	g, err := Merge(ctx, m, adapters, o)
	if err != nil {
		return err
	}
	defer g.Close()
	return g.WriteFile(path)
}

// retainAll keeps the model and the adapters from being freed until release is called.
func retainAll(m *model.Model, adapters []Scaled) (release func(), err error) {
	releaseModel, err := m.Retain()
	if err != nil {
		return nil, err
	}
	retained := []func(){releaseModel}
	release = func() {
		for _, r := range retained {
			r()
		}
	}
	for i, s := range adapters {
		r, err := s.Adapter.retain()
		if err != nil {
			release()
			return nil, fmt.Errorf("adapter %d to merge %w", i, err)
		}
		retained = append(retained, r)
	}
	return release, nil
}

func sameFile(a, b string) bool {
	if a == "" || b == "" {
		return false
	}
	x, err := os.Stat(a)
	if err != nil {
		return false
	}
	y, err := os.Stat(b)
	return err == nil && os.SameFile(x, y)
}

// Merge prepares the file of [MergeTo] without writing it, so that its keys can be changed first. The weights are
// computed each time it is written, so the model and the adapters must stay open until then, and cancelling ctx
// stops it. Close it after use.
func Merge(ctx context.Context, m *model.Model, adapters []Scaled, o MergeOptions) (*ggml.GGUF, error) {
	release, err := retainAll(m, adapters)
	if err != nil {
		return nil, err
	}
	defer release()
	if ctx == nil {
		return nil, errors.New("the context.Context is nil")
	}
	active, err := activePairs(m, adapters)
	if err != nil {
		return nil, err
	}
	if o.Threads == 0 {
		o.Threads = ggml.DefaultThreads()
	}
	if o.Threads < 0 {
		return nil, fmt.Errorf("a merge on %d threads: give at least 1", o.Threads)
	}
	if o.Type != nil && o.Mixture != nil {
		return nil, fmt.Errorf("a merge has both the type %v and the mixture %s; set one of them", *o.Type, o.Mixture.Name)
	}
	outputs, err := planOutputs(m, active, o)
	if err != nil {
		return nil, err
	}
	if err := checkOutputs(outputs, o); err != nil {
		return nil, err
	}
	g, err := ggml.NewGGUF()
	if err != nil {
		return nil, err
	}
	if err := fillMerged(ctx, g, m, outputs, o); err != nil {
		g.Close()
		return nil, err
	}
	return g, nil
}

func fillMerged(ctx context.Context, g *ggml.GGUF, m *model.Model, outputs []output, o MergeOptions) error {
	if err := m.WriteKeys(g); err != nil {
		return err
	}
	if err := setFileType(g, o); err != nil {
		return err
	}
	w := &mergeWriter{ctx: ctx, options: o}
	for _, out := range outputs {
		w.total += out.info.Size
	}
	done := int64(0)
	for _, out := range outputs {
		if err := g.AddTensorFrom(out.info, w.source(out, done)); err != nil {
			return err
		}
		done += out.info.Size
	}
	return nil
}

// activePairs returns the pairs that change something.
func activePairs(m *model.Model, adapters []Scaled) (model.Adapters, error) {
	active := model.Adapters{}
	for i, s := range adapters {
		if !finite(s.Scale) {
			return nil, fmt.Errorf("adapter %d to merge has the scale %v; it must be finite", i, s.Scale)
		}
		if err := s.Adapter.mismatch(m); err != nil {
			return nil, err
		}
		if err := addActive(active, m, s.Adapter.WithScale(s.Scale)); err != nil {
			return nil, err
		}
	}
	return active, nil
}

// addActive adds the pairs that change something.
func addActive(active model.Adapters, m *model.Model, adapters model.Adapters) error {
	for base, pairs := range adapters {
		factors, err := productScales(m, base)
		if err != nil {
			return err
		}
		for _, p := range pairs {
			zero, err := isZero(p)
			switch {
			case err != nil:
				return err
			case zero:
				continue
			case slices.Contains(factors, 0):
				return fmt.Errorf("%s: its adapter cannot be merged, because the model adds it after multiplying by %s, which is 0; leave this matrix out", base, scalesOf(m, base)[0])
			}
			active[base] = append(active[base], p)
		}
	}
	return nil
}

// productScales returns the factors by which the model scales W·x before adapters are added, one for all or one per
// expert; nil means none. Layers that share the matrix must have equal factors.
func productScales(m *model.Model, base string) (factors []float32, err error) {
	for i, name := range scalesOf(m, base) {
		var own []float32
		if scale := m.Weight(name); scale != nil {
			if own, err = scale.Float32s(); err != nil {
				return nil, err
			}
		}
		if i > 0 && !slices.Equal(own, factors) {
			return nil, fmt.Errorf("%s: its adapter cannot be merged, because the model adds it after multiplying by %s and %s, which differ; leave this matrix out", base, scalesOf(m, base)[0], name)
		}
		factors = own
	}
	return factors, nil
}

// scalesOf returns the names of the tensors that may scale the product with a matrix, one for each layer that uses
// it.
func scalesOf(m *model.Model, base string) (names []string) {
	matrix := m.Architecture().Weight(base)
	for _, w := range m.Architecture().Weights() {
		if w.Role == arch.Scale && w.Kind == matrix.Kind && w.Layer == matrix.Layer {
			names = append(names, w.Name)
		}
	}
	return names
}

// isZero reports whether a pair changes nothing, as before training.
func isZero(p model.LoRAPair) (bool, error) {
	if p.Scale == 0 {
		return true, nil
	}
	values, err := p.B.Float32s()
	return !slices.ContainsFunc(values, func(v float32) bool { return v != 0 }), err
}

// An output is a tensor of the merged model.
type output struct {
	info  ggml.GGUFTensor
	from  *ggml.Tensor
	base  string // name of the matrix that the pairs change
	pairs []model.LoRAPair
	// Factors by which the model scales the product, one for all or one per expert. The matrix's change is divided
	// by them; nil means none.
	factors []float32

	importance []float32 // weights of the columns; nil for none
}

// unchanged reports whether the tensor is copied byte by byte.
func (o *output) unchanged() bool { return len(o.pairs) == 0 && o.info.Type == o.from.Type() }

// planOutputs lists the tensors of the merged model in the order of the base.
func planOutputs(m *model.Model, active model.Adapters, o MergeOptions) ([]output, error) {
	merged, config := m.Architecture(), m.Config()
	isSplit := config.Tied && len(active[tokenEmbd]) > 0
	if isSplit {
		config.Tied = false
		var err error
		if merged, err = arch.New(config, merged.Layers()); err != nil {
			return nil, err
		}
		merged = merged.Having(func(name string) bool { return m.Weight(name) != nil })
	}
	names := map[*ggml.Tensor]string{} // in the file, whatever SetName has made of them
	for _, w := range m.Architecture().Weights() {
		names[m.Weight(w.Name)] = w.Name
	}
	var list []output
	add := func(name string, from *ggml.Tensor, pairs []model.LoRAPair) (err error) {
		typ := o.typeOf(merged, name, from)
		info := ggml.GGUFTensor{Name: name, Type: typ, Shape: m.FileShape(from)}
		if typ.IsValid() {
			info.Size = typ.RowSize(from.NumElements())
		}
		out := output{info: info, from: from, base: names[from], pairs: pairs}
		if typ.IsQuantized() {
			out.importance = o.Importance[name]
		}
		if len(pairs) > 0 {
			out.factors, err = productScales(m, name)
		}
		list = append(list, out)
		return err
	}
	for t := range m.Weights() {
		if err := add(names[t], t, active[names[t]]); err != nil {
			return nil, err
		}
	}
	if isSplit {
		if err := add(outputName, m.Weight(tokenEmbd), nil); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// typeOf returns the type of a tensor in the merged model.
func (o *MergeOptions) typeOf(a *arch.Architecture, name string, from *ggml.Tensor) ggml.Type {
	typ, w := from.Type(), a.Weight(name)
	switch {
	case from.NumDims() < 2 || !w.IsConvertible(): // llama-quantize keeps their types, too
	case o.Type != nil:
		typ = *o.Type
	case o.Mixture != nil:
		typ, _ = o.Mixture.TypeOf(a, w, o.Importance)
	}
	return typ
}

// checkOutputs reports all tensors that cannot be converted.
func checkOutputs(outputs []output, o MergeOptions) error {
	var faults []string
	for _, out := range outputs {
		if out.unchanged() {
			continue
		}
		fault := out.fault()
		if fault == "" && o.Importance != nil {
			fault = out.importanceFault()
		}
		if fault != "" {
			faults = append(faults, fmt.Sprintf("%s %v: %s", out.info.Name, out.info.Shape, fault))
		}
	}
	if len(faults) == 0 {
		return nil
	}
	const shown = 10
	if more := len(faults) - shown; more > 0 {
		faults = append(faults[:shown], fmt.Sprintf("and %d more", more))
	}
	return errors.New("the merged model cannot be written; choose another type, such as q8_0 or f16:\n\t" + strings.Join(faults, "\n\t"))
}

func (o *output) fault() string {
	from, to := o.from.Type(), o.info.Type
	switch {
	case !from.CanDequantize():
		return fmt.Sprintf("there is no conversion from %v", from)
	case !to.CanQuantize():
		return fmt.Sprintf("there is no conversion to %v", to)
	case to.NeedsImportance() && o.importance == nil:
		return fmt.Sprintf("%v needs an importance matrix", to)
	case o.from.Dim(0)%to.BlockSize() != 0:
		return fmt.Sprintf("rows of %v must be multiples of %d", to, to.BlockSize())
	}
	return ""
}

// importanceFault returns what is wrong with the importance of the columns; "" if nothing is. llama-imatrix does not
// record the embedding, and the output only on request.
func (o *output) importanceFault() string {
	isLayers := o.info.Name != tokenEmbd && o.info.Name != outputName
	switch n := int64(len(o.importance)); {
	case !o.info.Type.IsQuantized():
	case o.importance == nil && isLayers:
		return "the importance matrix has no entry for it: it belongs to another model"
	case o.importance != nil && n != o.from.Dim(0):
		return fmt.Sprintf("the importance matrix has %s for it: it belongs to another model", counted.Of(n, "column"))
	}
	return ""
}

// fileTypes has llama.cpp's number (general.file_type) of files with mostly one type.
var fileTypes = map[ggml.Type]uint32{
	ggml.F32: 0, ggml.F16: 1, ggml.Q4_0: 2, ggml.Q4_1: 3, ggml.Q8_0: 7, ggml.Q5_0: 8, ggml.Q5_1: 9,
	ggml.Q2_K: 10, ggml.Q3_K: 11, ggml.Q4_K: 14, ggml.Q5_K: 16, ggml.Q6_K: 18,
	ggml.IQ4NL: 25, ggml.IQ4XS: 30, ggml.BF16: 32, ggml.MXFP4: 38, ggml.NVFP4: 39,
}

// setFileType updates the keys that describe the types of the tensors.
func setFileType(g *ggml.GGUF, o MergeOptions) error {
	var t ggml.Type
	var number uint32
	known := true
	switch {
	case o.Mixture != nil:
		t, number = o.Mixture.Type, o.Mixture.FileType
	case o.Type != nil:
		t = *o.Type
		number, known = fileTypes[t]
	default:
		return nil
	}
	if known {
		if err := g.Set("general.file_type", number); err != nil {
			return err
		}
	} else if err := g.Remove("general.file_type"); err != nil {
		return err
	}
	const version = 2 // version of the quantised formats
	if !t.IsQuantized() {
		return g.Remove("general.quantization_version")
	}
	return g.Set("general.quantization_version", uint32(version))
}
