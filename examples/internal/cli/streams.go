package cli

import (
	"math"
	"os"
)

// A standard stream that the program was started without fails as it is used. The runtime has
// opened the null device in its place, so that no other file takes its number: what is
// written there would be lost without a word, and what is read there empty. Messages to
// standard error, if nobody wants them, are lost.
func init() {
	if closed(0) {
		os.Stdin = os.NewFile(noFile, "standard input")
	}
	if closed(1) {
		os.Stdout = os.NewFile(noFile, "standard output")
	}
}

// noFile is the number of no file.
const noFile = math.MaxInt32
