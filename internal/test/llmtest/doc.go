// Package llmtest holds small models, batches and adapters with which the packages of
// language models are tested, and the float64 reference of each.
package llmtest
