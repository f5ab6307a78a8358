//go:build !linux

package ggml

func faultIn([]byte) {} // its memory comes by page faults

func discard([]byte) bool { return false } // it is cleared by writing
