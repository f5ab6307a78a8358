//go:build race

package rpc

func init() { race = true }
