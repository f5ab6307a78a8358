package lora

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/llm/arch"
	"github.com/goggml/ggml/llm/model"
)

// A MismatchError reports all reasons why an adapter does not fit a model.
type MismatchError struct {
	Path   string // of the adapter; "" if it has no file
	Faults []string
}

// Error names the file and the faults, one per line if there are several.
func (e *MismatchError) Error() string {
	what := "the adapter"
	if e.Path != "" {
		what = e.Path
	}
	what += ": does not fit the model: "
	if len(e.Faults) == 1 {
		return what + e.Faults[0]
	}
	return what + "\n\t" + strings.Join(e.Faults, "\n\t")
}

// Load reads an adapter for the model, onto the devices of the model's weights, from a GGUF file or from PEFT's
// files: the folder, or either of adapter_config.json and adapter_model.safetensors. Tensors of other types are
// converted to F32; [Pair] has the original type. An adapter that does not fit the model gives a [MismatchError],
// and so does a PEFT adapter that is more than pairs of matrices, such as DoRA's.
func Load(path string, m *model.Model) (*Adapter, error) {
	release, err := m.Retain()
	if err != nil {
		return nil, err
	}
	defer release()
	files, isPEFT, err := findPEFT(path)
	if err != nil {
		return nil, err
	}
	if isPEFT {
		return loadPEFT(path, files, m)
	}
	return loadGGUF(path, m)
}

func loadGGUF(path string, m *model.Model) (*Adapter, error) {
	g, err := ggml.OpenGGUF(path)
	if err != nil {
		return nil, err
	}
	defer g.Close()
	r := &reader{g: g, m: m}
	alpha := r.readKeys()
	specs := r.readSpecs()
	if len(r.faults) > 0 {
		return nil, &MismatchError{path, r.faults}
	}
	a, err := allocate(m, specs)
	if err != nil {
		return nil, err
	}
	a.path, a.Arch, a.model, a.Alpha, a.Keys = absolute(path), m.Config().Arch, m.Architecture(), alpha, r.furtherKeys()
	if err := r.readValues(a); err != nil {
		a.Close()
		return nil, err
	}
	return a, nil
}

// absolute makes a path that stays valid if the program changes its working directory.
func absolute(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}

// A reader reads a file for a model, and collects what is wrong with it.
type reader struct {
	g      *ggml.GGUF
	m      *model.Model
	faults []string
}

func (r *reader) fault(format string, args ...any) {
	r.faults = append(r.faults, fmt.Sprintf(format, args...))
}

func (r *reader) readKeys() (alpha float32) {
	r.expect(keyType, "adapter", "it is not an adapter")
	r.expect(keyAdapterType, "lora", "only LoRA adapters are supported")
	r.expect(keyArch, r.m.Config().Arch, "it was made for another kind of model")
	if _, ok := r.g.Value("adapter.alora.invocation_tokens"); ok {
		r.fault("it is an activated LoRA (aLoRA), which only acts after certain tokens; that is unsupported")
	}
	switch v, ok := r.g.Value(keyAlpha); x := v.(type) {
	case float32:
		alpha = x
		if fault := validAlpha(x); fault != "" {
			r.fault("%s: %s", keyAlpha, fault)
		}
	default:
		if ok {
			r.fault("%s is of type %T; it must be a float32, or llama.cpp aborts", keyAlpha, v)
		}
	}
	return alpha
}

// expect checks the value of a key that identifies the file.
func (r *reader) expect(key, want, meaning string) {
	got, err := ggml.GGUFValue[string](r.g, key)
	switch {
	case errors.Is(err, ggml.ErrKeyNotFound):
		r.fault("the key %s is missing; it must be %q", key, want)
	case err != nil:
		r.fault("the key %s is not a string; it must be %q", key, want)
	case got != want:
		r.fault("%s is %q, not %q: %s", key, got, want, meaning)
	}
}

// readSpecs returns the pairs of the file in the order of the model's tensors.
func (r *reader) readSpecs() []spec {
	type tensors struct{ a, b *ggml.GGUFTensor }
	found := map[string]*tensors{}
	var bases []string
	for t := range r.g.Tensors() {
		base, isA := strings.CutSuffix(t.Name, suffixA)
		if !isA {
			var isB bool
			if base, isB = strings.CutSuffix(t.Name, suffixB); !isB {
				r.fault("tensor %s: its name must end in %s or %s", t.Name, suffixA, suffixB)
				continue
			}
		}
		if found[base] == nil {
			found[base] = &tensors{}
			bases = append(bases, base)
		}
		if isA {
			found[base].a = &t
		} else {
			found[base].b = &t
		}
		if !t.Type.CanDequantize() {
			r.fault("tensor %s has type %v, which does not hold real numbers", t.Name, t.Type)
		}
	}
	if r.g.NumTensors() == 0 {
		r.fault("%v", ErrNoPairs)
	}
	var list []spec
	for _, base := range bases {
		h := found[base]
		switch {
		case h.a == nil:
			r.fault("%s has %s but not %s", base, suffixB, suffixA)
		case h.b == nil:
			r.fault("%s has %s but not %s", base, suffixA, suffixB)
		default:
			s := spec{base: base, a: r.matrix(base, h.a.Shape), b: r.matrix(base, h.b.Shape)}
			if h.a.Type == h.b.Type && (h.a.Type == ggml.F16 || h.a.Type == ggml.BF16) {
				s.typ = h.a.Type
			}
			r.faults = append(r.faults, s.faults(r.m)...)
			list = append(list, s)
			continue
		}
		if fault := baseFault(r.m, base); fault != "" {
			r.faults = append(r.faults, fault)
		}
	}
	place := map[string]int{}
	for i, t := range r.m.Architecture().Weights() {
		place[t.Name] = i
	}
	slices.SortStableFunc(list, func(x, y spec) int { return place[x.base] - place[y.base] })
	return list
}

// matrix restores dimensions of size 1 that a file leaves out.
func (r *reader) matrix(base string, shape []int64) []int64 {
	if w := r.m.Architecture().Weight(base); w != nil {
		return padded(shape, len(w.Shape))
	}
	return shape
}

// padded appends dimensions of size 1 to a shape until it has dims.
func padded(shape []int64, dims int) []int64 {
	for len(shape) < dims {
		shape = append(slices.Clip(shape), 1)
	}
	return shape
}

// baseFault returns why the model has no such matrix to adapt; "" if it has one.
func baseFault(m *model.Model, base string) string {
	switch w := m.Architecture().Weight(base); {
	case w == nil && base == outputName:
		return base + ": the model has no such tensor: its output is the token embedding"
	case w == nil || m.Weight(base) == nil:
		return fmt.Sprintf("%s: the model has no such tensor; it can be adapted in %s, in blk.0 to blk.%d", base, strings.Join(Targets(m.Architecture()), ", "), m.Architecture().NumBlocks()-1)
	case w.Role == arch.Norm:
		return base + " is a norm, which cannot have a LoRA adapter; llama.cpp would ignore it silently"
	case w.NoLoRA:
		return base + " is a matrix for which llama.cpp would silently ignore an adapter; train the whole matrix"
	case !w.IsAdaptable():
		return base + " is not a matrix that can be adapted"
	}
	return ""
}

// faults lists why the pair does not fit the model.
func (s spec) faults(m *model.Model) []string {
	if fault := baseFault(m, s.base); fault != "" {
		return []string{fault}
	}
	w := m.Weight(s.base)
	shape := m.Architecture().Weight(s.base).Shape
	if len(s.a) != len(shape) || len(s.b) != len(shape) {
		what := "matrices"
		if len(shape) > 2 {
			what = fmt.Sprintf("matrices of %d experts", shape[2])
		}
		return []string{fmt.Sprintf("%s: A %v and B %v must be %s", s.base, s.a, s.b, what)}
	}
	rank := s.b[0] // B is [r, …] in every shape
	a, b := pairShapes(s.base, shape, rank)
	if slices.Equal(a, s.a) && slices.Equal(b, s.b) {
		return nil
	}
	want := "A [%d, r] and B [r, %d]"
	sides := []any{a[0], b[1]}
	switch {
	case s.base == tokenEmbd:
		want, sides = "A [r, %d] and B [r, %d]", []any{a[1], b[1]}
	case len(shape) > 2:
		want, sides = "A [%d, r, %d] and B [r, %d, %d]", []any{a[0], a[2], b[1], b[2]}
	}
	return []string{fmt.Sprintf("%s %v: A is %v and B %v; they must be ", s.base, w.Shape(), s.a, s.b) + fmt.Sprintf(want, sides...)}
}

// furtherKeys returns the keys that are neither the adapter's own nor properties of the file.
func (r *reader) furtherKeys() map[string]any {
	drop := append(slices.Clone(ownKeys), "general.alignment", "general.file_type", "general.quantization_version")
	keys := map[string]any{}
	for key, value := range r.g.Keys() {
		if !slices.Contains(drop, key) && !strings.HasPrefix(key, "tokenizer.") {
			keys[key] = value
		}
	}
	return keys
}

// readValues fills the tensors of the adapter.
func (r *reader) readValues(a *Adapter) error {
	cpu, err := ggml.DeviceByType(ggml.CPU)
	if err != nil {
		return err
	}
	stored := ggml.NewContext()
	defer stored.Close()
	// The file is not mapped: an adapter is small, and truncating a mapped file would kill the process.
	buffers, err := r.g.Load(stored, cpu, ggml.LoadOptions{NoMmap: true})
	if err != nil {
		return err
	}
	defer buffers.Close()
	ours := map[string]*ggml.Tensor{}
	for _, p := range a.pairs {
		ours[p.Base+suffixA], ours[p.Base+suffixB] = p.A, p.B
	}
	for from := range stored.Tensors() {
		values, err := from.Float32s()
		if err != nil {
			return err
		}
		if !allFinite(values) {
			r.fault("tensor %s holds values that are not finite", from.Name())
		}
		if err := ggml.Write(ours[from.Name()], values); err != nil {
			return err
		}
	}
	if len(r.faults) > 0 {
		return &MismatchError{r.g.Name(), r.faults}
	}
	return nil
}

func allFinite(values []float32) bool {
	return !slices.ContainsFunc(values, func(v float32) bool { return v-v != 0 })
}

// mismatch checks an adapter in memory against a model.
func (a *Adapter) mismatch(m *model.Model) error {
	var faults []string
	if a.Arch != m.Config().Arch {
		faults = append(faults, fmt.Sprintf("it was made for the architecture %q, not %q", a.Arch, m.Config().Arch))
	}
	if fault := validAlpha(a.Alpha); fault != "" {
		faults = append(faults, fault)
	}
	for _, p := range a.pairs {
		dims := 2
		if w := m.Architecture().Weight(p.Base); w != nil {
			dims = len(w.Shape)
		}
		s := spec{base: p.Base, a: padded(p.A.Shape(), dims), b: padded(p.B.Shape(), dims)}
		faults = append(faults, s.faults(m)...)
	}
	if len(faults) > 0 {
		return &MismatchError{a.path, faults}
	}
	return nil
}

// finite reports whether x is a number, and not infinite.
func finite(x float32) bool { return !math.IsNaN(float64(x)) && !math.IsInf(float64(x), 0) }
