// Package train fits the parameters of a language model to text: the matrices of a LoRA adapter, or
// all weights of a small model.
//
// A [data.Dataset] provides rows of tokens; a [Trainer] runs optimiser steps over them and evaluates.
// Everything is a function of the options, the seed and the step: a run resumed from a checkpoint
// equals an uninterrupted one, byte for byte on the CPU.
//
// # A run
//
// [New] takes what is trained ([Trainables]), the data and the [Options]. [Trainer.Run] runs the
// remaining steps, evaluates and saves as [RunOptions] say, and is stopped by its context;
// [Trainer.Step] runs one step. The loss of a step is the weighted mean over all its tokens, however
// they are divided into batches.
//
// [Options].Loss replaces it by a function of the log-probabilities of the step's samples ([Loss]), such
// as a preference between the two answers of a row. The slopes of the loss become known between the
// forward and the backward pass; or, where they depend on further batches or processes, by a pass before.
//
// [Schedule] gives the learning rate of each step, [AdamW] the settings of the update. A step with
// non-finite results fails with [ErrDiverged]; checkpoints never contain non-finite values.
//
// # Its end
//
// A run ends with its last step, at a limit of RunOptions, or if further steps gain nothing
// ([Convergence]); [Trainer.Ended] returns the reason. [Trainer.Best] is the [Evaluation] with the
// lowest loss, which RunOptions.OnBest saves.
//
// Both depend on the history, which checkpoints contain, so a resumed run decides the same. An
// evaluation enters the history after its best result has been saved; a checkpoint is written after
// the evaluation of its step.
//
// An [Evaluator] measures held-out data, with or without a trainer, by default in F32, whatever type the
// run computes in.
//
// # Checkpoints
//
// [Trainer.SaveCheckpoint] writes parameters, moments, history and the position in the data to a GGUF
// file, which replaces an older one atomically. [Trainer.LoadCheckpoint] resumes from it. Settings
// that determine what is computed, and in which order, must be the same, or a [*MismatchError] lists
// the differences; the length of the run, the learning rate and the like may change
// ([Trainer.Changes]). [Settings] lists both kinds, with IDs by which programs find their own names
// for them. [LoadParameters] reads only the parameters.
//
// Settings are text under training.fixed.* and training.free.*. An ID never changes; the words of
// messages may. A setting that an older file lacks does not count as a difference, except scaled RoPE;
// a setting that this program does not know does. After Reshuffle the file has the new seed and the
// position at which its epochs begin. A checksum covers the file. Parameters must be finite, and give
// a finite loss, before they are saved.
//
// # Memory and time
//
// Graphs are static, so [EstimateMemory] knows the memory of a run before it begins. If a step would
// not fit, results of layers are recomputed ([Checkpointing]), as few as the memory allows; what a run
// computes does not depend on that. [Plan.StepTime] measures a step; if a whole step takes too long, it
// measures a few layers of each kind and scales by their numbers.
//
// # Steps and groups
//
// A step is planned completely before it is computed: rows, weights, noise and learning rate. So
// several processes, or trainers of one process, can compute it together ([Options].Group). Each takes
// its share of the rows and divides it into batches. Each batch is one submission, and reads back one
// tensor: the losses of its tokens and the norm of the gradient. The last submission includes the
// update: the norm, clipping, and a gate that selects the update's settings. If the step is not
// finite, the selected settings leave the parameters unchanged to the bit. A step can be cancelled
// until its update begins.
//
// A group sums losses and gradients between the gradients of a step and its update, and shares
// held-out rows. Ranks decide by values that all of them have, so that history, best evaluation and
// end are the same everywhere. Before a run, a step and an evaluation they compare what must be equal:
// settings, position, length of the run, rows. A rank that fails or is stopped takes part in one more
// call, to tell the others.
//
// # Concurrency
//
// A Trainer is used by one goroutine. Trainers of different adapters can share a model, each in a
// goroutine of its own.
package train
