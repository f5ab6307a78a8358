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
// wait of the computing thread, libgomp is made to sleep at barriers (the passive policy).
// OMP_WAIT_POLICY or GOMP_SPINCOUNT in the environment, which set the policy, disable this.

// A waitPolicy chooses the policy by the contention measured in jobs.
type waitPolicy struct {
	mu                    sync.Mutex
	elapsed, runQueueWait time.Duration // of jobs since the last choice
	passive               bool
	apply                 func(passive bool)
}

const (
	choiceInterval = 100 * time.Millisecond // time of computation between two choices
	highContention = 0.15                   // fraction of run-queue wait in the time of a job: passive from here on
	lowContention  = 0.05                   // active again below this
)

// record adds a job.
func (p *waitPolicy) record(elapsed, runQueueWait time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.elapsed += elapsed
	p.runQueueWait += runQueueWait
	if p.elapsed < choiceInterval {
		return
	}
	limit := highContention
	if p.passive {
		limit = lowContention
	}
	p.set(float64(p.runQueueWait) > limit*float64(p.elapsed))
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

// SetPassive sets the wait policy of this process until contention changes it, for tests. It
// returns false if the environment sets the policy.
func SetPassive(passive bool) bool {
	p := processPolicy()
	if p != nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.set(passive)
	}
	return p != nil
}
