// Package fused computes the matrix products of sessions on the CPU in as few ops as possible: with
// matrices repacked into the layouts that the CPU multiplies fastest, and with fused adapters of
// all matrices that share an input. The products have no gradients.
package fused
