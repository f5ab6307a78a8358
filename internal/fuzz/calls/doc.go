// Package calls calls all exported functions and methods of the public packages by reflection,
// with arguments from a pool that grows by what calls return. Each run follows from a seed, and
// runs in a subprocess. A finding is a dead process, a call that takes longer than five
// seconds, a panic that no documentation announces, and a goroutine or an object of the binding
// that is left once everything was closed:
//
//	go test ./internal/fuzz/calls -calls 100000
//	go test ./internal/fuzz/calls -seed SEED
package calls
