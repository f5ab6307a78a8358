// Package llmtest provides small models, batches and adapters for tests of the language-model
// packages, with their float64 references.
package llmtest
