//go:build !linux

package fuzz

// residentBytes returns 0: the memory of the process is unknown.
func residentBytes() int64 { return 0 }
