package parallel

import (
	"math"
	"time"
)

// A Network joins machines: each sends and receives at once at the bandwidth.
type Network struct {
	Bandwidth float64       // bytes a second, of the cable
	Latency   time.Duration // one way
}

// goodput is what headers of Ethernet, IP and TCP leave of a cable.
const goodput = 0.94

// travel is how long bytes take to leave a machine.
func (n Network) travel(bytes float64) time.Duration { return seconds(bytes / (goodput * n.Bandwidth)) }

// AllReduce is how long machines take to add up bytes that each has: in a ring, where each sends and receives almost
// twice the bytes.
func (n Network) AllReduce(bytes float64, machines int) time.Duration {
	if machines < 2 {
		return 0
	}
	steps := 2 * float64(machines-1)
	return n.travel(steps/float64(machines)*bytes) + time.Duration(steps)*n.Latency
}

// agree is how long they take to add up a few numbers, by halves.
func (n Network) agree(machines int) time.Duration {
	return time.Duration(2*math.Ceil(math.Log2(float64(machines)))) * n.Latency
}

// A Workload is a step of a run, as one machine computes it.
type Workload struct {
	Step      time.Duration // that it takes
	Samples   int           // of the step
	Batch     int           // of them that are computed at a time
	Gradients float64       // bytes
	Hidden    float64       // bytes of the hidden states of all tokens
}

// What of a batch is its backward pass, in which gradients become complete, and the share of the gradients that is
// complete at its end alone.
const (
	backwardShare = 2. / 3
	lastShare     = 1. / 4
)

// agreements of a step: on what it is, on its loss, on its end.
const agreements = 3

// Data is how long a step takes on machines that share its samples. The sum of the gradients goes on while the rest of
// the last backward pass is computed, but for the last part.
func (w Workload) Data(machines int, n Network) time.Duration {
	if machines < 2 {
		return w.Step
	}
	share := math.Ceil(float64(w.Samples) / float64(machines))
	compute := share / float64(w.Samples) * float64(w.Step)
	beside := min(share, float64(w.Batch)) / share * compute * backwardShare * (1 - lastShare)
	sum := float64(n.AllReduce(w.Gradients, machines))
	return time.Duration(compute+max(lastShare*sum, sum-beside)) + agreements*n.agree(machines)
}

// Layers is how long a step takes on machines that share the layers of the model: one after the other computes, and
// the hidden states of each batch go on and come back at each seam.
func (w Workload) Layers(machines int, n Network) time.Duration {
	seams, batches := 2*float64(machines-1), math.Ceil(float64(w.Samples)/float64(w.Batch))
	return w.Step + n.travel(seams*w.Hidden) + time.Duration(seams*batches)*n.Latency
}

func seconds(s float64) time.Duration { return time.Duration(s * 1e9) }
