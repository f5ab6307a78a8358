// Package estimate says how much memory a run needs on each device of a layout before it begins; it is not for the memory
// that a run has taken, which engines, models and trainers report.
//
// A [Memory] takes the tensors and graphs of a run, built on the CPU. It follows when each result is needed, and allocates
// as ggml's allocator would. An estimate for a known layout counts the ops of that layout; a plan, which has no layout yet,
// the ops that all devices have, which need no less on the CPU. train.EstimateMemory and layout.Planner use the same
// estimate, and so agree.
package estimate
