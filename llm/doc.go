// Package llm runs language models from GGUF files and fine-tunes them with LoRA, on the CPU and on every other device
// that ggml supports.
//
// The functions of this package open a model together with everything needed to use it. An [Assistant] answers
// conversations and streams the tokens of its answer:
//
//	assistant, err := llm.NewAssistant("model.gguf", llm.Options{})
//	if err != nil {
//		log.Fatal(err)
//	}
//	defer assistant.Close()
//	tokens, _ := assistant.Stream(context.Background(), &chat.Conversation{Messages: []chat.Message{chat.NewMessage("user", "Why is the sky blue?")}})
//	for token, err := range tokens {
//		if err != nil {
//			log.Fatal(err)
//		}
//		fmt.Print(token.Text)
//	}
//
// An assistant belongs to one goroutine. A [Model] that [Open] opens serves any number of them, such as the handlers of an
// HTTP server: conversations, completions and embeddings that run at the same time share its weights, and the passes over
// them. Package [github.com/goggml/ggml/llm/serve] is such a handler, in OpenAI's protocol.
//
// [Embed] returns one vector per text:
//
//	vectors, err := llm.Embed(context.Background(), "model.gguf", llm.Options{}, "Postage", "How long does delivery take?")
//
// [Rerank] scores how well each document answers a query:
//
//	scores, err := llm.Rerank(context.Background(), "reranker.gguf", llm.Options{}, "How long is delivery?", "It takes five days.", "Postage is free.")
//
// The packages below are the building blocks. The Examples also train an adapter on conversations and use it.
//
//   - [github.com/goggml/ggml/llm/model] loads and saves models,
//     [github.com/goggml/ggml/llm/layout] assigns weights to devices, and
//     [github.com/goggml/ggml/llm/arch] describes the supported architectures;
//   - [github.com/goggml/ggml/llm/lora] creates, loads, saves and merges adapters;
//   - [github.com/goggml/ggml/llm/infer] decodes token sequences and embeds them;
//   - [github.com/goggml/ggml/llm/sample] samples tokens, and
//     [github.com/goggml/ggml/llm/grammar] constrains them to a grammar or a JSON schema;
//   - [github.com/goggml/ggml/llm/generate] continues texts, answers conversations and embeds texts,
//     one or several at once;
//   - [github.com/goggml/ggml/llm/chat] represents conversations and renders them with chat templates;
//   - [github.com/goggml/ggml/llm/data] makes training samples from conversations, completions
//     and text;
//   - [github.com/goggml/ggml/llm/train] trains adapters, or all weights of a small model, and
//     [github.com/goggml/ggml/llm/run] keeps a training run in a folder, from which it can resume;
//   - [github.com/goggml/ggml/llm/tokenizer] encodes text to tokens and decodes tokens to text;
//   - [github.com/goggml/ggml/llm/safetensors] reads and writes the safetensors format of PyTorch programs.
//
// Goroutines may share a model. Types that each goroutine needs for itself, such as sessions, say so.
package llm
