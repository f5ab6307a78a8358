package progress

// RSS is the physical memory of this process in bytes, 0 if it is not known,
// as on macOS. It is safe for use by several goroutines, as are [PeakRSS] and
// [Available].
func RSS() uint64 { return rss() }

// PeakRSS is the largest RSS so far in bytes, 0 if it is not known.
func PeakRSS() uint64 { return peakRSS() }

// Available is how many bytes of memory can still be used without swapping,
// 0 if it is not known. On Linux it heeds the limits of the process's control
// groups, such as a container's.
func Available() uint64 { return available() }
