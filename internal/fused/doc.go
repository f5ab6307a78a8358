// Package fused makes the products of sessions on the CPU in as few ops as there can be: of
// matrices that are repacked into the layouts in which it multiplies fastest, with the adapters
// of all that share an input. They have no gradients.
package fused
