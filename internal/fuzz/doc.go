// Package fuzz runs random programs against package ggml, to show that nothing a caller passes ends the
// process: random ops of all kinds on random types, shapes and layouts, objects that are nil, closed or of
// other contexts, and damaged files. Accepted programs are computed several times, with other numbers of
// threads, other allocators and other contents of the surrounding memory, which must not change the results.
//
// A seed determines each program. The programs run in a subprocess, so that its death is also an error with a
// seed:
//
//	go test ./internal/fuzz -programs 200000
//	go test ./internal/fuzz -run TestPrograms -replay SEED -v
package fuzz
