package training

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/goggml/ggml/llm/train"
)

// flagOf names the flags that decide settings of a run.
var flagOf = map[string]string{
	"data":                                   "--train-data",
	"frozen weights":                         "--model-base",
	"rows grouped by length":                 "--group-by-length",
	"dropout":                                "--lora-dropout",
	"alpha of NEFTune":                       "--neftune-alpha",
	"sample length":                          "--ctx",
	"batch":                                  "--batch",
	"gradient accumulation":                  "--grad-acc",
	"seed":                                   "--seed",
	"learning rate":                          "--adam-alpha",
	"final learning rate":                    "--adam-min-alpha",
	"warm-up":                                "--warmup",
	"schedule":                               "--schedule",
	"period of the schedule":                 "--cos-decay-steps",
	"growth of the period":                   "--cos-decay-restart",
	"restarts":                               "--enable-restart",
	"β₁":                                     "--adam-beta1",
	"β₂":                                     "--adam-beta2",
	"ε":                                      "--adam-eps",
	"weight decay":                           "--adam-decay",
	"gradient clip":                          "--adam-gclip",
	"compute type":                           "--compute-type",
	"dimensions from which on weights decay": "--adam-decay-min-ndim",
	"learning rate of B over that of A":      "--lora-plus",
	"patience":                               "--patience",
	"least improvement of an evaluation":     "--min-delta",
	"steps between losses that are compared": "--opt-past",
	"least change of the loss between them":  "--opt-delta",
	"least change of the loss in a step":     "--adam-epsf",
	"steps without a new lowest loss":        "--opt-max-no-improvement",
}

// flagOfKey names the flags that decide hyper-parameters of the model, by the ends of their
// keys.
var flagOfKey = map[string]string{
	".rope.freq_base":                   "--rope-freq-base",
	".rope.scaling.factor":              "--rope-freq-scale",
	".attention.layer_norm_rms_epsilon": "--norm-rms-eps",
}

// Flags that decide the matrices of an adapter and their scales, which differ together.
const (
	shapeFlags = "--lora-r, --rank-of or --targets"
	scaleFlags = "--lora-alpha, --rslora or --lora-r"
)

// settingFlag is the flag that decides a setting, "" where none does alone.
func settingFlag(setting string) string {
	if flag, ok := flagOf[setting]; ok {
		return flag
	}
	for end, flag := range flagOfKey {
		if strings.HasSuffix(setting, end) {
			return flag
		}
	}
	return ""
}

// byFlag names settings by their flags. Of the matrices of an adapter it names the first.
func byFlag(list []train.Difference) []train.Difference {
	var named []train.Difference
	seen := map[string]bool{}
	for _, d := range list {
		group := ""
		switch {
		case strings.HasPrefix(d.Setting, "adapter scale of "):
			group = scaleFlags
		case strings.HasSuffix(d.Setting, ".lora_a"), strings.HasSuffix(d.Setting, ".lora_b"):
			group = shapeFlags
		}
		if group == "" {
			d.Setting = cmp.Or(settingFlag(d.Setting), d.Setting)
		} else if seen[group] {
			continue
		} else {
			seen[group] = true
			d.Setting = fmt.Sprintf("%s (%s)", group, d.Setting)
		}
		named = append(named, d)
	}
	return named
}

// Resume continues from --checkpoint-in, when the file exists. Where the user has named
// another file it says so. It tells which settings are others than before.
func (f *Flags) Resume(w io.Writer, t *train.Trainer) error {
	if f.CheckpointIn == "" {
		return nil
	}
	if _, err := os.Stat(f.CheckpointIn); errors.Is(err, fs.ErrNotExist) {
		if !f.hasFolder {
			fmt.Fprintf(w, "%s does not exist yet: a new run begins\n", f.CheckpointIn)
		}
		return nil
	}
	err := t.LoadCheckpoint(f.CheckpointIn)
	var other *train.MismatchError
	if errors.As(err, &other) {
		err = &train.MismatchError{Path: other.Path, Differences: byFlag(other.Differences)}
	}
	if err != nil {
		return fmt.Errorf("--checkpoint-in: %w", err)
	}
	if f.Reshuffle {
		t.Reshuffle()
		fmt.Fprintf(w, "--force-reshuffle: from step %d on the samples come in a new order\n", t.Steps())
	}
	var changes []string
	for _, d := range byFlag(t.Changes()) {
		changes = append(changes, d.String())
	}
	if len(changes) > 0 {
		fmt.Fprintf(w, "the run goes on with other settings: %s\n", strings.Join(changes, "; "))
	}
	return nil
}
