package cli

import (
	"math"
	"os"
)

// If the program was started without a standard stream, using that stream fails. The runtime has
// opened the null device in its place, so that no other file takes its number; otherwise output
// would vanish silently, and input would be empty. Messages to a missing standard error are lost.
func init() {
	if closed(0) {
		nullDevices = append(nullDevices, os.Stdin)
		os.Stdin = os.NewFile(noFile, "standard input")
	}
	if closed(1) {
		nullDevices = append(nullDevices, os.Stdout)
		os.Stdout = os.NewFile(noFile, "standard output")
	}
}

// noFile is an invalid file descriptor.
const noFile = math.MaxInt32

// nullDevices keeps the null devices in place of streams from being closed as garbage.
var nullDevices []*os.File
