package parallel

import (
	"math"
	"time"
)

// A Network joins machines: each sends and receives at once at the bandwidth.
type Network struct {
	Bandwidth float64       // bytes a second, of the cable
	Latency   time.Duration // one way
	// Load is the share of the processors of a machine that a sum takes while it travels: 0 where they have nothing
	// else to do, as beside a GPU that computes.
	Load float64
}

// goodput is the share of a cable that headers of Ethernet, IP and TCP leave.
const goodput = 0.94

// travel is how long bytes take to leave a machine.
func (n Network) travel(bytes float64) time.Duration { return seconds(bytes / (goodput * n.Bandwidth)) }

// handshake is how often a message of many bytes crosses a network: MPI asks whether it may send, and is told to.
const handshake = 3

// ring is how long bytes that each of some machines has travel while these add them up, where each sends and receives
// almost twice as many, and how long its messages are late.
func (n Network) ring(bytes float64, machines int) (travel, late time.Duration) {
	steps := 2 * float64(machines-1)
	return n.travel(steps / float64(machines) * bytes), time.Duration(steps) * handshake * n.Latency
}

// AllReduce is how long machines take to add up bytes that each has.
func (n Network) AllReduce(bytes float64, machines int) time.Duration {
	if machines < 2 {
		return 0
	}
	travel, late := n.ring(bytes, machines)
	return travel + late
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

// The backward pass, in which gradients become complete, as a share of a batch, and the share of the gradients
// that is complete only at its end.
const (
	backwardShare = 2. / 3
	lastShare     = 1. / 4
)

// Data returns the time of a step on machines that share its samples. All but the last part of the gradients is summed
// beside the rest of the last backward pass, as far as the sum finds processors, whose work it delays. At the end the
// machines agree that all have finished.
func (w Workload) Data(machines int, n Network) time.Duration {
	if machines < 2 {
		return w.Step
	}
	share := math.Ceil(float64(w.Samples) / float64(machines))
	compute := share / float64(w.Samples) * float64(w.Step)
	beside := min(share, float64(w.Batch)) / share * compute * backwardShare * (1 - lastShare) * (1 - n.Load)
	bytes, late := n.ring(w.Gradients, machines)
	travel := float64(bytes)
	wait := max(lastShare*travel, travel-beside)
	return time.Duration(compute+n.Load*(travel-wait)+wait) + late + n.agree(machines)
}

// Layers is how long a step takes on machines that share the layers of the model: one after the other computes, and
// the hidden states of each batch go on and come back at each seam.
func (w Workload) Layers(machines int, n Network) time.Duration {
	seams, batches := 2*float64(machines-1), math.Ceil(float64(w.Samples)/float64(w.Batch))
	return w.Step + n.travel(seams*w.Hidden) + time.Duration(seams*batches)*n.Latency
}

func seconds(s float64) time.Duration { return time.Duration(s * 1e9) }
