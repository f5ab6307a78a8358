// Package docscheck has only tests: they compare links, messages, named tests and figures of the documentation
// with their sources.
package docscheck
