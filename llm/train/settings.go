package train

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/goggml/ggml"
)

// A SettingID is the name of a setting in checkpoints; it never changes. If it contains *, it is a
// pattern of [path.Match], where * stands for the name of each tensor that has the setting.
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
	SettingLoss             SettingID = "loss"
	SettingBestBy           SettingID = "best by"
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

// A Setting affects the result of a run. A resumed run must have the same settings, except free ones,
// which may change.
type Setting struct {
	ID SettingID
	// Words name the setting in messages. They may change; programs use the ID.
	Words string
	Free  bool
}

// Settings lists the settings that a trainer compares with a checkpoint, except the model's
// hyper-parameters, whose IDs are their keys in the model's file.
func Settings() []Setting {
	list := make([]Setting, len(settingTable))
	for i, row := range settingTable {
		list[i] = Setting{row.id, row.words, row.free}
	}
	return list
}

// A settingRow is a setting and the way to read its value from a trainer.
type settingRow struct {
	id     SettingID
	words  string
	free   bool
	reader settingReader
}

const fixedSetting, freeSetting = false, true

// settingTable lists the settings in the order of checkpoints. Fixed settings determine what is
// computed and the order of the rows; free ones determine how the parameters are updated, and for how
// many steps.
var settingTable = []settingRow{
	{SettingFrozenWeights, "frozen weights", fixedSetting, fingerprint(func(t *Trainer) (string, error) { return hashTensors(t.frozen()) })},
	{SettingData, "data", fixedSetting, fingerprint(func(t *Trainer) (string, error) { return t.data.Fingerprint(), nil })},
	{SettingSampleLength, "sample length", fixedSetting, settingValue(func(t *Trainer) any { return t.data.Length })},
	{SettingBatch, "batch", fixedSetting, settingValue(func(t *Trainer) any { return t.options.Batch })},
	{SettingAccumulation, "gradient accumulation", fixedSetting, settingValue(func(t *Trainer) any { return t.options.Accumulate })},
	{SettingSeed, "seed", fixedSetting, settingValue(func(t *Trainer) any { return t.options.Seed })},
	{SettingGroupByLength, "rows grouped by length", fixedSetting, settingValue(func(t *Trainer) any { return t.options.GroupByLength })},
	{SettingAdapterScales, "adapter scale of *", fixedSetting, settingByTensor((*Trainer).adapterScales)},
	{SettingLoss, "loss", fixedSetting, settingUnlessDefault(func(t *Trainer) string { return t.options.Loss.Name })},
	{SettingBestBy, "figure of the best evaluation", fixedSetting, settingUnlessDefault((*Trainer).bestBy)},

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

// A settingReader reads the values of a row's setting from a trainer.
type settingReader interface {
	read(t *Trainer, of setting) ([]setting, error)
}

type settingValue func(t *Trainer) any

func (f settingValue) read(t *Trainer, of setting) ([]setting, error) {
	of.value = fmt.Sprint(f(t))
	return []setting{of}, nil
}

// A settingUnlessDefault returns "" for the default, which checkpoints omit.
type settingUnlessDefault func(t *Trainer) string

func (f settingUnlessDefault) read(t *Trainer, of setting) ([]setting, error) {
	of.value, of.absence = f(t), true
	if of.value == "" {
		return nil, nil
	}
	return []setting{of}, nil
}

func (t *Trainer) bestBy() string {
	if t.options.BestBy == BestByLoss {
		return ""
	}
	return t.options.BestBy.String()
}

// A fingerprint is the hash of a value too large for messages.
type fingerprint func(t *Trainer) (string, error)

func (f fingerprint) read(t *Trainer, of setting) (_ []setting, err error) {
	of.opaque = true
	of.value, err = f(t)
	return []setting{of}, err
}

// A settingByTensor returns values by the name that replaces * in its row's ID.
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

// Key prefixes of settings in checkpoints.
const (
	fixedKeys  = "training.fixed."
	freeKeys   = "training.free."
	originKeys = "training.data." // the data's origin; its fingerprint is a fixed setting
)

// A setting is the value of a [Setting] in a run, as text.
type setting struct {
	keys         string
	id           SettingID
	words, value string
	opaque       bool // the value is a fingerprint, not shown in messages
	absence      bool // a checkpoint without the setting differs
}

func (s setting) key() string { return s.keys + string(s.id) }

// readSettings reads the free or the fixed settings of the table.
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

// fixedSettings returns the fixed settings. They are read on first use, so a run without checkpoints
// needs no fingerprints.
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

// hyperParameters returns the model's hyper-parameters as its file has them, so that a field added to
// Config later makes no difference for models without it.
func (t *Trainer) hyperParameters() (list []setting) {
	add := func(key string, value any) {
		list = append(list, setting{
			keys: fixedKeys, id: SettingID(key), words: key, value: fmt.Sprint(value),
			absence: strings.Contains(key, ".rope.scaling."), // unscaled RoPE has no such key
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

// explainData replaces the difference of the data's fingerprint by the differences of its origin; it
// omits it if the length of samples explains it.
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

// A Difference is a setting that differs from a checkpoint's.
type Difference struct {
	// ID identifies the setting for programs, and never changes: an ID in [Settings], a hyper-parameter's
	// key in the model's file, a name that the program used in DataOrigin, or "tensor NAME" for a trained
	// tensor.
	ID      SettingID
	Setting string // in words, such as "batch" or "learning rate"
	Was, Is string // empty for data and weights, because only fingerprints are compared
}

// String describes the difference in words.
func (d Difference) String() string {
	if d.Was == "" && d.Is == "" {
		return "other " + d.Setting
	}
	return fmt.Sprintf("%s was %s, is %s", d.Setting, d.Was, d.Is)
}

// absent is shown as the value of an absent setting.
const absent = "absent"

// A MismatchError reports that a checkpoint belongs to another run: the model, the data, the order of
// the rows or the trained tensors differ.
type MismatchError struct {
	Path        string       // path of the checkpoint
	Differences []Difference // all of them
}

// Error names the file and the first differences.
func (e *MismatchError) Error() string {
	const shown = 10
	var list []string
	for _, d := range e.Differences[:min(shown, len(e.Differences))] {
		list = append(list, d.String())
	}
	if more := len(e.Differences) - shown; more > 0 {
		list = append(list, fmt.Sprintf("and %d more", more))
	}
	return fmt.Sprintf("%s belongs to another run: %s; use the settings of that run, or start a new one", e.Path, strings.Join(list, "; "))
}

// compare lists the settings that differ from a checkpoint's. A setting that the checkpoint lacks,
// because an older program wrote it, counts as equal, unless its absence flag is set.
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

// compareFixed also lists the checkpoint's fixed settings that this program does not know, because it
// would compute something else.
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
