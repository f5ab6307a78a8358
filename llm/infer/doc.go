// Package infer runs language models with LoRA adapters: next-token logits by prefill and decode over
// a KV cache, and embeddings and scores of texts.
//
// A [Session] has the memory for one [Sequence] or several. Each continues alone, with [Sequence.Decode] or from a
// known beginning ([Sequence.Prefill]), or together with others by [Session.Step]. [Session.Embed] makes vectors of
// texts, [Session.Score] scores them by the classifier of a reranker. On the CPU sessions use GEMV, repacked matrices
// and fused adapters; on other devices the built-in ops.
//
// # Slots
//
// A session has a slot for each sequence, with its states: keys and values so far. A sequence reuses what it, or
// another one of the session, has computed of the same tokens (Prefill), and shrinks on request (Rewind). A
// state that cannot be rewound to a position has its missing tokens computed again before the next ones,
// also after a failed pass; callers notice only the time. Sequences that continue together share a pass if their slots
// are adjacent: a new sequence takes the first gap, and if there is none, the last ones move into it. Texts to embed
// use free slots; their graphs end at the hidden states after the output norm, and the host pools them. A second graph computes
// projections or scores of the pooled states.
//
// A model that is not causal computes a text as a whole and keeps nothing of it, so the text needs no slot. Several texts
// share a pass, padded to the longest, up to [SessionOptions].Batch tokens; no token sees padding or another text.
//
// # Windows
//
// A layer with a sliding window keeps the window and what a pass may add ([SessionOptions].Batch), rounded up to 256
// rows as in stock llama.cpp, as a ring for each sequence: gemma3 1B at a context of 32,768 takes 0.16 GB of F16 instead
// of 0.87. It rewinds by at least Batch tokens without recomputation; FullCache keeps everything (--swa-full). Once a ring
// has wrapped around, sums are in another order: with an F16 cache logits then differ as much as between two numbers of
// threads.
package infer
