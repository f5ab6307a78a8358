package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The time says by what it is told, where that is not all of a step.
func TestPlannedTime(t *testing.T) {
	for want, r := range map[string]runPlan{
		"not measured": {noTime: "not measured"},
		"1.5 s a step, 2m30s for all steps; evaluations come on top":                          {StepSeconds: 1.5, RunSeconds: 150, Timed: timed{22, 22, 2, 2}},
		"1.5 s a step, 1h0m for all that are left; evaluations come on top":                   {StepSeconds: 1.5, RunSeconds: 3600, Done: 3, Timed: timed{22, 22, 2, 2}},
		"about 1.5 s a step, 2m30s for all steps, by 2 of 22 layers; evaluations come on top": {StepSeconds: 1.5, RunSeconds: 150, Timed: timed{2, 22, 2, 2}},
		"about 1.5 s a step, 2m30s for all steps, by 2 of 22 layers and 1 of 2 rows of a batch; evaluations come on top": {
			StepSeconds: 1.5, RunSeconds: 150, Timed: timed{2, 22, 1, 2},
		},
	} {
		require.Equal(t, want, r.time())
	}
}
