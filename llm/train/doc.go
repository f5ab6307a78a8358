// Package train fits the parameters of a language model — a LoRA adapter's
// matrices, or all weights of a small model — to text.
//
// A [data.Dataset] gives rows of tokens, a [Trainer] runs optimiser steps over
// them and evaluates. Everything is a function of the options, the seed and
// the step: a run that stops and resumes from a checkpoint is the same run.
//
// [Schedule] and [AdamW] say how the parameters move, [Convergence] and the limits of
// [RunOptions] when a run ends before its last step, and [Trainer.Ended] tells why it did.
// [EstimateMemory] says what a run takes before it begins.
package train
