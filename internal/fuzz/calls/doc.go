// Package calls calls all exported functions and methods of the public packages by reflection, with arguments
// from a pool that grows by the results of calls. Goroutines make calls concurrently on objects that they share
// and close, except objects that are documented for one goroutine. A finding is a dead process, a call that
// takes longer than five seconds, an undocumented panic, a data race, or a goroutine or an object of the
// binding that remains after everything was closed.
//
// A seed determines each run, which takes place in a subprocess. A finding is reduced to the calls that it
// needs, and names the flags that repeat them:
//
//	go test ./internal/fuzz/calls -run TestCalls -calls 100000
//	go test ./internal/fuzz/calls -run TestCalls -seed SEED -keep 301,317
//	go test -race ./internal/fuzz/calls -run TestConcurrentCalls -calls 100000
package calls
