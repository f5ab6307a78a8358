//go:build !linux

package rpc

const pollHangUp = 0 // POLLHUP is always reported
