//go:build !linux

package mpi

// missing is for Linux, where a process sees the environment of others.
func (l Launch) missing() (fault string, willJoin bool) { return "", false }
