// Package calls calls all exported functions and methods of the public packages by reflection,
// with arguments from a pool that grows by what calls return. Goroutines make calls at the same
// time, on objects that they share and close, but for those whose documentation keeps them to one
// goroutine. A finding is a dead process, a call that takes longer than five seconds, a panic that
// no documentation announces, a data race, and a goroutine or an object of the binding that is left
// once everything was closed.
//
// Each run follows from a seed, and is made in a subprocess. A finding is shrunk to the calls that
// it needs, and names the flags that make them again:
//
//	go test ./internal/fuzz/calls -run TestCalls -calls 100000
//	go test ./internal/fuzz/calls -run TestCalls -seed SEED -keep 301,317
//	go test -race ./internal/fuzz/calls -run TestConcurrentCalls -calls 100000
package calls
