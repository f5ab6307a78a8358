package main

import (
	"os"
	"testing"
	"time"

	"github.com/goggml/ggml/internal/test/testutil"
)

func TestMain(m *testing.M) { testutil.Main(m) }

// A step of 8 samples: beyond eight machines, the others are idle.
func Example() {
	p := program{
		Step: 32 * time.Second, Samples: 8, Batch: 2, Gradients: 168, Tokens: 16384, Width: 4096,
		Bandwidth: 1, Latency: 100 * time.Microsecond, Machines: []int{1, 2, 8, 16},
	}
	if err := p.print(os.Stdout); err != nil {
		panic(err)
	}
	// Output:
	// machines  sharing samples  times as fast  sharing layers
	//          1              32s           1.00             32s
	//          2            16.4s           1.96           36.6s
	//          8            4.63s           6.91            1m4s
	//         16            4.69s           6.82           1m41s
}
