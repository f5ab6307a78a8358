package testutil

import "sync"

// Goroutines is a sync.WaitGroup with its method Go of Go 1.25.
type Goroutines struct{ sync.WaitGroup }

// Go runs f in a goroutine that Wait waits for.
func (g *Goroutines) Go(f func()) {
	g.Add(1)
	go func() {
		defer g.Done()
		f()
	}()
}
