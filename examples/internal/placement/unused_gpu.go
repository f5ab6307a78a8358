package placement

import (
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/goggml/ggml"
)

// hintUnusedGPU says once, of a program that computes on the CPU because nobody has named a
// device, that the machine has a GPU, and how to get the plugin for it.
var hintUnusedGPU = sync.OnceFunc(func() { writeUnusedGPU(os.Stderr, ggml.UnusedGPU()) })

func writeUnusedGPU(w io.Writer, hint string) {
	if hint != "" {
		fmt.Fprintf(w, "%s (--device CPU computes without this line)\n", hint)
	}
}
