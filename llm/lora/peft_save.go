package lora

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/llm/arch"
	"github.com/goggml/ggml/llm/safetensors"
)

// SavePEFT writes the adapter to a folder that PEFT loads: adapter_config.json and adapter_model.safetensors
// (https://huggingface.co/docs/peft/developer_guides/checkpoint), with transformers' module names, row order of
// queries and keys, and fused matrices. The folder is created if it does not exist; other files in it stay. The same
// adapter and options give the same bytes.
//
// Both files are written beside the old ones before either is renamed: whenever the process ends, [Load] finds the
// old pair or the new one. No two processes may write to a folder at the same time.
//
// Different strengths become patterns, and alpha·√rank becomes use_rslora if that takes fewer patterns or makes
// alpha a whole number.
func (a *Adapter) SavePEFT(folder string, o PEFTOptions) error {
	release, err := a.retain()
	if err != nil {
		return fmt.Errorf("%s cannot be written: the adapter %w", folder, err)
	}
	defer release()
	config, tensors, err := a.peft(o)
	if err != nil {
		return fmt.Errorf("adapter %s: %w", folder, err)
	}
	return writePair(folder, map[string]func(io.Writer) error{
		peftConfigName: func(w io.Writer) error {
			_, err := w.Write(config)
			return err
		},
		peftTensorsName: func(w io.Writer) error {
			return safetensors.Encode(w, tensors, map[string]string{"format": "pt"})
		},
	})
}

// peftTypes are the types in which tensors can be saved.
var peftTypes = map[ggml.Type]safetensors.Type{ggml.F32: safetensors.F32, ggml.F16: safetensors.F16, ggml.BF16: safetensors.BF16}

// peft returns the contents of the files.
func (a *Adapter) peft(o PEFTOptions) (config []byte, tensors []safetensors.Data, err error) {
	typ, ok := peftTypes[o.Type]
	switch {
	case !ok:
		return nil, nil, fmt.Errorf("PEFT adapters are written in f32, f16 or bf16, not in %v", o.Type)
	case !(o.Dropout >= 0 && o.Dropout < 1):
		return nil, nil, fmt.Errorf("the dropout is %v; it must be from 0 to below 1", o.Dropout)
	case len(a.pairs) == 0:
		return nil, nil, ErrNoPairs
	}
	if fault := validAlpha(a.Alpha); fault != "" {
		return nil, nil, errors.New(fault)
	}
	if err := a.checkModules(); err != nil {
		return nil, nil, err
	}
	list, err := a.readFactors()
	if err != nil {
		return nil, nil, err
	}
	for _, f := range list {
		if i := slices.IndexFunc(f.rows, func(r arch.Rows) bool { return r.Module == "" }); i >= 0 {
			return nil, nil, fmt.Errorf("%s is adapted, but transformers stores the rows of %s in another order, in which PEFT adapters cannot be written", f.name, f.rows[i].Name)
		}
	}
	list = moduleFactors(a.model, list)
	paths := map[string]string{}
	for _, m := range a.model.Modules() {
		paths[m.Path] = o.path(a.model, m.Path)
	}
	for _, f := range list {
		tensors = append(tensors, f.tensors(peftPrefix+paths[f.name], typ)...)
	}
	c := a.describe(o, list, paths)
	if config, err = json.MarshalIndent(c, "", "  "); err != nil {
		return nil, nil, err
	}
	return append(config, '\n'), tensors, nil
}

// checkModules checks that each adapted matrix is in a module of transformers.
func (a *Adapter) checkModules() error {
	for _, p := range a.pairs {
		if len(a.model.Weight(p.Base).Rows) == 0 {
			return fmt.Errorf("%s belongs to experts, which are not modules in transformers, so PEFT cannot adapt it; save the adapter as GGUF, or merge it", p.Base)
		}
	}
	return nil
}

// tensors returns the factors of a module as tensors.
func (f *factors) tensors(path string, typ safetensors.Type) []safetensors.Data {
	nameA, nameB := path+peftA, path+peftB
	if f.isEmbedding() {
		nameA, nameB = path+peftEmbeddingA, path+peftEmbeddingB
	}
	rank := int64(f.rank)
	return []safetensors.Data{
		{Name: nameA, Type: typ, Shape: []int64{rank, int64(len(f.a)) / rank}, Values: f.a},
		{Name: nameB, Type: typ, Shape: []int64{int64(len(f.b)) / rank, rank}, Values: f.b},
	}
}

// describe returns the configuration for the factors of modules.
func (a *Adapter) describe(o PEFTOptions, list []factors, paths map[string]string) peftConfig {
	c := peftConfig{PEFTType: "LORA", TaskType: "CAUSAL_LM", Dropout: o.Dropout, Bias: "none", Init: true, Inference: true}
	if base := a.repository(); o.BaseModel != "" {
		c.BaseModel = &o.BaseModel
	} else if base != "" {
		c.BaseModel = &base
	}
	ranks, alphas := map[string]float32{}, map[string]float32{}
	for _, f := range list {
		ranks[f.name], alphas[f.name] = float32(f.rank), f.alpha
	}
	if stabilized := stabilizedAlphas(list); isSimpler(stabilized, alphas) {
		c.RSLoRA, alphas = true, stabilized
	}
	rank, rankPattern := pattern(ranks, paths)
	c.Rank, c.RankPattern = int(rank), rankPattern
	c.Alpha, c.AlphaPattern = pattern(alphas, paths)
	modules := a.model.Modules()
	linear := slices.DeleteFunc(slices.Clone(modules), isParameter)
	c.Targets, c.Layers = targetModules(linear, a.model.NumBlocks(), ranks, paths, o.Root != "")
	if c.Targets == nil {
		c.Targets = []string{} // none; null would mean PEFT's defaults for the architecture
	}
	c.Parameters = targetParameters(modules, ranks, paths, c.RankPattern, c.AlphaPattern)
	return c
}

func isParameter(m arch.Module) bool { return m.Rows[0].Parameter }

// targetParameters returns the whole paths of adapted matrices in modules that are not linear layers: PEFT ignores
// layers for them. Patterns must name the matrices, too.
func targetParameters(all []arch.Module, adapted map[string]float32, paths map[string]string, patterns ...peftPattern) (parameters []string) {
	for _, m := range all {
		if _, ok := adapted[m.Path]; !ok || !isParameter(m) {
			continue
		}
		parameters = append(parameters, paths[m.Path]+peftParameter)
		for _, p := range patterns {
			for i, rule := range p {
				if rule.key == m.Name() || rule.key == paths[m.Path] {
					p[i].key += peftParameter
				}
			}
		}
	}
	return parameters
}

// repository returns the Hugging Face repository of the base model, if the adapter names one.
func (a *Adapter) repository() string {
	address, _ := a.Keys[keyRepository].(string)
	name, ok := strings.CutPrefix(address, huggingFaceURL)
	if !ok {
		return ""
	}
	return name
}

// stabilizedAlphas returns alpha/√rank for all factors, or nil if multiplying by √rank does not restore alpha
// exactly.
func stabilizedAlphas(list []factors) map[string]float32 {
	alphas := map[string]float32{}
	for _, f := range list {
		root := math.Sqrt(float64(f.rank))
		alpha := float32(float64(f.alpha) / root)
		if nearest := float32(math.Round(float64(alpha))); float32(float64(nearest)*root) == f.alpha {
			alpha = nearest
		}
		if float32(float64(alpha)*root) != f.alpha {
			return nil
		}
		alphas[f.name] = alpha
	}
	return alphas
}

// isSimpler reports whether x has fewer distinct values than y, or equally many and fewer fractional ones.
func isSimpler(x, y map[string]float32) bool {
	if x == nil {
		return false
	}
	count := func(of map[string]float32) (different, broken int) {
		values := map[float32]bool{}
		for _, v := range of {
			if !values[v] && v != float32(math.Trunc(float64(v))) {
				broken++
			}
			values[v] = true
		}
		return len(values), broken
	}
	differentX, brokenX := count(x)
	differentY, brokenY := count(y)
	return differentX < differentY || differentX == differentY && brokenX < brokenY
}

// pattern returns the number that most modules have, and rules for the others: by module name if all modules of that
// name have the same number, else by path.
func pattern(numbers map[string]float32, paths map[string]string) (most float32, rules peftPattern) {
	count, byName := map[float32]int{}, map[string][]float32{}
	for _, path := range slices.Sorted(maps.Keys(numbers)) {
		v := numbers[path]
		count[v]++
		if count[v] > count[most] || count[v] == count[most] && v > most {
			most = v
		}
		name := arch.Module{Path: path}.Name()
		if !slices.Contains(byName[name], v) {
			byName[name] = append(byName[name], v)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		if values := byName[name]; len(values) == 1 && values[0] != most {
			rules = append(rules, peftRule{key: name, value: values[0]})
		}
	}
	for _, path := range slices.Sorted(maps.Keys(numbers)) {
		if v := numbers[path]; len(byName[arch.Module{Path: path}.Name()]) > 1 && v != most {
			rules = append(rules, peftRule{key: paths[path], value: v})
		}
	}
	return most, rules
}

// targetModules names the modules that have factors: by the last part of their paths if all layers have the same
// ones; with a list of layers if all adapted layers have the same ones; else by whole paths. Only whole paths are
// safe if the model is more than the text model.
func targetModules(all []arch.Module, layers int, adapted map[string]float32, paths map[string]string, whole bool) (targets []string, of []int) {
	byLayer := map[int][]string{}
	for _, m := range all {
		if _, ok := adapted[m.Path]; ok {
			byLayer[m.Layer] = append(byLayer[m.Layer], m.Name())
			targets = append(targets, paths[m.Path])
		}
	}
	outside := byLayer[-1]
	delete(byLayer, -1)
	used := slices.Sorted(maps.Keys(byLayer))
	same := !slices.ContainsFunc(used, func(i int) bool { return !slices.Equal(byLayer[i], byLayer[used[0]]) })
	switch {
	case whole || !same:
		return targets, nil
	case len(used) == 0:
		return outside, nil
	case len(used) == layers:
		return slices.Concat(byLayer[0], outside), nil
	case len(outside) == 0 && !slices.ContainsFunc(all, isRenumbered):
		return byLayer[used[0]], used
	}
	return targets, nil
}

// isRenumbered reports whether PEFT does not find the layer's number in the path of its module.
func isRenumbered(m arch.Module) bool {
	found := layerOf.FindStringSubmatch("." + m.Path)
	return m.Layer >= 0 && (found == nil || found[1] != strconv.Itoa(m.Layer))
}
