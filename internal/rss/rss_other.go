//go:build !unix

package rss

func maxrss() uint64 { return 0 }
