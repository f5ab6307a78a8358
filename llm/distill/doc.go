// Package distill scores samples by a teacher, for training that imitates its probabilities instead of answers; it is
// not for computing the loss, which package lossgraph does, nor for steps, which package train does.
//
// A [Scorer] computes the teacher's most likely next tokens of a sample, with their probabilities. [Open] does that for
// all samples of data sets before training, streams them to a file, and returns the [Scores] that each step reads. So
// the teacher is closed before training begins, and memory is the larger of the two, not their sum. With [OnPolicy] the
// student answers the prompts of the data in each step, and the teacher, which stays open, scores what it said.
// A teacher of another vocabulary is imitated where its tokens fall together with the student's, see [Alignment].
package distill
