// Package serve answers HTTP requests in OpenAI's protocol with a model of package llm.
//
// A [Handler] is an [http.Handler], to be mounted in any program. Requests that run at the same time share the passes over
// the weights, see [llm.Model]. A request ends when its client disconnects.
//
//	GET  /                      a page to talk with the models in a browser, without a key
//	POST /v1/chat/completions   answers to conversations, by the model's chat template
//	POST /v1/completions        continuations of prompts
//	POST /v1/embeddings         vectors of texts
//	GET  /v1/models             the models that requests can name: the model, and adapters beside it ([Handler.SetAdapters])
//	POST /completion            a continuation, as llama-server
//	POST /tokenize, /detokenize tokens of a text, and the text of tokens, as llama-server
//	POST /apply-template        the prompt of a conversation, as llama-server
//	GET  /slots                 how many texts are computed, as llama-server
//	GET  /health                {"status": "ok"}, without a key
//	GET  /props                 properties of the server, as llama-server
//	GET  /metrics               counters in Prometheus' form, with the names of llama-server
//
// # Requests
//
// The fields have OpenAI's meanings: model, messages, tools, tool_choice, parallel_tool_calls, prompt, echo, stream,
// stream_options, n, max_tokens, max_completion_tokens, stop, seed, temperature, top_p, frequency_penalty, presence_penalty,
// response_format, logprobs and top_logprobs; input and encoding_format for embeddings. As in llama-server there are top_k, min_p,
// repeat_penalty, ignore_eos (of completions), grammar (GBNF), json_schema and chat_template_kwargs too, and reasoning is apart
// from the answer, in reasoning_content. A field that asks for what the server cannot do is an error: logit_bias, a keyword of a
// JSON schema that package [github.com/goggml/ggml/llm/grammar] lacks. Unknown fields are ignored.
//
// Tool calls are apart from the answer if the template's form of calls is known: AnswerForm of package
// [github.com/goggml/ggml/llm/chat]. A tool_choice that forces calls, tools beside a response_format, and strict functions hold
// calls to the functions' schemas, see [generate.CallOptions].
//
// # Errors
//
// Errors have OpenAI's form, {"error": {"message", "type", "param", "code"}}. A full queue is status 429, a conversation
// longer than the context 400 with the code context_length_exceeded, a wrong key 401, an unknown model 404, a body that is
// too large 413, a request beyond the time limit 504.
package serve
