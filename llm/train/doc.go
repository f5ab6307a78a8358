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
// A run ends with its last step, by a limit of RunOptions, or if more steps gain nothing ([Convergence]);
// [Trainer.Ended] says why. [Trainer.Best] is the [Evaluation] of the lowest loss, which RunOptions.OnBest saves.
//
// Both are functions of the history, which checkpoints hold, so a resumed run decides the same. An evaluation
// enters the history after its best result has been saved; a checkpoint is written after the evaluation of its step.
//
// An [Evaluator] measures held-out data, with a trainer and without, in F32 whatever type the run computes in.
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
// Settings are text under training.fixed.* and training.free.*; an ID never changes, the words of messages
// may. A setting that an older file lacks is no difference, except scaled RoPE; a setting that this program
// does not know is one. After Reshuffle the file has the new seed and the position at which its epochs
// begin. A checksum covers the file. Parameters have to be finite, and to compute a finite loss, before they are saved.
//
// # Memory and time
//
// [EstimateMemory] says what a run takes before it begins: graphs are static. If a step would not fit, its
// layers are recomputed ([Checkpointing]); a resumed run keeps to the choice it began with, so that it rounds
// the same. [Prospect.StepTime] measures a step; if a whole one takes too long, it measures a few
// layers of each kind and scales by their numbers.
//
// # Steps and groups
//
// A step is planned whole before it is computed: rows, weights, noise and learning rate. So
// several processes, or trainers of one, can compute it together ([Options].Group). A process takes its share
// of the rows and lays them out in batches. Each batch is one submission, and reads back one tensor: the
// losses of its tokens, with the norm of the gradient. The last submission includes the update: the norm,
// clipping, and a gate that chooses the settings by which parameters move; after a step that is not finite they move
// by nothing, to the bit. A step can be cancelled until its update begins.
//
// A group sums losses and gradients between the gradients of a step and its update, and shares held-out rows.
// Ranks decide by figures of all, so that history, best and end are the same everywhere. Before a run, a step
// and an evaluation they compare what has to be equal: settings, position, length of the run, rows. A rank
// that fails or is stopped takes part once more, to say so.
//
// # Concurrency
//
// A Trainer is used by one goroutine. Trainers of different adapters can share a model, each
// in a goroutine of its own.
package train
