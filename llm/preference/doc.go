// Package preference has losses that prefer one answer to a prompt to another; it is not for computing steps, which
// package train does, nor for reading pairs, which package data does.
//
// Most losses compare how likely both answers of a pair are, often beside a [Reference]: the model before training.
// With adapters that is the same model with the adapter switched off, so it costs no memory, and its log-probabilities
// are computed once.
//
//	dpo       −log σ(β·(Δchosen − Δrejected)), where Δ is log p − log p of the reference
//	hinge     max(0, 1 − β·(Δchosen − Δrejected))
//	ipo       (Δchosen − Δrejected − 1/2β)², where Δ is per token
//	apo-zero  1 − σ(β·Δchosen) + σ(β·Δrejected)
//	simpo     −log σ(β·(log p(chosen) − log p(rejected)) − γ), per token, without a reference
//	orpo      cross-entropy of the chosen answers, and −β·log σ of the logarithm of the odds' ratio, per token, without a reference
//	sft       cross-entropy of the chosen answers, beside another loss
//
// Two losses judge single answers by their labels ([data.Label]):
//
//	kto                1 − σ(β·(Δ − KL)) of a desirable answer, 1 − σ(β·(KL − Δ)) of an undesirable one, where KL is the mean
//	                   Δ of mismatched answers, at least 0: how far the model has moved from the reference
//	apo-zero-unpaired  the same with a KL of 0
//
// The definitions are TRL's, but for the cross-entropy, which counts the trained tokens alone.
package preference
