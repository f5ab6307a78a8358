package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The text of the time names what was measured, if that is not a whole step.
func TestPlannedTime(t *testing.T) {
	for want, r := range map[string]runPlan{
		"not measured": {noTime: "not measured"},
		"1.5 s per step, 2m30s for all steps, without evaluations":                                         {StepSeconds: 1.5, RunSeconds: 150, Timed: timed{22, 22, 2, 2}},
		"1.5 s per step, 1h0m for all remaining steps, without evaluations":                                {StepSeconds: 1.5, RunSeconds: 3600, Done: 3, Timed: timed{22, 22, 2, 2}},
		"about 1.5 s per step, 2m30s for all steps, extrapolated from 2 of 22 layers, without evaluations": {StepSeconds: 1.5, RunSeconds: 150, Timed: timed{2, 22, 2, 2}},
		"about 1.5 s per step, 2m30s for all steps, extrapolated from 2 of 22 layers and 1 of 2 rows of a batch, without evaluations": {
			StepSeconds: 1.5, RunSeconds: 150, Timed: timed{2, 22, 1, 2},
		},
		"1.5 s per step, 2m30s for all steps, without evaluations; GEMM by RPC0 with ggml's ops": {
			StepSeconds: 1.5, RunSeconds: 150, Timed: timed{22, 22, 2, 2}, multiplier: "RPC0 with ggml's ops",
		},
	} {
		require.Equal(t, want, r.time())
	}
}

// A plan that does not fit suggests no flag with the value 0.
func TestLargestOfPlan(t *testing.T) {
	for _, c := range []struct {
		plan runPlan
		want string
	}{
		{runPlan{Batch: 2, LargestBatch: 4, LongestSample: 64, more: true}, "--batch 4 or more, or with --batch 2 --ctx 64"},
		{runPlan{Batch: 2, LargestBatch: 1}, "--batch 1"},
		{runPlan{Batch: 2, LongestSample: 8}, "--batch 2 --ctx 8"},
		{runPlan{Batch: 2}, "no --batch fits at this sample length, and no --ctx fits with --batch 2"},
	} {
		require.Equal(t, c.want, c.plan.largest())
	}
}
