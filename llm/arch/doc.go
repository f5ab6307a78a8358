// Package arch holds the architectures of language models as data.
//
// A [Config] is the hyper-parameters; one table in keys.go maps them to GGUF keys. [Resolve] makes an
// [Architecture] of a Config, by the row of its kind, which stands in the file of a family. It is a list of
// layers; a layer is a list of residuals, x + scale · after(part(before(x))); and a part is a value with its sizes:
// [Attention], [FeedForward], experts and others. [New] makes models of layers that no row has.
//
// Parts declare the weights that they use. Running the layers once without memory lists all tensors, with kind, layer,
// shape and role, what LoRA can adapt, and the names that transformers has. Inputs are declared likewise,
// with the code that fills them.
//
// A part that continues from earlier tokens makes a state of package internal/state; in a graph of whole sequences it
// has none. Bidirectional attention (text diffusion, encoders) keeps nothing: sessions compute such a sequence at once and
// refuse to continue it. Encoders ([Encoders]) end with hidden states, which are pooled, and may be projected ([Builder.Project])
// or scored ([Builder.Classify]); they have no logits.
//
// The sliding window of phi3 is ignored, with a warning, because stock llama.cpp ignores it: an adapter is trained for
// the model that llama.cpp runs. transformers applies it, so its logits differ on texts longer than the window
// (2047 tokens in Phi-3-mini-4k).
//
// Everything here is a value that does not change, and safe for concurrent use. The [Builder] makes graphs of an
// architecture for the packages of this module.
//
// # Adding an architecture
//
//  1. Add a row to the file of its family, or to a new file, under its general.architecture. The row says how
//     positions come in (RoPE with mode and sections, ALiBi, learned), which norms there are and where, the activation
//     and whether it is gated, and what may be fused, biased or scaled. spec.go has the vocabulary. What a row does not
//     name, its models do not have; a tensor that nothing declares is refused by name.
//  2. For hyper-parameters that other models lack, add a key, which says how it is read and written, and a field of
//     Config. complete derives what no key says; layer sets what differs between the attention of layers (window, RoPE,
//     sinks, gate); arrange places attention and network unless one follows the other (sharedNorm and ownNorms put
//     them side by side). A model that runs blocks of its file several times maps layers to blocks in blocks, and orders
//     them in layerOrder (see hrm_text). mayHave says what the presence of a tensor means.
//  3. If transformers' module names differ from llama's, add a naming. Whether its converter permutes the rows
//     of heads follows from the RoPE mode; rotatesNeighbours says that it does not, and interleaved that transformers
//     keeps queries, keys and values of a head side by side.
//  4. A part that no model has yet is a file here: a struct with its sizes and Forward, and NewState if sequences keep
//     something of it. The row's arrange puts it into layers. A new function with a gradient is a method of the tape in
//     internal/nn; if devices compute it differently, it is an op, with a row in their tables. Tensors,
//     LoRA targets, initialisation, sessions, training, adapters and merging follow. llm/infer/trial_test.go has such a
//     part in 150 lines, with a state that cannot be rewound to any position and layers of different widths.
//  5. Add a tiny model to internal/test/llmtest/tiny_archs.go, with the keys that converters write and the tensors that
//     files may have. Tests of gradients, packing, sessions and training then cover the row. like names another model
//     with all of its parts, and skips the slow tests. Exact gradients come from its own graph in float64
//     (internal/test/oracle); what keys and weights mean comes from stock llama.cpp, whose logits are in
//     internal/test/llmtest/testdata (the README there says how to add a row). An op that no graph had before needs its
//     formula in internal/test/oracle/formulas.go.
//  6. Add its files to the list of internal/interop/archs_test.go: "make interop" compares their logits, adapters and
//     merged models with stock llama.cpp, and trains each. Quantised models may be as far from the same values in F32 as
//     stock is with the worst of its CPU plugins. TestInteropScore prints how far each of stock's random models is, or
//     why it is refused. If the first token's logits are equal and later ones differ, the positions are wrong: the other
//     RoPE mode, as a rule. Where stock has no random model, its logits of the tiny one count. Where stock does not
//     compute the architecture (noStock), a row of peftModels in peft_models_test.go compares with transformers;
//     reference.py there has to know its weight names. scripts/pages writes the row of docs/models.md.
//
// A row of an encoder says so, and names a classifier if files may have one; its tiny model is in
// internal/test/llmtest/tiny_encoders.go, and "make interop" compares its vectors or scores.
//
// seed_oss is such a row of one line; gpt2 adds the names of its modules; gemma2, which caps its scores, also needed the
// cap in internal/nn.
package arch
