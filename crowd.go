package ggml

// #include "csrc/goggml.h"
import "C"

import (
	"os"
	"sync"
	"time"
)

// The threads of a computation wait for each other at every node. GNU's OpenMP lets
// them spin for up to some 16 ms, which is best while each has a processor of its own.
// Where other programs compute too, they keep the processors from those that they wait
// for: two programs at once then take twenty times as long. So while a good part of the
// time goes by without a processor to run on, they sleep when they wait. With
// OMP_WAIT_POLICY or GOMP_SPINCOUNT in the environment it is as these say.

// A crowd finds out whether the machine is crowded.
type crowd struct {
	mu            sync.Mutex
	took, delayed time.Duration // of the computations that are to be judged
	sleeping      bool
	sleep         func(bool) // lets threads sleep when they wait, or spin
}

const (
	crowdWindow = 100 * time.Millisecond // of computations, to judge by
	crowdedAt   = 0.15                   // of the time of a computation its thread could not run
	spaciousAt  = 0.05
)

// note takes down a computation.
func (c *crowd) note(took, delayed time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.took += took
	c.delayed += delayed
	if c.took < crowdWindow {
		return
	}
	limit := crowdedAt
	if c.sleeping {
		limit = spaciousAt
	}
	if sleeping := float64(c.delayed) > limit*float64(c.took); sleeping != c.sleeping {
		c.sleeping = sleeping
		c.sleep(sleeping)
	}
	c.took, c.delayed = 0, 0
}

// ownCrowd judges the computations of this process; nil where the environment decides.
var ownCrowd = sync.OnceValue(func() *crowd {
	if os.Getenv("OMP_WAIT_POLICY") != "" || os.Getenv("GOMP_SPINCOUNT") != "" {
		return nil
	}
	var team *computeThread // one that only has a team
	return &crowd{sleep: func(on bool) {
		switch {
		case on:
			// Without these threads they spin on.
			if team, _ = newComputeThread(); team != nil && team.run(C.goggml_job{run: C.goggml_function(C.goggml_take_team)}).value == 0 {
				team.close()
				team = nil
			}
		case team != nil:
			team.close()
			team = nil
		}
	}}
})

// noteJob takes down what a team of threads has computed between two times.
func noteJob(before, after C.goggml_times) {
	if c := ownCrowd(); c != nil {
		c.note(time.Duration(after.took-before.took), time.Duration(after.delayed-before.delayed))
	}
}
