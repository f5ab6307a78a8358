// Package ollama writes a [Modelfile] with which ollama runs a merged model as it was trained; it is not for running
// models, which package llm does.
package ollama
