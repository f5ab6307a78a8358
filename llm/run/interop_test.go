//go:build interop

package run

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/llm/train"
)

// reader prints TensorBoard's steps and values of each tag, and pandas' columns.
const reader = `
import json, sys, pandas
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
events = EventAccumulator(sys.argv[1])
events.Reload()
tags = {tag: [[e.step, e.value] for e in events.Scalars(tag)] for tag in events.Tags()["scalars"]}
table = pandas.read_json(sys.argv[1] + "/metrics.jsonl", lines=True)
columns = {name: [None if pandas.isna(x) else x for x in table[name].tolist()] for name in table.columns if name != "time"}
json.dump({"tags": tags, "columns": columns}, sys.stdout)
`

// TensorBoard and pandas read each step once, even if a run was stopped after its last checkpoint and repeated
// steps.
func TestInteropReaders(t *testing.T) {
	_, here, _, _ := runtime.Caller(0) // tests run in another folder
	python := need.Value(exec.Command(filepath.Join(filepath.Dir(here), "../../scripts/readers")).Output())(t)
	folder := need.Value(Create(filepath.Join(t.TempDir(), "run")))(t)
	defer folder.Close()
	var trainer *train.Trainer
	for _, most := range []int{5, 0} {
		trainer = newTrainer(t, 8)
		o := folder.Options(func(string) error { return nil })
		o.Valid, o.ValidEvery, o.SaveEvery = oneSample(), 2, 3
		if most > 0 { // it is killed after the checkpoint of step 3
			o.OnStep = func(m train.StepMetrics, _ float64) {
				if m.Step == most {
					panic("killed")
				}
			}
		}
		func() {
			defer func() { recover() }()
			_, err := Train(t.Context(), trainer, o)
			require.NoError(t, err)
		}()
	}
	out := need.Value(exec.Command(strings.TrimSpace(string(python)), "-c", reader, folder.Path).Output())(t)
	var read struct {
		Tags    map[string][][2]float64
		Columns map[string][]any
	}
	require.NoError(t, json.Unmarshal(out, &read))
	require.Len(t, eventFiles(t, folder.Path), 2)
	for i, m := range trainer.History {
		for tag, want := range map[string]float64{"train/loss": m.Loss, "train/learning_rate": m.LearningRate, "train/grad_norm": m.GradNorm} {
			require.Len(t, read.Tags[tag], 8, tag)
			require.Equal(t, float64(m.Step), read.Tags[tag][i][0], tag)
			require.Equal(t, float64(float32(want)), read.Tags[tag][i][1], tag)
		}
	}
	require.Len(t, read.Tags["eval/loss"], len(trainer.Evaluations))
	require.Len(t, read.Columns["loss"], 8+len(trainer.Evaluations))
	for i, step := range read.Columns["step"] {
		if loss := read.Columns["loss"][i]; loss != nil {
			require.InEpsilon(t, trainer.History[int(step.(float64))-1].Loss, loss, 1e-9)
		}
	}
}
