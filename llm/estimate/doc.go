// Package estimate computes how much memory a run needs on each device of a layout before it begins.
// Engines, models and trainers report the memory that a run has taken.
//
// A [Memory] takes the tensors and graphs of a run, built on the CPU. It derives the lifetime of each
// result and allocates as ggml's allocator would. If the layout is known, its graphs use the ops of
// that layout. A plan has no layout yet and uses ops that all devices support; on the CPU they need at
// least as much memory. train.EstimateMemory and layout.Planner use the same estimate, so they agree.
package estimate
