// Package fused computes the matrix products of sessions on the CPU in as few ops as possible: with
// matrices repacked into the layouts in which the CPU multiplies fastest, and with the adapters of
// all matrices that share an input. They have no gradients.
package fused
