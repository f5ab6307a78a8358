// Command record makes a picture of a terminal from a real run:
//
//	record run COMMANDS >CAST      runs the commands of a file, line by line, and writes what they print, and when
//	record draw CAST >SVG         draws that as an animated SVG, light or dark as the reader's system is
//
// Recordings are asciicast files, version 2, of which one event is one line. A line of COMMANDS is run by sh; what
// stands behind " ## " is shown in place of the command (paths of this machine, for one), and lines that begin with # are
// shown as they are.
package main

import (
	"fmt"
	"os"
)

func main() {
	err := fmt.Errorf("usage: record run COMMANDS >CAST, or record draw CAST >SVG")
	if len(os.Args) == 3 {
		switch os.Args[1] {
		case "run":
			err = withFile(os.Args[2], record, os.Stdout)
		case "draw":
			err = withFile(os.Args[2], draw, os.Stdout)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "record:", err)
		os.Exit(1)
	}
}
