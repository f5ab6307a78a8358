package ggml_test

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// threadStatus returns the CPUs and the scheduling of the calling thread.
func threadStatus() (string, error) {
	var cpus unix.CPUSet
	if err := unix.SchedGetaffinity(0, &cpus); err != nil {
		return "", err
	}
	attr, err := unix.SchedGetAttr(0, 0)
	if err != nil {
		return "", err
	}
	return fmt.Sprint(cpus.Count(), cpus.IsSet(0), cpus.IsSet(1), attr.Policy, attr.Priority), nil
}
