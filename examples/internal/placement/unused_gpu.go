package placement

import (
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/goggml/ggml"
)

// hintUnusedGPU reports once that the machine has a GPU and how to get its plugin, if the program computes on
// the CPU because no flag names a device.
var hintUnusedGPU = sync.OnceFunc(func() { writeUnusedGPU(os.Stderr, ggml.UnusedGPU()) })

func writeUnusedGPU(w io.Writer, hint string) {
	if hint != "" {
		fmt.Fprintf(w, "%s (--device CPU computes without this line)\n", hint)
	}
}
