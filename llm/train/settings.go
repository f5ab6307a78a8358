package train

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/goggml/ggml"
)

// A setting is something that decides the result of a run, in words. A run that is
// continued must have the fixed ones in common with the one before; it may change
// the others.
type setting struct {
	name, value string
	kind        settingKind
	opaque      bool // the value is a fingerprint, which tells nobody anything
}

// A settingKind is what keys of settings begin with in a checkpoint.
type settingKind string

const (
	fixedSetting  settingKind = "training.fixed."
	freeSetting   settingKind = "training.free."
	originSetting settingKind = "training.data." // of the data, whose fingerprint is a fixed setting
)

func (s setting) key() string { return string(s.kind) + s.name }

// settingData is the fingerprint of the data, settingLength what each sample is cut to.
const settingData, settingLength = "data", "sample length"

const settingCheckpointing = "gradient checkpointing"

// freeSettings are how the parameters move, and how long.
func (t *Trainer) freeSettings() []setting {
	o, s := t.options, t.schedule
	var list []setting
	for _, free := range []struct {
		name  string
		value any
	}{
		{"steps", s.Steps},
		{"learning rate", s.Peak},
		{"final learning rate", s.Floor},
		{"warm-up", s.Warmup},
		{"schedule", s.Shape},
		{"period of the schedule", s.Period},
		{"growth of the period", s.growth()},
		{"restarts", s.Restart},
		{"β₁", o.AdamW.Beta1},
		{"β₂", o.AdamW.Beta2},
		{"ε", o.AdamW.Epsilon},
		{"weight decay", o.AdamW.Decay},
		{"dimensions from which on weights decay", o.AdamW.DecayMinDims},
		{"gradient clip", o.AdamW.Clip},
		{"learning rate of B over that of A", cmp.Or(o.LoRAPlus, 1)},
		{"patience", o.Convergence.Patience},
		{"least improvement of an evaluation", o.Convergence.MinDelta},
		{"steps between losses that are compared", o.Convergence.Past},
		{"least change of the loss between them", o.Convergence.Delta},
		{"least change of the loss in a step", o.Convergence.Epsilon},
		{"steps without a new lowest loss", o.Convergence.MaxNoImprovement},
		{"dropout", o.Dropout},
		{"alpha of NEFTune", o.NEFTune},
		{"compute type", o.ComputeType},
		{settingCheckpointing, resolved(t.checkpointing)},
	} {
		list = append(list, setting{name: free.name, value: fmt.Sprint(free.value), kind: freeSetting})
	}
	return list
}

// fixedSettings are what is computed, and the order of the rows. They are found when
// they are needed first: a run without checkpoints does without the fingerprints.
func (t *Trainer) fixedSettings() ([]setting, error) {
	if t.fixed != nil {
		return t.fixed, nil
	}
	list, err := t.hyperParameters()
	if err != nil {
		return nil, err
	}
	weights, err := hashTensors(t.frozen())
	if err != nil {
		return nil, err
	}
	list = append(list,
		setting{name: "frozen weights", value: weights, opaque: true},
		setting{name: settingData, value: t.data.Fingerprint(), opaque: true},
		setting{name: settingLength, value: fmt.Sprint(t.data.Length)},
		setting{name: "batch", value: fmt.Sprint(t.options.Batch)},
		setting{name: "gradient accumulation", value: fmt.Sprint(t.options.Accumulate)},
		setting{name: "seed", value: fmt.Sprint(t.options.Seed)},
		setting{name: "rows grouped by length", value: fmt.Sprint(t.options.GroupByLength)},
	)
	for _, base := range slices.Sorted(maps.Keys(t.adapters)) {
		var scales []string
		for _, p := range t.adapters[base] {
			scales = append(scales, fmt.Sprint(p.Scale))
		}
		list = append(list, setting{name: "adapter scale of " + base, value: strings.Join(scales, ", ")})
	}
	for i := range list {
		list[i].kind = fixedSetting
	}
	t.fixed = list
	return list, nil
}

// originSettings are what the caller says of the data.
func (t *Trainer) originSettings() []setting {
	var list []setting
	for _, name := range slices.Sorted(maps.Keys(t.options.DataOrigin)) {
		list = append(list, setting{name: name, value: t.options.DataOrigin[name], kind: originSetting})
	}
	return list
}

// explainData replaces other data by what differs in its origin, where that or the length of
// samples explains it.
func (t *Trainer) explainData(g *ggml.GGUF, list []Difference) []Difference {
	at := slices.IndexFunc(list, func(d Difference) bool { return d.Setting == settingData })
	if at < 0 {
		return list
	}
	reasons := compare(g, t.originSettings())
	length := slices.ContainsFunc(list, func(d Difference) bool { return d.Setting == settingLength })
	if len(reasons) > 0 || length && len(t.options.DataOrigin) > 0 {
		return slices.Replace(list, at, at+1, reasons...)
	}
	return list
}

// hyperParameters are those of the model as its file has them: a field that Config gets
// later is no difference where a model does not have it.
func (t *Trainer) hyperParameters() ([]setting, error) {
	g, err := ggml.NewGGUF()
	if err != nil {
		return nil, err
	}
	defer g.Close()
	if err := t.m.Config().WriteKeys(g); err != nil {
		return nil, err
	}
	var list []setting
	for key, value := range g.Keys() {
		if key == keyArch || strings.HasPrefix(key, t.m.Config().Arch+".") {
			list = append(list, setting{name: key, value: fmt.Sprint(value)})
		}
	}
	return list, nil
}

// A Difference is a setting that is not what it was in the run of a checkpoint.
type Difference struct {
	Setting string // such as "batch" or "learning rate"
	Was, Is string // empty for data and weights, of which only fingerprints are compared
}

// String tells the difference in words.
func (d Difference) String() string {
	if d.Was == "" && d.Is == "" {
		return "other " + d.Setting
	}
	return fmt.Sprintf("%s was %s, is %s", d.Setting, d.Was, d.Is)
}

// A MismatchError is a checkpoint of another run: the model, the data, the order of the
// rows, or what is trained is not the same.
type MismatchError struct {
	Path        string       // of the checkpoint
	Differences []Difference // all that there are
}

// Error names the file and what differs.
func (e *MismatchError) Error() string {
	const shown = 10
	var list []string
	for _, d := range e.Differences[:min(shown, len(e.Differences))] {
		list = append(list, d.String())
	}
	if more := len(e.Differences) - shown; more > 0 {
		list = append(list, fmt.Sprintf("and %d more", more))
	}
	return fmt.Sprintf("%s is of another run: %s; use the settings of that run, or start anew", e.Path, strings.Join(list, "; "))
}

// compare lists the settings that differ from those of a checkpoint. A setting that it
// does not have, because the program of its run did not know it, is none.
func compare(g *ggml.GGUF, settings []setting) []Difference {
	var list []Difference
	for _, s := range settings {
		was, err := ggml.GGUFValue[string](g, s.key())
		if err != nil || was == s.value {
			continue
		}
		d := Difference{Setting: s.name, Was: was, Is: s.value}
		if s.opaque {
			d.Was, d.Is = "", ""
		}
		list = append(list, d)
	}
	return list
}

// compareFixed also lists the fixed settings of the checkpoint that this program does not
// know: it would compute something else.
func (t *Trainer) compareFixed(g *ggml.GGUF) ([]Difference, error) {
	settings, err := t.fixedSettings()
	if err != nil {
		return nil, err
	}
	list := t.explainData(g, compare(g, settings))
	for key, value := range g.Keys() {
		name, fixed := strings.CutPrefix(key, string(fixedSetting))
		if fixed && !slices.ContainsFunc(settings, func(s setting) bool { return s.name == name }) {
			list = append(list, Difference{Setting: name, Was: fmt.Sprint(value), Is: "absent"})
		}
	}
	return list, nil
}
