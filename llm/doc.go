// Package llm runs language models from GGUF files, and fine-tunes them with LoRA: on the CPU, and
// on what else ggml computes on.
//
// The two doors of this package open a model, do what one mostly wants, and take care of all
// that belongs to it: an [Assistant] answers conversations, and [Embed] gives vectors for texts.
// The packages below are what both are made of, and what programs use that want more:
//
//   - [github.com/goggml/ggml/llm/model] loads a model, and
//     [github.com/goggml/ggml/llm/device] says which device holds which of its weights;
//   - [github.com/goggml/ggml/llm/lora] makes, loads, saves and merges adapters;
//   - [github.com/goggml/ggml/llm/infer] keeps sequences of tokens, with which a model goes on, and
//     embeds;
//   - [github.com/goggml/ggml/llm/sample] draws tokens;
//   - [github.com/goggml/ggml/llm/generate] continues text, answers conversations and embeds texts,
//     one or several at once;
//   - [github.com/goggml/ggml/llm/chat] are conversations and the templates that render them;
//   - [github.com/goggml/ggml/llm/data] makes samples for training of conversations, completions
//     and text;
//   - [github.com/goggml/ggml/llm/train] trains adapters, or all weights of a small model;
//   - [github.com/goggml/ggml/llm/tokenizer] is text to tokens and back, and
//     [github.com/goggml/ggml/llm/safetensors] files of other programs.
//
// Nothing here is bound to a thread or a global state: models can be shared by goroutines, and
// what each of them needs alone says so.
package llm
