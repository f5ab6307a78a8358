// Package gpucost estimates the cost of a graph on a GPU without having one: the FLOPs and bytes of
// its nodes by purpose, and the time they take within the limits of a card.
package gpucost

import "time"

// A Card is the limits of a GPU. Its speeds are those reached by large products and long copies,
// below the data sheet's.
type Card struct {
	Name       string
	BF16, TF32 float64 // FLOP/s of a product of 8192³, accumulated in F32
	Bandwidth  float64 // bytes/s read and written
	Memory     int64
	Launch     time.Duration // for the host to launch a kernel
	Gap        time.Duration // from the end of a kernel to the start of its dependent kernel
}

// Cards are the GPUs of the predictions. Data sheets have 989 TFLOP/s in BF16 for the first two, without sparsity, with
// 3.35 and 4.8 TB/s, and 165 TFLOP/s with 1.01 TB/s for the third; twice as many operations in BF16 as in TF32.
var Cards = []Card{
	{Name: "H100 SXM, 80 GB", BF16: 740e12, TF32: 370e12, Bandwidth: 3.0e12, Memory: 80e9, Launch: 3 * time.Microsecond, Gap: time.Microsecond},
	{Name: "H200, 141 GB", BF16: 780e12, TF32: 390e12, Bandwidth: 4.3e12, Memory: 141e9, Launch: 3 * time.Microsecond, Gap: time.Microsecond},
	{Name: "RTX 4090, 24 GB", BF16: 155e12, TF32: 77e12, Bandwidth: 0.92e12, Memory: 24e9, Launch: 3 * time.Microsecond, Gap: time.Microsecond},
}

// inSteps is the speed of products in a step relative to large products: their last tiles do not
// fill the card.
const inSteps = 0.8

// seconds returns the time of work that multiplies and moves at the same time: the longer of the
// two.
func (c Card) seconds(w Work) float64 {
	rate := c.BF16
	if !w.BF16 {
		rate = c.TF32
	}
	return max(w.FLOPs/(inSteps*rate), float64(w.Bytes)/c.Bandwidth)
}

// A Prediction is the time of a step.
type Prediction struct {
	ByKind   [NumKinds]float64 // seconds
	Launches float64           // seconds in which the card waits for launches
}

// Predict sums the times of work done in order. Launches are hidden by the computation of other
// kernels if that takes longer; the gap after each kernel is not.
func (c Card) Predict(work []Work, launches int) Prediction {
	var p Prediction
	for _, w := range work {
		p.ByKind[w.Kind] += c.seconds(w)
	}
	computing := p.Seconds()
	p.Launches = max(float64(launches)*c.Gap.Seconds(), float64(launches)*c.Launch.Seconds()-computing)
	return p
}

// Seconds returns the total time of all kinds.
func (p Prediction) Seconds() float64 {
	sum := p.Launches
	for _, s := range p.ByKind {
		sum += s
	}
	return sum
}
