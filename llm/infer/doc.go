// Package infer computes next-token logits by prefill and decode over a KV cache, and embeddings and scores of texts,
// with LoRA adapters.
//
// A [Session] holds the memory of one or several [Sequence]s. A sequence is extended alone, by [Sequence.Decode] or,
// reusing a known prefix, by [Sequence.Prefill]; [Session.Step] extends several together. [Session.Embed] embeds texts,
// and [Session.Score] scores them with the classifier of a reranker. On the CPU, sessions use GEMV, repacked matrices
// and fused adapters; on other devices, the built-in ops.
//
// # Slots
//
// Each sequence has a slot for its states: the keys and values so far. Prefill reuses the prefix that this or another
// sequence of the session has computed; Rewind truncates. If a state cannot be rewound to a position, also after a
// failed pass, the missing tokens are computed again before the next ones; callers notice only the time. Sequences in
// adjacent slots share a pass in Step, with equally many tokens of each. If all states are keys and values, passes have
// padding where that is faster than more passes: behind the tokens of a sequence, and in slots between, whose sequences stay as
// they are. If the slots of a step have larger gaps, the last sequences move into them, and others out of them into free slots.
// Embed uses free slots; its graphs end at the hidden states behind the output norm, which the host pools. A projection of
// pooled states, and scores, have their own graph.
//
// If attention is not causal, a text is computed as a whole and nothing of it is kept, so it needs no slot. Several
// texts share a pass of up to [SessionOptions].Batch tokens, padded to the longest; no token attends to padding or
// another text.
//
// # Windows
//
// A layer with a sliding window keeps a ring per sequence: the window plus the tokens of a pass
// ([SessionOptions].Batch), rounded up to 256 rows as in stock llama.cpp. gemma3 1B with a context of 32,768 takes 0.16
// GB of F16 instead of 0.87. A ring can rewind by at least Batch tokens without recomputation; FullCache keeps
// everything (--swa-full). Once a ring has wrapped around, sums are computed in another order: with an F16 cache,
// logits then differ as much as between two thread counts.
package infer
