package train

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/goggml/ggml"
)

// A SettingID is the name of a setting in checkpoints, and never changes. A * in it stands for the name of each tensor that
// has the setting: the ID is a pattern of [path.Match] then.
type SettingID string

// The IDs of [Settings].
const (
	SettingFrozenWeights    SettingID = "frozen weights"
	SettingData             SettingID = "data"
	SettingSampleLength     SettingID = "sample length"
	SettingBatch            SettingID = "batch"
	SettingAccumulation     SettingID = "gradient accumulation"
	SettingSeed             SettingID = "seed"
	SettingGroupByLength    SettingID = "rows grouped by length"
	SettingAdapterScales    SettingID = "adapter scale of *"
	SettingSteps            SettingID = "steps"
	SettingLearningRate     SettingID = "learning rate"
	SettingFinalRate        SettingID = "final learning rate"
	SettingWarmup           SettingID = "warm-up"
	SettingShape            SettingID = "schedule"
	SettingPeriod           SettingID = "period of the schedule"
	SettingGrowth           SettingID = "growth of the period"
	SettingAtFloor          SettingID = "floor in the last step"
	SettingRestarts         SettingID = "restarts"
	SettingBeta1            SettingID = "β₁"
	SettingBeta2            SettingID = "β₂"
	SettingEpsilon          SettingID = "ε"
	SettingWeightDecay      SettingID = "weight decay"
	SettingDecayMinDims     SettingID = "dimensions from which on weights decay"
	SettingGradientClip     SettingID = "gradient clip"
	SettingLoRAPlus         SettingID = "learning rate of B over that of A"
	SettingPatience         SettingID = "patience"
	SettingMinDelta         SettingID = "least improvement of an evaluation"
	SettingPast             SettingID = "steps between losses that are compared"
	SettingDelta            SettingID = "least change of the loss between them"
	SettingLossEpsilon      SettingID = "least change of the loss in a step"
	SettingMaxNoImprovement SettingID = "steps without a new lowest loss"
	SettingDropout          SettingID = "dropout"
	SettingNEFTune          SettingID = "alpha of NEFTune"
	SettingComputeType      SettingID = "compute type"
	SettingCheckpointing    SettingID = "gradient checkpointing"
	SettingWeightCopies     SettingID = "weight copies"
)

// A Setting decides the result of a run. A run that continues has the same settings, except the
// free ones, which may change.
type Setting struct {
	ID SettingID
	// Words name it in messages. Nothing is found by them, so that they may change.
	Words string
	Free  bool
}

// Settings lists what a trainer compares with a checkpoint, except the model's hyper-parameters,
// whose IDs are their keys in its file.
func Settings() []Setting {
	list := make([]Setting, len(settingTable))
	for i, row := range settingTable {
		list[i] = Setting{row.id, row.words, row.free}
	}
	return list
}

// A settingRow is a setting, and how it is read from a trainer.
type settingRow struct {
	id     SettingID
	words  string
	free   bool
	reader settingReader
}

const fixedSetting, freeSetting = false, true

// settingTable has the settings in the order of checkpoints. Fixed settings decide what is computed
// and the order of the rows, free ones how the parameters move, and for how long.
var settingTable = []settingRow{
	{SettingFrozenWeights, "frozen weights", fixedSetting, fingerprint(func(t *Trainer) (string, error) { return hashTensors(t.frozen()) })},
	{SettingData, "data", fixedSetting, fingerprint(func(t *Trainer) (string, error) { return t.data.Fingerprint(), nil })},
	{SettingSampleLength, "sample length", fixedSetting, settingValue(func(t *Trainer) any { return t.data.Length })},
	{SettingBatch, "batch", fixedSetting, settingValue(func(t *Trainer) any { return t.options.Batch })},
	{SettingAccumulation, "gradient accumulation", fixedSetting, settingValue(func(t *Trainer) any { return t.options.Accumulate })},
	{SettingSeed, "seed", fixedSetting, settingValue(func(t *Trainer) any { return t.options.Seed })},
	{SettingGroupByLength, "rows grouped by length", fixedSetting, settingValue(func(t *Trainer) any { return t.options.GroupByLength })},
	{SettingAdapterScales, "adapter scale of *", fixedSetting, settingByTensor((*Trainer).adapterScales)},

	{SettingSteps, "steps", freeSetting, settingValue(func(t *Trainer) any { return t.schedule.Steps })},
	{SettingLearningRate, "learning rate", freeSetting, settingValue(func(t *Trainer) any { return t.schedule.Peak })},
	{SettingFinalRate, "final learning rate", freeSetting, settingValue(func(t *Trainer) any { return t.schedule.Floor })},
	{SettingWarmup, "warm-up", freeSetting, settingValue(func(t *Trainer) any { return t.schedule.Warmup })},
	{SettingShape, "schedule", freeSetting, settingValue(func(t *Trainer) any { return t.schedule.Shape })},
	{SettingPeriod, "period of the schedule", freeSetting, settingValue(func(t *Trainer) any { return t.schedule.Period })},
	{SettingGrowth, "growth of the period", freeSetting, settingValue(func(t *Trainer) any { return t.schedule.growth() })},
	{SettingAtFloor, "floor in the last step", freeSetting, settingValue(func(t *Trainer) any { return t.schedule.AtFloor })},
	{SettingRestarts, "restarts", freeSetting, settingValue(func(t *Trainer) any { return t.schedule.Restart })},
	{SettingBeta1, "β₁", freeSetting, settingValue(func(t *Trainer) any { return t.options.AdamW.Beta1 })},
	{SettingBeta2, "β₂", freeSetting, settingValue(func(t *Trainer) any { return t.options.AdamW.Beta2 })},
	{SettingEpsilon, "ε", freeSetting, settingValue(func(t *Trainer) any { return t.options.AdamW.Epsilon })},
	{SettingWeightDecay, "weight decay", freeSetting, settingValue(func(t *Trainer) any { return t.options.AdamW.Decay })},
	{SettingDecayMinDims, "dimensions from which on weights decay", freeSetting, settingValue(func(t *Trainer) any { return t.options.AdamW.DecayMinDims })},
	{SettingGradientClip, "gradient clip", freeSetting, settingValue(func(t *Trainer) any { return t.options.AdamW.Clip })},
	{SettingLoRAPlus, "learning rate of B over that of A", freeSetting, settingValue(func(t *Trainer) any { return cmp.Or(t.options.LoRAPlus, 1) })},
	{SettingPatience, "patience", freeSetting, settingValue(func(t *Trainer) any { return t.options.Convergence.Patience })},
	{SettingMinDelta, "least improvement of an evaluation", freeSetting, settingValue(func(t *Trainer) any { return t.options.Convergence.MinDelta })},
	{SettingPast, "steps between losses that are compared", freeSetting, settingValue(func(t *Trainer) any { return t.options.Convergence.Past })},
	{SettingDelta, "least change of the loss between them", freeSetting, settingValue(func(t *Trainer) any { return t.options.Convergence.Delta })},
	{SettingLossEpsilon, "least change of the loss in a step", freeSetting, settingValue(func(t *Trainer) any { return t.options.Convergence.Epsilon })},
	{SettingMaxNoImprovement, "steps without a new lowest loss", freeSetting, settingValue(func(t *Trainer) any { return t.options.Convergence.MaxNoImprovement })},
	{SettingDropout, "dropout", freeSetting, settingValue(func(t *Trainer) any { return t.options.Dropout })},
	{SettingNEFTune, "alpha of NEFTune", freeSetting, settingValue(func(t *Trainer) any { return t.options.NEFTune })},
	{SettingComputeType, "compute type", freeSetting, settingValue(func(t *Trainer) any { return t.options.ComputeType })},
	{SettingCheckpointing, "gradient checkpointing", freeSetting, settingValue(func(t *Trainer) any { return resolved(t.checkpointing) })},
	{SettingWeightCopies, "weight copies", freeSetting, settingValue(func(t *Trainer) any { return t.keptWords() })},
}

// A settingReader gives what a trainer has of the setting of a row.
type settingReader interface {
	read(t *Trainer, of setting) ([]setting, error)
}

type settingValue func(t *Trainer) any

func (f settingValue) read(t *Trainer, of setting) ([]setting, error) {
	of.value = fmt.Sprint(f(t))
	return []setting{of}, nil
}

// A fingerprint stands for what is too large to be told.
type fingerprint func(t *Trainer) (string, error)

func (f fingerprint) read(t *Trainer, of setting) (_ []setting, err error) {
	of.opaque = true
	of.value, err = f(t)
	return []setting{of}, err
}

// A settingByTensor is a value for each name that stands for the * of its row.
type settingByTensor func(t *Trainer) map[string]string

func (f settingByTensor) read(t *Trainer, of setting) (list []setting, _ error) {
	values := f(t)
	for _, name := range slices.Sorted(maps.Keys(values)) {
		one := of
		one.id, one.words = SettingID(strings.Replace(string(of.id), "*", name, 1)), strings.Replace(of.words, "*", name, 1)
		one.value = values[name]
		list = append(list, one)
	}
	return list, nil
}

func (t *Trainer) adapterScales() map[string]string {
	all := map[string]string{}
	for base, pairs := range t.adapters {
		var scales []string
		for _, p := range pairs {
			scales = append(scales, fmt.Sprint(p.Scale))
		}
		all[base] = strings.Join(scales, ", ")
	}
	return all
}

// What keys of settings begin with in a checkpoint.
const (
	fixedKeys  = "training.fixed."
	freeKeys   = "training.free."
	originKeys = "training.data." // of the data, whose fingerprint is a fixed setting
)

// A setting is a run's value of a [Setting], as text.
type setting struct {
	keys         string
	id           SettingID
	words, value string
	opaque       bool // the value is a fingerprint, which means nothing to people
	absence      bool // is a value too: a checkpoint without it differs
}

func (s setting) key() string { return s.keys + string(s.id) }

// readSettings reads the table's settings that are free, or that are fixed.
func (t *Trainer) readSettings(free bool) ([]setting, error) {
	keys := fixedKeys
	if free {
		keys = freeKeys
	}
	var list []setting
	for _, row := range settingTable {
		if row.free != free {
			continue
		}
		read, err := row.reader.read(t, setting{keys: keys, id: row.id, words: row.words})
		if err != nil {
			return nil, err
		}
		list = append(list, read...)
	}
	return list, nil
}

// fixedSettings are found when they are needed first: a run without checkpoints does without
// the fingerprints.
func (t *Trainer) fixedSettings() ([]setting, error) {
	if t.fixed != nil {
		return t.fixed, nil
	}
	list, err := t.readSettings(fixedSetting)
	if err != nil {
		return nil, err
	}
	t.fixed = append(t.hyperParameters(), list...)
	return t.fixed, nil
}

func (t *Trainer) freeSettings() ([]setting, error) { return t.readSettings(freeSetting) }

// hyperParameters returns the hyper-parameters of the model as its file has them: a field that
// Config gets later makes no difference to a model that lacks it.
func (t *Trainer) hyperParameters() (list []setting) {
	add := func(key string, value any) {
		list = append(list, setting{
			keys: fixedKeys, id: SettingID(key), words: key, value: fmt.Sprint(value),
			absence: strings.Contains(key, ".rope.scaling."), // RoPE that is not scaled has no key
		})
	}
	c := t.m.Config()
	add(keyArch, c.Arch)
	for key, value := range c.HyperParameters() {
		add(key, value)
	}
	return list
}

// originSettings returns the caller's description of the data.
func (t *Trainer) originSettings() (list []setting) {
	for _, name := range slices.Sorted(maps.Keys(t.options.DataOrigin)) {
		list = append(list, setting{keys: originKeys, id: SettingID(name), words: name, value: t.options.DataOrigin[name]})
	}
	return list
}

// explainData replaces other data by what differs in its origin, where that or the length of
// samples explains it.
func (t *Trainer) explainData(g *ggml.GGUF, list []Difference) []Difference {
	at := slices.IndexFunc(list, func(d Difference) bool { return d.ID == SettingData })
	if at < 0 {
		return list
	}
	reasons := compare(g, t.originSettings())
	length := slices.ContainsFunc(list, func(d Difference) bool { return d.ID == SettingSampleLength })
	if len(reasons) > 0 || length && len(t.options.DataOrigin) > 0 {
		return slices.Replace(list, at, at+1, reasons...)
	}
	return list
}

// A Difference is a setting that is not what it was in the run of a checkpoint.
type Difference struct {
	// ID identifies what differs: a setting's ID in [Settings], a hyper-parameter's key in the
	// model's file, the name that the program gave as DataOrigin, and "tensor NAME" for a trained
	// tensor. It never changes: programs find by it what the difference is about.
	ID      SettingID
	Setting string // in words, such as "batch" or "learning rate"
	Was, Is string // empty for data and weights, whose fingerprints are compared
}

// String describes the difference in words.
func (d Difference) String() string {
	if d.Was == "" && d.Is == "" {
		return "other " + d.Setting
	}
	return fmt.Sprintf("%s was %s, is %s", d.Setting, d.Was, d.Is)
}

// absent stands for the value of what is not there.
const absent = "absent"

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

// compare lists the settings that differ from a checkpoint's. A setting that the checkpoint lacks,
// because the program of its run did not know it, makes no difference unless absence is a value.
func compare(g *ggml.GGUF, settings []setting) []Difference {
	var list []Difference
	for _, s := range settings {
		was, err := ggml.GGUFValue[string](g, s.key())
		if err != nil && s.absence {
			was = absent
		} else if err != nil || was == s.value {
			continue
		}
		d := Difference{s.id, s.words, was, s.value}
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
		id, fixed := strings.CutPrefix(key, fixedKeys)
		if fixed && !slices.ContainsFunc(settings, func(s setting) bool { return string(s.id) == id }) {
			list = append(list, Difference{SettingID(id), id, fmt.Sprint(value), absent})
		}
	}
	return list, nil
}
