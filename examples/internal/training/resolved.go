package training

import "github.com/goggml/ggml/examples/internal/cli"

// Resolved says of the flags that leave something to the run what became of it, for data of
// so many rows that make so many steps. What is to follow the length of a run, or the
// machine, keeps doing so.
func (f *Flags) Resolved(rows, steps int) map[string]cli.Resolved {
	resolved := map[string]cli.Resolved{}
	if epochs := f.epochs(); epochs > 0 {
		resolved["epochs"] = cli.Resolved{Value: epochs, Note: "at most; the run is of " + cli.Count(steps, "step")}
	} else {
		resolved["epochs"] = cli.Resolved{} // as many as --adam-iter takes
	}
	if f.Iter <= 0 {
		resolved["adam-iter"] = cli.Resolved{} // as many as --epochs takes
	}
	switch {
	case f.hasNoWarmup():
		resolved["warmup"] = cli.Resolved{Value: 0, Note: "as the schedule has it"}
	case f.WarmupRatio >= 0:
		resolved["warmup"] = cli.Resolved{} // as --warmup-ratio has it
	case f.Warmup < 0:
		resolved["warmup"] = cli.Resolved{Value: f.warmup(rows), Note: "3 % of the run, for which -1 stands"}
	}
	if f.ValidBatches != nil {
		resolved["valid-batches"] = cli.Resolved{} // as --valid-samples has it
	}
	if f.CosDecaySteps <= 0 {
		resolved["cos-decay-steps"] = cli.Resolved{} // all of the run
	}
	if f.Threads == 0 {
		resolved["threads"] = cli.Resolved{Value: 0, Note: "one a core"}
	}
	return resolved
}
