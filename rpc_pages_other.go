//go:build !linux

package ggml

func faultIn([]byte) {} // its memory comes by page faults
