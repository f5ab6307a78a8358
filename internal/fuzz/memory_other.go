//go:build !linux

package fuzz

// residentBytes is the memory of the process, 0 where it cannot be told.
func residentBytes() int64 { return 0 }
