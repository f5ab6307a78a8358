// Package train fits the parameters of a language model — the matrices of a LoRA adapter,
// or all weights of a small model — to text.
//
// A [data.Dataset] gives rows of tokens, a [Trainer] runs optimiser steps over them and
// evaluates. Everything is a function of the options, the seed and the step: a run that
// stops and resumes from a checkpoint is the same run, byte for byte on the CPU.
//
// # A run
//
// [New] takes what is trained ([Trainables]), the data and the [Options]. [Trainer.Run] makes
// the steps that are left, evaluates and saves on the way as [RunOptions] say, and is
// stopped by its context; [Trainer.Step] makes one. The loss of a step is the mean over the
// weights of all its tokens, in whatever batches they are.
//
// [Schedule] gives the learning rate of each step, [AdamW] says how the parameters follow
// it. A step whose results are not finite is [ErrDiverged]; no checkpoint has them.
//
// # Its end
//
// A run ends with its last step, by a limit of RunOptions, or where more steps gain nothing
// ([Convergence]); [Trainer.Ended] tells why. [Trainer.Best] is the [Evaluation] of the
// lowest loss, which RunOptions.OnBest saves.
//
// An [Evaluator] measures held-out data, with a trainer and without.
//
// # Checkpoints
//
// [Trainer.SaveCheckpoint] writes parameters, moments, history and the position in the data
// as a GGUF file, which takes the place of an older one at once. [Trainer.LoadCheckpoint]
// goes on from it. What decides what is computed, and in which order, must be the same, or
// is a [*MismatchError] that lists what is not; the length of the run, the learning rate and
// the like may change ([Trainer.Changes]). [Settings] lists both kinds, with the IDs by which
// programs find their names for them. [LoadParameters] reads the parameters alone.
//
// # Memory
//
// [EstimateMemory] says what a run takes before it begins. Where a step would not fit, its
// layers are recomputed ([Checkpointing]).
//
// # Concurrency
//
// A step is planned whole before it is computed: rows, weights, noise and learning rate. So
// several processes, or trainers of one, can compute it together ([Group]).
//
// A Trainer is used by one goroutine. Trainers of different adapters can share a model, each
// in a goroutine of its own.
package train
