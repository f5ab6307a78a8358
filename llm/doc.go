// Package llm runs language models from GGUF files, and fine-tunes them with LoRA: on the CPU, and
// on what else ggml computes on.
//
// The doors of this package open a model with all that belongs to it. An [Assistant] answers
// conversations, here with the tokens of its answer as they come:
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
// [Embed] gives vectors for texts:
//
//	vectors, err := llm.Embed(context.Background(), "model.gguf", llm.Options{}, "Postage", "How long does delivery take?")
//
// [Rerank] scores how well texts answer a query:
//
//	scores, err := llm.Rerank(context.Background(), "reranker.gguf", llm.Options{}, "How long is delivery?", "It takes five days.", "Postage is free.")
//
// What they are made of is in the packages below, for programs that want more. The Examples here
// train an adapter on conversations, too, and use it.
//
//   - [github.com/goggml/ggml/llm/model] loads and saves models,
//     [github.com/goggml/ggml/llm/layout] says which device holds which of the weights, and
//     [github.com/goggml/ggml/llm/arch] what models there are;
//   - [github.com/goggml/ggml/llm/lora] makes, loads, saves and merges adapters;
//   - [github.com/goggml/ggml/llm/infer] continues sequences of tokens, and embeds them;
//   - [github.com/goggml/ggml/llm/sample] draws tokens;
//   - [github.com/goggml/ggml/llm/generate] continues texts, answers conversations and embeds texts,
//     one or several at once;
//   - [github.com/goggml/ggml/llm/chat] has conversations, and the templates that render them;
//   - [github.com/goggml/ggml/llm/data] makes samples for training, of conversations, completions
//     and text;
//   - [github.com/goggml/ggml/llm/train] trains adapters, or all weights of a small model, and
//     [github.com/goggml/ggml/llm/run] does so in a folder, where a run goes on after it was stopped;
//   - [github.com/goggml/ggml/llm/tokenizer] makes tokens of text and text of tokens;
//   - [github.com/goggml/ggml/llm/safetensors] reads and writes files as PyTorch's programs do.
//
// A model can be shared by goroutines. What each of them needs for itself, sessions for one, says
// so.
package llm
