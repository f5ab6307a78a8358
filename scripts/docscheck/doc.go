// Package docscheck has no code but tests: links, messages, proofs and figures of the documentation are compared with
// what they speak of.
package docscheck
