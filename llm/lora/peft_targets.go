package lora

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/goggml/ggml/internal/counted"
	"github.com/goggml/ggml/llm/arch"
)

// peftTargets are the settings by which PEFT selects modules when it loads an adapter; it ignores the tensors of
// other modules.
type peftTargets struct {
	Modules    json.RawMessage `json:"target_modules"` // names, or a regular expression for whole paths
	Exclude    json.RawMessage `json:"exclude_modules"`
	Layers     json.RawMessage `json:"layers_to_transform"` // numbers, or one number
	Parameters json.RawMessage `json:"target_parameters"`   // suffixes of paths, in all layers
}

// peftParameter is the suffix of a module's matrix in target_parameters.
const peftParameter = ".weight"

// checkParameters rejects parameters that are not matrices of modules, such as experts.
func (r *peftReader) checkParameters() {
	raw, a := r.config.targets.Parameters, r.m.Architecture()
	if !isSet(raw) {
		return
	}
	isOther := func(name string) bool {
		module, ok := strings.CutSuffix(name, peftParameter)
		return !ok || !slices.ContainsFunc(a.Modules(), func(m arch.Module) bool { return strings.HasSuffix("."+m.Path, "."+modulePath(a, module)) })
	}
	var names []string
	if json.Unmarshal(raw, &names) != nil || slices.ContainsFunc(names, isOther) {
		r.fault("%s: target_parameters is %s, which are not matrices of modules; %s", peftConfigName, short(raw), mergeRemedy)
	}
}

// patternPath returns the path that patterns match: the matrix's path if PEFT treats the matrix as a parameter.
func (t *peftTargets) patternPath(path string) string {
	if t.hasParameter(path) {
		return path + peftParameter
	}
	return path
}

// hasParameter reports whether target_parameters contains the matrix of a module.
func (t *peftTargets) hasParameter(path string) bool {
	in, _ := matchesModules(t.Parameters, path+peftParameter)
	return in
}

// untargeted reports modules whose tensors PEFT ignores and Load applies.
func (r *peftReader) untargeted() []string {
	var left []string
	for _, p := range r.found {
		if !r.config.targets.has(p.path) {
			left = append(left, p.path)
		}
	}
	if len(left) == 0 {
		return nil
	}
	slices.Sort(left)
	return []string{fmt.Sprintf("%s not in target_modules of %s, but the file has their tensors, such as %s: PEFT would ignore these; here they are used",
		counted.Are(len(left), "module"), peftConfigName, left[0])}
}

// has reports whether PEFT adapts a module; it returns true if that is unknown.
func (t *peftTargets) has(path string) bool {
	if t.hasParameter(path) {
		return true
	}
	if t.Modules == nil || string(t.Modules) == "null" { // PEFT's default depends on the architecture
		return true
	}
	if t.Exclude != nil && string(t.Exclude) != "null" {
		if in, known := matchesModules(t.Exclude, path); known && in {
			return false
		}
	}
	if in, known := matchesModules(t.Modules, path); known && !in {
		return false
	}
	return t.hasLayer(path)
}

var layerOf = regexp.MustCompile(`\.[^.]+\.(\d+)\.`)

// hasLayer reports whether layers_to_transform contains the layer of a module.
func (t *peftTargets) hasLayer(path string) bool {
	var layers []int
	var one int
	if json.Unmarshal(t.Layers, &one) == nil && string(t.Layers) != "null" {
		layers = []int{one}
	} else if json.Unmarshal(t.Layers, &layers) != nil || layers == nil {
		return true
	}
	found := layerOf.FindStringSubmatch("." + path)
	if found == nil {
		return true
	}
	layer, err := strconv.Atoi(found[1])
	return err != nil || slices.Contains(layers, layer)
}

// matchesModules reports whether a setting names a module; known is false if the setting is not understood.
func matchesModules(setting json.RawMessage, path string) (in, known bool) {
	var list []string
	if json.Unmarshal(setting, &list) == nil {
		return slices.ContainsFunc(list, func(name string) bool { return path == name || strings.HasSuffix(path, "."+name) }), true
	}
	var pattern string
	if json.Unmarshal(setting, &pattern) != nil {
		return false, false
	}
	if pattern == "all-linear" { // all linear layers except the output
		return path != "lm_head" && !strings.HasSuffix(path, "embed_tokens"), true
	}
	expression, err := regexp.Compile(`^(?:` + pattern + `)$`)
	if err != nil { // Go's regular expressions lack a few features of Python's
		return false, false
	}
	return expression.MatchString(path), true
}
