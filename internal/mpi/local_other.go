//go:build !linux

package mpi

// missing finds nothing: it needs Linux, where a process can read the environment of others.
func (l Launch) missing() (fault string, willJoin bool) { return "", false }
