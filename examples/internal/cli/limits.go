package cli

import (
	"fmt"
	"os"

	"github.com/goggml/ggml/internal/filelink"
)

// openFiles is how many files a program may open at once, besides those that are open at its start.
const openFiles = 32

// checkOpenFiles reports before the work starts if the limit of open files is too low to write the result.
func checkOpenFiles() error {
	for i := range openFiles {
		file, err := os.Open(os.DevNull)
		if err != nil {
			return fmt.Errorf("%w after %d more; the program needs %d: raise the limit (ulimit -n)", filelink.SystemError(err), i, openFiles)
		}
		defer file.Close()
	}
	return nil
}
