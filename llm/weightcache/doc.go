// Package weightcache keeps low-precision copies of frozen weights on devices that would convert the weights at each
// product; it is not for the matrices of sessions, which package model repacks.
//
// A [Cache] holds weights in the compute type, and transposed. Adapters are folded into them; the optimiser's results are copied there at the end of its submission. A trainer
// keeps as many as each device has memory for (train.Options.WeightCopies). Copies alone change no bit; folded
// adapters round otherwise, so a resumed run keeps no more than it did.
package weightcache
