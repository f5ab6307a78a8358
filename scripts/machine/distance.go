package machine

import (
	"runtime"
	"sync/atomic"
	"time"
)

// CoreDistance returns the time in which two threads pass a cache line back and forth, the least of some measurements; 0 with
// a single core. It is some 50 ns for cores with a cache in common, and several times that for others. Cores of a virtual
// machine may move from one to the other while it runs.
func CoreDistance() time.Duration {
	const times, passes = 5, 20_000
	if runtime.GOMAXPROCS(0) < 2 {
		return 0
	}
	least := pass(passes)
	for range times - 1 {
		least = min(least, pass(passes))
	}
	return least / passes
}

// pass passes a number back and forth between two threads.
func pass(times int64) time.Duration {
	var ball atomic.Int64
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		for i := int64(1); i < 2*times; i += 2 {
			await(&ball, i)
			ball.Store(i + 1)
		}
	}()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	began := time.Now()
	for i := int64(1); i < 2*times; i += 2 {
		ball.Store(i)
		await(&ball, i+1)
	}
	took := time.Since(began)
	<-done
	return took
}

func await(ball *atomic.Int64, value int64) {
	for ball.Load() != value {
	}
}
