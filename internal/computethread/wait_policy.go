package computethread

// #include "omp_wait.h"
import "C"

import (
	"os"
	"sync"
	"time"
	"unsafe"
)

// OpenMP's threads meet at a barrier after every node of a graph. libgomp spins there for up to 16
// ms (the active wait policy), which is best while each thread has its own processor. On an
// oversubscribed machine, spinning threads take processors from the threads that they wait for: two
// programs at once then take twenty times as long. So under contention, which shows as run-queue
// wait of the computing thread, libgomp is made to sleep at barriers (the passive policy). A woken
// thread may have to wait for a moment, too, if the one that wakes it runs on the same processor.
// That looks like contention: so threads spin again from time to time, to see whether it goes on.
// OMP_WAIT_POLICY or GOMP_SPINCOUNT in the environment, which set the policy, disable this.

// A waitPolicy chooses the policy by the contention measured in jobs.
type waitPolicy struct {
	mu                    sync.Mutex
	elapsed, runQueueWait time.Duration // of jobs since the last choice
	passive               bool
	pause                 time.Duration // how long the last passive policy lasts
	until                 time.Time     // when it ends
	apply                 func(passive bool)
}

const (
	choiceInterval = 100 * time.Millisecond // time of computation after which the absence of contention counts
	highContention = 0.15                   // fraction of run-queue wait in the time of jobs: passive from here on
	lowContention  = 0.05                   // active again below this
	shortestPause  = 250 * time.Millisecond // doubled each time that contention follows a pause
	longestPause   = 16 * time.Second
	pauseJobs      = 20 // a pause is at least as many times as long as a job under contention
)

// record adds a job that has ended now.
func (p *waitPolicy) record(now time.Time, elapsed, runQueueWait time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.elapsed += elapsed
	p.runQueueWait += runQueueWait
	share := float64(p.runQueueWait) / float64(max(p.elapsed, choiceInterval))
	measured := p.elapsed >= choiceInterval
	switch {
	case p.passive && (measured && share < lowContention || !now.Before(p.until)):
		p.set(false)
	case !p.passive && share > highContention:
		p.pause = min(max(shortestPause, 2*p.pause), longestPause)
		p.until = now.Add(max(p.pause, pauseJobs*elapsed))
		p.set(true)
	case !measured:
		return
	case !p.passive:
		p.pause = 0
	}
	p.elapsed, p.runQueueWait = 0, 0
}

// set sets the policy. The caller holds mu.
func (p *waitPolicy) set(passive bool) {
	if passive != p.passive {
		p.passive = passive
		p.apply(passive)
	}
}

// processPolicy returns the policy of this process; nil if the environment sets it.
var processPolicy = sync.OnceValue(func() *waitPolicy {
	if os.Getenv("OMP_WAIT_POLICY") != "" || os.Getenv("GOMP_SPINCOUNT") != "" {
		return nil
	}
	var oversubscriber *thread // only keeps an idle OpenMP pool
	return &waitPolicy{apply: func(passive bool) {
		if oversubscriber != nil {
			oversubscriber.close()
			oversubscriber = nil
		}
		if !passive {
			return
		}
		t, err := newThread()
		if err != nil {
			return // the policy stays active
		}
		if t.run(Job{Func: unsafe.Pointer(C.goggml_force_passive_wait)}).outcome.value == 0 {
			t.close()
			return
		}
		oversubscriber = t
	}}
})

// SetPassive sets the wait policy of this process until contention or the end of a pause changes it, for tests.
// It returns false if the environment sets the policy.
func SetPassive(passive bool) bool {
	p := processPolicy()
	if p != nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.until = time.Now().Add(shortestPause)
		p.set(passive)
	}
	return p != nil
}
