package lora

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/goggml/ggml/llm/arch"
	"github.com/goggml/ggml/llm/model"
	"github.com/goggml/ggml/llm/safetensors"
)

// loadPEFT reads a PEFT adapter for the model.
func loadPEFT(path string, files peftFiles, m *model.Model) (*Adapter, error) {
	config, faults, notices, err := readPEFTConfig(files.config)
	if err != nil {
		return nil, err
	}
	for i := range faults {
		faults[i] = peftConfigName + ": " + faults[i]
	}
	f, err := safetensors.Open(files.tensors)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	r := &peftReader{m: m, config: config, file: f, faults: faults, notices: notices, found: map[string]*peftPair{}}
	r.checkParameters()
	r.sort()
	r.checkWhole()
	r.checkTying()
	list, err := r.readModules()
	if err != nil {
		return nil, err
	}
	if len(r.faults) > 0 {
		return nil, &MismatchError{path, r.faults}
	}
	a, err := r.adapter(matrixFactors(m.Architecture(), list))
	if err != nil {
		return nil, err
	}
	a.path, a.notices = absolute(files.tensors), append(r.notices, r.untargeted()...)
	return a, nil
}

// A peftReader reads a PEFT adapter, and collects what is wrong with it.
type peftReader struct {
	m      *model.Model
	config *peftConfig
	file   *safetensors.File
	found  map[string]*peftPair // by the module's path relative to the text model
	wholes []wholeTensor
	faults []string

	notices []string
}

// A peftPair is the pair of tensors of a module.
type peftPair struct {
	path string // relative to the model
	a, b *safetensors.Tensor
}

func (r *peftReader) fault(format string, args ...any) {
	r.faults = append(r.faults, fmt.Sprintf(format, args...))
}

// sort groups the tensors into pairs.
func (r *peftReader) sort() {
	tensors := r.file.Tensors()
	if len(tensors) == 0 {
		r.fault("%v", ErrNoPairs)
	}
	known := map[string]bool{}
	for _, m := range r.m.Architecture().Modules() {
		known[m.Path] = true
	}
	slices.SortFunc(tensors, func(x, y safetensors.Tensor) int { return strings.Compare(x.Name, y.Name) })
	for i := range tensors {
		t := &tensors[i]
		path, isA, isFactor := factorOf(t.Name)
		switch {
		case !isFactor:
			r.other(t)
		case !known[modulePath(r.m.Architecture(), path)]:
			r.fault("tensor %s: %s", t.Name, r.noModule(modulePath(r.m.Architecture(), path)))
		default:
			r.add(t, path, isA)
		}
	}
}

// checkTying rejects an adapter of the embedding that also applies to the tied output.
func (r *peftReader) checkTying() {
	if r.config.ensureTying && r.m.Config().Tied && r.found[r.m.Architecture().EmbeddingModule()] != nil {
		r.fault("%s: ensure_weight_tying is true, so the output shares the adapter of the embedding; %s", peftConfigName, mergeRemedy)
	}
}

// factorOf returns the path of the module whose factor the tensor is.
func factorOf(tensor string) (path string, isA, ok bool) {
	path, ok = strings.CutPrefix(tensor, peftPrefix)
	if !ok {
		return "", false, false
	}
	for _, suffix := range []string{peftA, peftB, peftEmbeddingA, peftEmbeddingB} {
		if module, ok := strings.CutSuffix(path, suffix); ok {
			return module, suffix == peftA || suffix == peftEmbeddingA, true
		}
	}
	return "", false, false
}

func (r *peftReader) add(t *safetensors.Tensor, path string, isA bool) {
	p := r.found[modulePath(r.m.Architecture(), path)]
	if p == nil {
		p = &peftPair{path: path}
		r.found[modulePath(r.m.Architecture(), path)] = p
	}
	place := &p.b
	if isA {
		place = &p.a
	}
	if *place != nil || p.path != path {
		r.fault("tensor %s: another tensor is for the same matrix", t.Name)
		return
	}
	*place = t
}

// noModule returns why the model has no such module.
func (r *peftReader) noModule(path string) string {
	if path == r.m.Architecture().OutputModule() {
		return baseFault(r.m, outputName)
	}
	return "the model has no such module; it can be adapted in " + strings.Join(moduleNames(r.m.Architecture()), ", ")
}

func moduleNames(a *arch.Architecture) []string {
	var names []string
	for _, m := range a.Modules() {
		if !slices.Contains(names, m.Name()) {
			names = append(names, m.Name())
		}
	}
	return names
}

// other handles a tensor that is not a factor.
func (r *peftReader) other(t *safetensors.Tensor) {
	if base := r.baseOf(t); base != "" {
		r.whole(t, base)
		return
	}
	for _, u := range unsupported {
		if u.tensor == "" || !strings.Contains(t.Name, u.tensor) {
			continue
		}
		isTold := slices.ContainsFunc(r.faults, func(f string) bool { return strings.Contains(f, u.field) })
		if !isTold {
			r.fault("tensor %s belongs to %s: %s; %s", t.Name, u.field, u.meaning, mergeRemedy)
		}
		return
	}
	r.fault("tensor %s is not a LoRA factor; %s", t.Name, mergeRemedy)
}

// readModules reads the pairs in the order of the modules.
func (r *peftReader) readModules() ([]factors, error) {
	inputs := r.inputs()
	var list []factors
	for _, m := range r.m.Architecture().Modules() {
		p := r.found[m.Path]
		if p == nil || !r.checkShapes(m, p, inputs[m.Rows[0].Name]) {
			continue
		}
		f := factors{name: m.Path, rows: m.Rows, rank: int(rankOf(m, p))}
		f.alpha = r.config.alpha(p.path, f.rank)
		if fault := validAlpha(f.alpha); fault != "" || f.alpha == 0 {
			r.fault("%s: alpha is %v; it must be a finite number above 0", p.path, f.alpha)
		}
		var err error
		if f.a, err = r.values(p.a); err != nil {
			return nil, err
		}
		if f.b, err = r.values(p.b); err != nil {
			return nil, err
		}
		list = append(list, f)
	}
	return list, nil
}

// inputs returns the row lengths of matrices, by the names of rows.
func (r *peftReader) inputs() map[string]int64 {
	of := map[string]int64{}
	for _, w := range r.m.Architecture().Weights() {
		for _, rows := range w.Rows {
			of[rows.Name] = w.Shape[0]
		}
	}
	return of
}

// rankOf returns the number of rows of A.
func rankOf(m arch.Module, p *peftPair) int64 {
	if len(p.a.Shape) == 0 {
		return 0
	}
	return p.a.Shape[0]
}

// checkShapes requires A [r, in] and B [out, r], or A [r, out] and B [in, r] for the embedding, with the rank of the
// configuration, as PEFT does.
func (r *peftReader) checkShapes(m arch.Module, p *peftPair, in int64) bool {
	if p.a == nil || p.b == nil {
		there, missing := p.a, "B"
		if there == nil {
			there, missing = p.b, "A"
		}
		r.fault("tensor %s: its %s is missing", there.Name, missing)
		return false
	}
	var out int64
	for _, rows := range m.Rows {
		out += rows.Count
	}
	embedding := r.m.Architecture().EmbeddingModule()
	isEmbedding := m.Path == embedding
	if isEmbedding {
		in, out = out, in
	}
	if isEmbedding != strings.HasSuffix(p.a.Name, peftEmbeddingA) || isEmbedding != strings.HasSuffix(p.b.Name, peftEmbeddingB) {
		r.fault("tensors %s and %s: only the factors of %s are named lora_embedding_A and lora_embedding_B, and they always are", p.a.Name, p.b.Name, embedding)
		return false
	}
	rank := rankOf(m, p)
	if rank < 1 || !slices.Equal(p.a.Shape, []int64{rank, in}) || !slices.Equal(p.b.Shape, []int64{out, rank}) {
		r.fault("%s: A is %v and B %v; they must be A [r, %d] and B [%d, r]", p.path, p.a.Shape, p.b.Shape, in, out)
		return false
	}
	if want := r.config.rank(p.path); rank != int64(want) {
		r.fault("%s: its rank is %d, but %d in %s", p.path, rank, want, peftConfigName)
		return false
	}
	return true
}

// values validates the type of a tensor and reads it.
func (r *peftReader) values(t *safetensors.Tensor) ([]float32, error) {
	if !t.Type.IsSupported() {
		r.fault("tensor %s has type %s; F32, F16 and BF16 are supported", t.Name, t.Type)
		return nil, nil
	}
	values, err := r.file.Float32s(*t)
	if !allFinite(values) {
		r.fault("tensor %s holds values that are not finite", t.Name)
	}
	return values, err
}

// adapter allocates an adapter on the devices of the model's matrices, and writes the factors to it.
func (r *peftReader) adapter(list []factors) (*Adapter, error) {
	var specs []spec
	strongest := list[0].alpha
	for i := range list {
		specs = append(specs, list[i].spec())
		strongest = max(strongest, list[i].alpha)
	}
	a, err := allocate(r.m, specs)
	if err != nil {
		return nil, err
	}
	a.Arch, a.model, a.Alpha, a.Keys = r.m.Config().Arch, r.m.Architecture(), strongest, r.keys()
	for i := range list {
		if list[i].alpha != strongest {
			a.pairs[i].Alpha = list[i].alpha
		}
		if err := list[i].write(a.pairs[i]); err != nil {
			a.Close()
			return nil, err
		}
	}
	return a, nil
}

// keyRepository has the URL of the base model in an adapter's file.
const (
	keyRepository  = "general.base_model.0.repo_url"
	huggingFaceURL = "https://huggingface.co/"
)

var repositoryName = regexp.MustCompile(`^[\w.-]+/[\w.-]+$`)

// keys returns the keys of an adapter for the model, with the repository of the base.
func (r *peftReader) keys() map[string]any {
	keys := describeBase(r.m)
	if base := r.config.BaseModel; base != nil && repositoryName.MatchString(*base) && !filepath.IsAbs(*base) {
		keys[keyRepository] = huggingFaceURL + *base
		keys["general.base_model.count"] = uint32(1)
	}
	return keys
}
