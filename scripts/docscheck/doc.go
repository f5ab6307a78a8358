// Package docscheck has no code but tests: links, messages and figures of the documentation are compared with what they
// speak of. After a new measurement
//
//	go test ./scripts/docscheck -update
//
// writes the figures of the front page anew into docs/benchmarks/summary.md.
package docscheck
