package training

import "github.com/goggml/ggml/examples/internal/cli"

// Resolved returns the values of flags that leave a choice to the run, for data with this number of rows and
// steps. Flags that depend on the length of the run or on the machine are omitted, so that they keep doing so.
func (f *Flags) Resolved(rows, steps int) map[string]cli.Resolved {
	resolved := map[string]cli.Resolved{}
	if epochs := f.epochs(); epochs > 0 {
		resolved["epochs"] = cli.Resolved{Value: epochs, Note: "at most; the run has " + cli.Count(steps, "step")}
	} else {
		resolved["epochs"] = cli.Resolved{} // decided by --adam-iter
	}
	if f.Iter <= 0 {
		resolved["adam-iter"] = cli.Resolved{} // decided by --epochs
	}
	switch {
	case f.hasNoWarmup():
		resolved["warmup"] = cli.Resolved{Value: 0, Note: "set by the schedule"}
	case f.WarmupRatio >= 0:
		resolved["warmup"] = cli.Resolved{} // decided by --warmup-ratio
	case f.Warmup < 0:
		resolved["warmup"] = cli.Resolved{Value: f.warmup(rows), Note: "from -1: 3 % of the run"}
	}
	if f.ValidBatches != nil {
		resolved["valid-batches"] = cli.Resolved{} // decided by --valid-samples
	}
	if f.CosDecaySteps <= 0 {
		resolved["cos-decay-steps"] = cli.Resolved{} // the whole run
	}
	if f.Threads == 0 {
		resolved["threads"] = cli.Resolved{Value: 0, Note: "one a core"}
	}
	return resolved
}
