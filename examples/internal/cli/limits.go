package cli

import (
	"fmt"
	"os"

	"github.com/goggml/ggml/internal/filelink"
)

// openFiles is how many files a program may have open at once besides those that it is
// started with.
const openFiles = 32

// checkOpenFiles finds out before the work that there cannot be enough open files to
// write its result.
func checkOpenFiles() error {
	for i := range openFiles {
		file, err := os.Open(os.DevNull)
		if err != nil {
			return fmt.Errorf("%w after %d more; a program needs %d: raise the limit (ulimit -n)", filelink.SystemError(err), i, openFiles)
		}
		defer file.Close()
	}
	return nil
}
