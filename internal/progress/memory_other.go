//go:build !linux && !darwin

package progress

func rss() uint64       { return 0 }
func peakRSS() uint64   { return 0 }
func available() uint64 { return 0 }
