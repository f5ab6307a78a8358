//go:build !linux

package ggml

const pollHangUp = 0 // POLLHUP is told anyway
