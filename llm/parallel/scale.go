package parallel

import (
	"math"
	"time"
)

// A Network connects machines: each sends and receives at the full bandwidth at the same time.
type Network struct {
	Bandwidth float64       // bytes per second, of the cable
	Latency   time.Duration // one way
	// Load is the share of a machine's processors that an all-reduce occupies: 0 if they are idle, as beside a GPU
	// that computes.
	Load float64
}

// goodput is the share of the bandwidth that Ethernet, IP and TCP headers leave.
const goodput = 0.94

// travel returns the time to send bytes from a machine.
func (n Network) travel(bytes float64) time.Duration { return seconds(bytes / (goodput * n.Bandwidth)) }

// handshake is the number of latencies per large message: MPI sends a request, a reply and then the data (rendezvous
// protocol).
const handshake = 3

// ring returns the transfer time and the latency of a ring all-reduce of bytes: each machine sends and receives
// almost twice the bytes.
func (n Network) ring(bytes float64, machines int) (travel, late time.Duration) {
	steps := 2 * float64(machines-1)
	return n.travel(steps / float64(machines) * bytes), time.Duration(steps) * handshake * n.Latency
}

// AllReduce returns the time of an all-reduce of bytes over machines.
func (n Network) AllReduce(bytes float64, machines int) time.Duration {
	if machines < 2 {
		return 0
	}
	travel, late := n.ring(bytes, machines)
	return travel + late
}

// agree returns the time of an all-reduce of a few numbers, by recursive halving.
func (n Network) agree(machines int) time.Duration {
	return time.Duration(2*math.Ceil(math.Log2(float64(machines)))) * n.Latency
}

// A Workload describes a step of a run on one machine.
type Workload struct {
	Step      time.Duration // time of the step
	Samples   int           // samples per step
	Batch     int           // samples computed at a time
	Gradients float64       // bytes of the gradients
	Hidden    float64       // bytes of all tokens' hidden states
}

// The share of a batch's time that the backward pass takes, in which gradients become complete; and the share of the
// gradients that is complete only at its end.
const (
	backwardShare = 2. / 3
	lastShare     = 1. / 4
)

// Data returns the time of a step with data parallelism. The all-reduce overlaps the rest of the last backward pass,
// except for the last part of the gradients; it delays the pass by the Load that it takes. At the end the machines
// agree that all have finished.
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

// Layers returns the time of a step if machines divide the model's layers: they compute one after the other, and the
// hidden states of each batch cross each boundary forward and back.
func (w Workload) Layers(machines int, n Network) time.Duration {
	seams, batches := 2*float64(machines-1), math.Ceil(float64(w.Samples)/float64(w.Batch))
	return w.Step + n.travel(seams*w.Hidden) + time.Duration(seams*batches)*n.Latency
}

func seconds(s float64) time.Duration { return time.Duration(s * 1e9) }
