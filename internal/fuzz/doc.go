// Package fuzz runs random programs against package ggml, to show that nothing
// a caller passes ends the process: random ops of all kinds on random types,
// shapes and layouts, objects that are nil, closed or of other contexts, and
// damaged files. What is accepted is computed, several times: with other
// numbers of threads, allocators and contents of the memory around, which must
// not change the results.
//
// Each program follows from one seed. The programs run in a subprocess, so
// that the death of it is an error with a seed as well:
//
//	go test ./internal/fuzz -programs 200000
//	go test ./internal/fuzz -run TestPrograms -replay SEED -v
package fuzz
