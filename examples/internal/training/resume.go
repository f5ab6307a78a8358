package training

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/goggml/ggml/llm/run"
	"github.com/goggml/ggml/llm/train"
)

// deciding returns the names of the flags that decide a setting; one reports whether a single flag decides it
// and nothing else. Fields of flags have a tag with the [train.SettingID], or with several, separated by
// commas. The ID of a hyper-parameter is *.KEY, and a trailing * matches several:
//
//	Batch int `name:"batch" setting:"batch"`
func deciding(flags []*kong.Flag, id train.SettingID) (names string, one bool) {
	var list []string
	one = true
	for _, f := range flags {
		for pattern := range strings.SplitSeq(f.Tag.Get("setting"), ",") {
			if is, _ := path.Match(pattern, string(id)); is {
				list = append(list, "--"+f.Name)
				one = one && !strings.HasSuffix(pattern, "*")
			}
		}
	}
	slices.Sort(list)
	if last := len(list) - 1; last > 0 {
		return strings.Join(list[:last], ", ") + " or " + list[last], false
	}
	return strings.Join(list, ""), one
}

// byFlag names settings by the flags that decide them. Of several settings with the same flags, such as the
// matrices of an adapter, it names the first.
func byFlag(list []train.Difference, flags []*kong.Flag) []train.Difference {
	var named []train.Difference
	seen := map[string]bool{}
	for _, d := range list {
		switch names, one := deciding(flags, d.ID); {
		case names == "":
		case one:
			d.Setting = names
		case seen[names]:
			continue
		default:
			seen[names] = true
			d.Setting = fmt.Sprintf("%s (%s)", names, d.Setting)
		}
		named = append(named, d)
	}
	return named
}

// Resume continues from --checkpoint-in if the file exists. If the user named the file and it does not exist,
// Resume prints that. It reports changed settings by the flags of the program.
func (f *Flags) Resume(ctx context.Context, w io.Writer, t *train.Trainer, flags []*kong.Flag) error {
	checkpoint, remove, err := f.Group().File(ctx, f.CheckpointIn)
	defer remove()
	var resumed bool
	if err == nil {
		resumed, err = run.Resume(t, checkpoint)
	}
	if err == nil && !resumed {
		if f.placed["checkpoint-in"] == "" && f.CheckpointIn != "" {
			fmt.Fprintf(w, "%s does not exist yet: a new run begins\n", f.CheckpointIn)
		}
		return nil
	}
	var other *train.MismatchError
	if errors.As(err, &other) {
		err = &train.MismatchError{Path: other.Path, Differences: byFlag(other.Differences, flags)}
	}
	if err != nil {
		return fmt.Errorf("%s: %w", f.Named("checkpoint-in"), err)
	}
	if f.Reshuffle && resumed {
		t.Reshuffle()
		fmt.Fprintf(w, "--force-reshuffle: after step %d the samples come in a new order\n", t.Steps())
	}
	var changes []string
	for _, d := range byFlag(t.Changes(), flags) {
		changes = append(changes, d.String())
	}
	if len(changes) > 0 {
		fmt.Fprintf(w, "the run continues with other settings: %s\n", strings.Join(changes, "; "))
	}
	if rates := newRates(t); rates != "" {
		fmt.Fprintln(w, rates)
	}
	return nil
}

// newRates describes how the learning rate changes in a run that is continued with another number of steps than
// planned; "" for other runs.
func newRates(t *train.Trainer) string {
	otherwise := slices.ContainsFunc(t.Changes(), func(d train.Difference) bool { return d.ID == train.SettingSteps })
	next, last := t.Steps()+1, t.TotalSteps()
	if !otherwise || len(t.History) == 0 || next > last {
		return ""
	}
	was := t.History[len(t.History)-1].LearningRate
	return fmt.Sprintf("the learning rate was %.3g in step %d, is %.3g in step %d, and will be %.3g in step %d, the last",
		was, t.Steps(), t.LearningRate(next), next, t.LearningRate(last), last)
}
